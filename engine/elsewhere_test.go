package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const farKind = `
package far

import "fescue.dev/cue/contract"

#Kept: {
	apiVersion!: "kept.example.com/v1", kind!: "Kept", metadata!: {name!: string, namespace?: string, ...}
	spec: {in: *"a" | string}
	status?: contract.#Status
}
#KeptController: contract.#Controller & {
	object!: #Kept
	names: plural: "kepts"
	children: pod: template: {apiVersion: "v1", kind: "Pod", metadata: {name: "p", namespace: object.spec.in}, spec: containers: [{name: "c", image: "c"}]}
}
`

var podPlaces = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
	map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "a"},
	map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "b"},
}}}

// An object stays until its children can be read in all namespaces in which it may have some. Those that can
// be read are deleted meanwhile.
func TestWhatCannotBeReadIsNotForgotten(t *testing.T) {
	t.Parallel()
	object := keptObject(onDelete)
	object.Object["status"] = podPlaces
	object.SetDeletionTimestamp(new(metav1.Now()))
	var finalizers []any
	c, written := keepingBy(t, enginetest.Kind(t, farKind), object, func(body map[string]any) error {
		finalizers, _, _ = unstructured.NestedSlice(body, "metadata", "finalizers")
		return nil
	})
	client := c.config.Client.(*fake.FakeDynamicClient)
	child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "p", "namespace": "b", "uid": "p", "labels": map[string]any{"fescue.dev/owner-uid": "1"}, "annotations": map[string]any{"fescue.dev/created-as": "Pod/p@b/pod"},
	}}}
	require.NoError(t, client.Tracker().Add(child))
	isDenied := true
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if isDenied && action.GetNamespace() == "a" {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return false, nil, nil
	})
	var status map[string]any
	client.PrependReactor("update", "kepts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		status = action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured).Object["status"].(map[string]any)
		return false, nil, nil
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, []string{"update status"}, *written)
	require.Equal(t, []any{
		map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "a"},
		map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "b", "children": map[string]any{"p": "p"}},
	}, status["childInventory"].(map[string]any)["elsewhere"])
	require.Contains(t, status["conditions"].([]any)[0].(map[string]any)["message"],
		"children of type Pod cannot be read: pods is forbidden: <nil>; the object stays until they can be, or its finalizer fescue.dev/on-delete is removed")
	_, err := client.Resource(pods).Namespace("b").Get(t.Context(), "p", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	isDenied = false
	c.queue.Add(cache.MetaObjectToName(object))
	require.True(t, c.work(t.Context()))
	require.NotNil(t, finalizers)
	require.Empty(t, finalizers)
}

// A recorded child that no cache has is read, unless the API server has answered that its deletion has begun: a request without an answer may not
// have arrived, and the object would be let go.
func TestRecordedChildMayExist(t *testing.T) {
	t.Parallel()
	for name, isAnswered := range map[string]bool{"deleted": true, "no answer": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := keptObject(onDelete)
			object.Object["status"] = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
				map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": "b", "children": map[string]any{"p": "p"}},
			}}}
			c, _ := keepingBy(t, enginetest.Kind(t, farKind), object, func(map[string]any) error { return nil })
			child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
				"name": "p", "namespace": "b", "uid": "p", "annotations": map[string]any{"fescue.dev/created-as": "Pod/p@b/pod"},
			}}}
			require.NoError(t, c.config.Client.(*fake.FakeDynamicClient).Tracker().Add(child))
			owner := cache.MetaObjectToName(object)
			c.records.rememberDelete(owner, object.GetUID(), pods, child, isAnswered)
			v := new(plan.View)
			require.NoError(t, c.reconciliation(owner, quiet()).readKnown(t.Context(), object, v))
			require.Equal(t, isAnswered, len(v.Children)+len(v.Unmarked) == 0)
		})
	}
}

// A cache that is behind, as after a change of the leader, shows an object as it was when it had children
// elsewhere. Nothing would delete what is created then.
func TestStaleCacheCreatesNothingElsewhere(t *testing.T) {
	t.Parallel()
	listing := func(change func(*unstructured.Unstructured)) *unstructured.Unstructured {
		object := keptObject(onDelete)
		object.Object["status"] = podPlaces
		change(object)
		return object
	}
	for name, test := range map[string]struct {
		stored  []runtime.Object
		created bool
	}{
		"as it was":          {[]runtime.Object{listing(func(*unstructured.Unstructured) {})}, true},
		"is gone":            {nil, false},
		"is being deleted":   {[]runtime.Object{listing(func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.Now())) })}, false},
		"has a successor":    {[]runtime.Object{listing(func(o *unstructured.Unstructured) { o.SetUID("2") })}, false},
		"has none there now": {[]runtime.Object{keptObject(onDelete)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := enginetest.Kind(t, farKind)
			client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
				map[schema.GroupVersionResource]string{pods: "PodList", k.GroupVersionResource(): "KeptList"}, test.stored...)
			e, err := New(Config{Client: client, Log: quiet()})
			require.NoError(t, err)
			c := newController(k, &e.config, e.shards, 0)
			t.Cleanup(c.queue.ShutDown)
			c.resource = k.GroupVersionResource()
			owner := listing(func(*unstructured.Unstructured) {})
			r := c.reconciliation(cache.MetaObjectToName(owner), quiet())
			wanted := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "p", "namespace": "a"}}}
			done := r.CarryOut(t.Context(), owner, &plan.Comparison{Steps: []plan.Step{{Verb: plan.Create, Child: "pod", Resource: pods, Name: "p", Wanted: wanted}}})
			require.NoError(t, done.Failed)
			require.NoError(t, done.Rejected)
			require.Equal(t, !test.created, done.Waiting)
			_, err = client.Resource(pods).Namespace("a").Get(t.Context(), "p", metav1.GetOptions{})
			require.Equal(t, !test.created, apierrors.IsNotFound(err), "%v", err)
		})
	}
}
