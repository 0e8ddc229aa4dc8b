package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// overwrite gives an object a merge patch, as the manager "policy", whenever someone has changed
// it so that undone holds. The returned function stops that.
func (c *cluster) overwrite(resource schema.GroupVersionResource, name, patch string, undone func(*unstructured.Unstructured) bool) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	present, events := c.watch(resource, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	change := func(object *unstructured.Unstructured) {
		if undone(object) {
			_, _ = c.objects(resource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "policy"}) // the next event shows a failure
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range present {
			change(&present[i])
		}
		for {
			select {
			case <-ctx.Done():
				return
			case event, ok := <-events:
				if !ok {
					return
				}
				if object, ok := event.Object.(*unstructured.Unstructured); ok {
					change(object)
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// awaitContested waits until an object is Stalled because a child is contested, and returns the
// message.
func (c *cluster) awaitContested(resource schema.GroupVersionResource, name string) string {
	c.t.Helper()
	object := c.await(resource, name, "contested", func(o *unstructured.Unstructured) bool {
		_, reason, _ := condition(o, "Stalled")
		return reason == "Contested"
	})
	_, reason, message := condition(object, "Ready")
	require.Equal(c.t, "Contested", reason)
	return message
}

// requireSlow waits until enough writes to a path have been counted to see that they are slowed
// down, and requires that they are: five at once, and then after 1, 2, 4, … s.
func (c *cluster) requireSlow(began time.Time, path string) {
	c.t.Helper()
	writes := func() (n int) {
		for _, request := range c.requestPaths() {
			if request == path {
				n++
			}
		}
		return n
	}
	require.True(c.t, testcluster.WaitUntil(func() bool { return writes() >= 8 }), "corrections end")
	elapsed := int(time.Since(began) / time.Second)
	require.GreaterOrEqual(c.t, elapsed, 1+2, "seconds for eight writes")
	require.LessOrEqual(c.t, writes(), 6+bits.Len(uint(elapsed+1)), "writes in %d s", elapsed)
	c.t.Logf("%d writes in %d s", writes(), elapsed)
}

// A child that another client changes back each time is corrected at growing intervals, and the
// status shows who changes what.
func TestContestedChildIsCorrectedSlowly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patch  string
		undone func(*unstructured.Unstructured) bool
		want   string
	}{
		"annotation": {
			`{"metadata":{"annotations":{"fescue.dev/template":"theirs"}}}`,
			func(o *unstructured.Unstructured) bool { return o.GetAnnotations()["fescue.dev/template"] != "theirs" },
			`child "config": configmaps "w-config": manager "policy" keeps changing metadata.annotations[fescue.dev/template]; corrections are delayed`,
		},
		"label": {
			`{"metadata":{"labels":{"fescue.dev/child":"theirs"}}}`,
			func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/child"] != "theirs" },
			`child "config": configmaps "w-config": manager "policy" keeps changing metadata.labels[fescue.dev/child]; corrections are delayed`,
		},
		"field": {
			`{"data":{"a":"theirs"}}`,
			func(o *unstructured.Unstructured) bool {
				value, _, _ := unstructured.NestedString(o.Object, "data", "a")
				return value != "theirs"
			},
			`child "config": configmaps "w-config": manager "policy" keeps changing data.a; corrections are delayed`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.start()
			c.createWatcher("w", map[string]any{"a": "ours"})
			c.awaitReady(watchers, "w")
			c.proxy.requests.reset()
			began := time.Now()
			stop := c.overwrite(configMaps, "w-config", tc.patch, tc.undone)
			defer stop()
			require.Equal(t, tc.want, c.awaitContested(watchers, "w"))
			c.awaitEvent("w", "Contested")
			c.requireSlow(began, "PATCH /api/v1/namespaces/"+c.namespace+"/configmaps/w-config")

			// A new spec is written at once, and ends the contest when the other gives in.
			stop()
			c.patch(watchers, "w", `{"spec":{"configData":{"a":"new"}}}`)
			c.awaitReady(watchers, "w")
		})
	}
}

// mutateConfigMaps has a policy change all ConfigMaps of the namespace that are written, and returns when it does so to a
// ConfigMap with some fields.
func (c *cluster) mutateConfigMaps(mutation, fields map[string]any, isMutated func(*unstructured.Unstructured) bool) {
	c.t.Helper()
	name := c.namespace + ".example.com"
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	policy := newObject(group.WithResource("mutatingadmissionpolicies"), "MutatingAdmissionPolicy", name, map[string]any{
		"reinvocationPolicy": "Never",
		"matchConstraints": map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": c.namespace}},
			"resourceRules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"configmaps"}, "operations": []any{"CREATE", "UPDATE"},
			}},
		},
		"mutations": []any{mutation},
	})
	binding := newObject(group.WithResource("mutatingadmissionpolicybindings"), "MutatingAdmissionPolicyBinding", name, map[string]any{"policyName": name})
	for _, object := range []*unstructured.Unstructured{policy, binding} {
		resource := group.WithResource(strings.Replace(strings.ToLower(object.GetKind())+"s", "policys", "policies", 1))
		_, err := c.client.Resource(resource).Create(c.t.Context(), object, metav1.CreateOptions{})
		require.NoError(c.t, err)
		c.t.Cleanup(func() {
			require.NoError(c.t, c.client.Resource(resource).Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
	}
	require.True(c.t, testcluster.WaitUntil(func() bool {
		wanted := newObject(configMaps, "ConfigMap", fmt.Sprint("try-", time.Now().UnixNano()), nil)
		maps.Copy(wanted.Object, fields)
		tried, err := c.objects(configMaps).Create(c.t.Context(), wanted, dryRun)
		return err == nil && isMutated(tried)
	}), "the policy is not in effect")
}

// A policy that changes each write on its way has no manager.
func TestChildContestedByAPolicy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.mutateConfigMaps(map[string]any{
		"patchType":          "ApplyConfiguration",
		"applyConfiguration": map[string]any{"expression": `Object{metadata: Object.metadata{annotations: {"fescue.dev/template": "theirs"}}}`},
	}, nil, func(tried *unstructured.Unstructured) bool {
		return tried.GetAnnotations()["fescue.dev/template"] == "theirs"
	})

	c.start()
	c.proxy.requests.reset()
	began := time.Now()
	c.createWatcher("w", map[string]any{"a": "ours"})
	require.Equal(t, `child "config": configmaps "w-config" is changed repeatedly without another field manager, as by a mutating webhook or policy: metadata.annotations[fescue.dev/template]; corrections are delayed`, c.awaitContested(watchers, "w"))
	c.requireSlow(began, "PATCH /api/v1/namespaces/"+c.namespace+"/configmaps/w-config")
}

// A field that a policy removes from a child is reported, and not written again and again.
func TestFieldRemovedByAPolicy(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.mutateConfigMaps(map[string]any{
		"patchType": "JSONPatch",
		"jsonPatch": map[string]any{"expression": `has(object.data) && "gone" in object.data ? [JSONPatch{op: "remove", path: "/data/gone"}] : []`},
	}, map[string]any{"data": map[string]any{"gone": "x", "kept": "x"}}, func(tried *unstructured.Unstructured) bool {
		data, _, _ := unstructured.NestedStringMap(tried.Object, "data")
		return maps.Equal(data, map[string]string{"kept": "x"})
	})

	c.start()
	c.proxy.requests.reset()
	c.createWatcher("w", map[string]any{"gone": "x", "kept": "y"})
	_, _, message := condition(c.awaitReady(watchers, "w"), "Altered")
	require.Equal(t, `child "config": configmaps "w-config" has other values than its template, as after a mutating policy or webhook: data.gone`, message)
	require.NotContains(t, c.requestPaths(), "PATCH /api/v1/namespaces/"+c.namespace+"/configmaps/w-config")
}
