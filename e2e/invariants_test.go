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

	"github.com/fescue-dev/fescue/internal/testcluster"
)

var subsets = flag.Int("subsets", 8, "subsets of what can happen that TestInvariantsOnTheAPIServer tries; 64 are all")

// happening is something that happens to a Customcluster from outside.
type happening struct {
	name string
	do   func(c *cluster, random *rand.Rand)
}

func (c *cluster) anyMember(random *rand.Rand) string {
	list, err := c.client.Resource(pods).Namespace(c.namespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: "controller=c"})
	require.NoError(c.t, err)
	if len(list.Items) == 0 {
		return "c-0"
	}
	return list.Items[random.IntN(len(list.Items))].GetName()
}

// TestInvariantsOnTheAPIServer has things happen to a Customcluster, each subset of them in a
// random order and none waiting for another, and requires that it comes to rest as it says.
// The same against the pure plan, in every subset, is engine's TestInvariantsOfSets.
func TestInvariantsOnTheAPIServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	happenings := []happening{
		{"spec change", func(c *cluster, random *rand.Rand) {
			c.patch(customclusters, "c", fmt.Sprintf(`{"spec":{"count":%d,"message":"m%d"}}`, random.IntN(5), random.IntN(3)))
		}},
		{"child deleted", func(c *cluster, random *rand.Rand) {
			err := c.client.Resource(pods).Namespace(c.namespace).Delete(t.Context(), c.anyMember(random), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}},
		{"child edited", func(c *cluster, random *rand.Rand) {
			_, err := c.client.Resource(pods).Namespace(c.namespace).Patch(t.Context(), c.anyMember(random), "application/merge-patch+json",
				[]byte(`{"metadata":{"ownerReferences":null,"labels":{"fescue.dev/owner-uid":null,"fescue.dev/child":null}}}`), metav1.PatchOptions{})
			if !apierrors.IsNotFound(err) {
				require.NoError(t, err)
			}
		}},
		{"stray added", func(c *cluster, _ *rand.Rand) {
			c.create(pods, "Pod", "", map[string]any{
				"metadata": map[string]any{"generateName": "stray-", "labels": map[string]any{"controller": "c"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}},
			})
		}},
		{"operator restarted", func(c *cluster, _ *rand.Rand) {
			o.kill()
			o = c.launch()
		}},
		{"conflict", func(c *cluster, random *rand.Rand) {
			// Who writes the object while a pass is on its way has the pass overtaken.
			for i := range 5 {
				c.patch(customclusters, "c", fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d-%d"}}}`, i, random.Int()))
			}
		}},
	}
	c.createCustomcluster("c", 3, "m")
	c.awaitReady(customclusters, "c")
	random := rand.New(rand.NewPCG(3, 4))
	for _, subset := range random.Perm(1 << len(happenings))[:*subsets] {
		var history []string
		for _, i := range random.Perm(len(happenings)) {
			if subset&(1<<i) != 0 {
				history = append(history, happenings[i].name)
				happenings[i].do(c, random)
			}
		}
		var reason string
		require.True(t, testcluster.WaitUntil(func() bool {
			reason = c.notAsWanted("c")
			return reason == ""
		}), "%v: %s", history, reason)
	}
}

// notAsWanted says in what the Pods of a Customcluster are not as it says; it is empty at
// rest.
func (c *cluster) notAsWanted(name string) string {
	owner, err := c.get(customclusters, name)
	require.NoError(c.t, err)
	count, _, _ := unstructured.NestedInt64(owner.Object, "spec", "count")
	message, _, _ := unstructured.NestedString(owner.Object, "spec", "message")
	list, err := c.client.Resource(pods).Namespace(c.namespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: "controller=" + name})
	require.NoError(c.t, err)
	alive := int64(0)
	for _, pod := range list.Items {
		if pod.GetDeletionTimestamp() != nil {
			continue
		}
		alive++
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		env, _, _ := unstructured.NestedSlice(containers[0].(map[string]any), "env")
		if !metav1.IsControlledBy(&pod, owner) || len(env) != 1 || env[0].(map[string]any)["value"] != message {
			return pod.GetName() + " is not of this template, or not ours"
		}
	}
	status, _, _ := condition(owner, "Ready")
	observed, _, _ := unstructured.NestedInt64(owner.Object, "status", "observedGeneration")
	if alive != count || statusCount(owner) != count || status != "True" || observed != owner.GetGeneration() {
		return fmt.Sprintf("%d Pods of %d, status %v", alive, count, owner.Object["status"])
	}
	return ""
}
