package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var subsets = flag.Int("subsets", 8, "subsets of disturbances that TestInvariantsOnTheAPIServer tries, of 64")

// disturbance is a change to a Customcluster or its Pods from outside.
type disturbance struct {
	name string
	do   func(c *cluster, random *rand.Rand)
}

func (c *cluster) anyMember(random *rand.Rand) string {
	list := c.list(pods, "controller=c")
	if len(list) == 0 {
		return "c-00000-0"
	}
	return list[random.IntN(len(list))].GetName()
}

// TestInvariantsOnTheAPIServer disturbs a Customcluster by subsets of disturbances, each in a
// random order and without waiting, and requires that it gets in sync. TestInvariantsOfSets tries
// every subset against the pure plan.
func TestInvariantsOnTheAPIServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	disturbances := []disturbance{
		{"spec change", func(c *cluster, random *rand.Rand) {
			c.patch(customclusters, "c", fmt.Sprintf(`{"spec":{"count":%d,"message":"m%d"}}`, random.IntN(5), random.IntN(3)))
		}},
		{"child deleted", func(c *cluster, random *rand.Rand) {
			err := c.objects(pods).Delete(t.Context(), c.anyMember(random), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}},
		{"child edited", func(c *cluster, random *rand.Rand) {
			_, err := c.objects(pods).Patch(t.Context(), c.anyMember(random), "application/merge-patch+json",
				[]byte(`{"metadata":{"ownerReferences":null,"labels":{"fescue.dev/owner-uid":null,"fescue.dev/child":null}}}`), metav1.PatchOptions{})
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}},
		{"unmanaged Pod added", func(c *cluster, _ *rand.Rand) {
			c.create(pods, "Pod", "", map[string]any{
				"metadata": map[string]any{"generateName": "unmanaged-", "labels": map[string]any{"controller": "c"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}},
			})
		}},
		{"operator restarted", func(c *cluster, _ *rand.Rand) {
			o.kill()
			o = c.launch()
		}},
		{"conflict", func(c *cluster, random *rand.Rand) {
			// A write during a reconcile makes its status outdated.
			for i := range 5 {
				c.patch(customclusters, "c", fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d-%d"}}}`, i, random.Int()))
			}
		}},
	}
	c.createCustomcluster("c", 3, "m")
	c.awaitReady(customclusters, "c")
	random := rand.New(rand.NewPCG(3, 4))
	for _, subset := range random.Perm(1 << len(disturbances))[:*subsets] {
		var history []string
		for _, i := range random.Perm(len(disturbances)) {
			if subset&(1<<i) != 0 {
				history = append(history, disturbances[i].name)
				disturbances[i].do(c, random)
			}
		}
		var reason string
		require.True(t, testcluster.WaitUntil(func() bool {
			reason = c.notInSync("c")
			return reason == ""
		}), "%v: %s", history, reason)
	}
}

// notInSync returns how a Customcluster differs from its spec, or nothing if it is in sync.
func (c *cluster) notInSync(name string) string {
	owner, err := c.get(customclusters, name)
	require.NoError(c.t, err)
	count, _, _ := unstructured.NestedInt64(owner.Object, "spec", "count")
	message, _, _ := unstructured.NestedString(owner.Object, "spec", "message")
	alive := int64(0)
	for _, pod := range c.list(pods, "controller="+name) {
		if pod.GetDeletionTimestamp() != nil {
			continue
		}
		alive++
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		env, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "env")
		if !metav1.IsControlledBy(&pod, owner) || len(env) != 1 || env[0].(map[string]any)["value"] != message {
			return pod.GetName() + " is not of this template, or has another owner"
		}
	}
	observed, _, _ := unstructured.NestedInt64(owner.Object, "status", "observedGeneration")
	if alive != count || statusCount(owner) != count || !isTrue(owner, "Ready") || observed != owner.GetGeneration() {
		return fmt.Sprintf("%d Pods of %d, status %v", alive, count, owner.Object["status"])
	}
	return ""
}
