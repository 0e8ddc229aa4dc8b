package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const treeKind = `
package tree

import "fescue.dev/cue/contract"

#Tree: {
	apiVersion!: "tree.example.com/v1", kind!: "Tree", metadata!: {name!: string, namespace?: string, ...}
	spec: {leaves: *0 | int}
	status?: contract.#Status
}
#TreeController: contract.#Controller & {
	object!: #Tree
	names: plural: "trees"
	owns: [{apiVersion: "tree.example.com/v1", kind: "Tree"}, {apiVersion: "v1", kind: "Pod"}]
	children: {
		leaf: {replicas: object.spec.leaves, template: {apiVersion: "tree.example.com/v1", kind: "Tree", metadata: {}}}
	}
}
`

// repeating applies the creation of n children for an owner, and returns what happened.
func repeating(t *testing.T, c *controller, owner *unstructured.Unstructured, n int, of schema.GroupVersionKind, resource schema.GroupVersionResource) *plan.Changes {
	t.Helper()
	todo := &plan.Comparison{}
	for i := range n {
		wanted := &unstructured.Unstructured{}
		wanted.SetGroupVersionKind(of)
		wanted.SetName(fmt.Sprintf("%s-%d", owner.GetName(), i))
		wanted.SetNamespace(owner.GetNamespace())
		todo.Steps = append(todo.Steps, plan.Step{Verb: plan.Create, Child: "leaf", Resource: resource, Name: wanted.GetName(), Wanted: wanted})
	}
	r := c.reconciliation(cache.MetaObjectToName(owner), quiet())
	return r.CarryOut(t.Context(), owner, todo)
}

// From one root on, a thousand children that lead back to their own type are created at once, in each namespace. Others
// are not counted, and nothing is created for what is about to be collected.
func TestChildrenThatLeadBackAreCounted(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, treeKind)
	trees := k.GroupVersionResource()
	tree := func(name, namespace, owner string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(k.GroupVersionKind)
		o.SetName(name)
		o.SetNamespace(namespace)
		o.SetUID("uid-of-root")
		if owner != "" {
			o.SetUID("uid-of-a-child")
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "tree.example.com/v1", Kind: "Tree", Name: owner, UID: "uid-of-root", Controller: new(true)}})
		}
		return o
	}
	// forged is in another namespace and has the marks of a child of the root.
	forged := tree("forged", "other", "")
	forged.SetUID("uid-of-forged")
	forged.SetLabels(map[string]string{children.LabelOwnerUID: "uid-of-root"})
	forged.SetAnnotations(map[string]string{children.AnnotationOwner: "trees.tree.example.com/default/root"})

	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", trees: "TreeList"}, tree("root", "default", ""))
	client.PrependReactor("list", "trees", func(action clienttesting.Action) (bool, runtime.Object, error) { // the fake ignores field selectors
		name, _ := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("metadata.name")
		found, err := client.Tracker().Get(trees, action.GetNamespace(), name)
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: trees.Group, Version: trees.Version, Kind: "TreeList"})
		if err == nil {
			list.Items = append(list.Items, *found.(*unstructured.Unstructured))
		}
		return true, list, nil
	})
	m := meta.NewDefaultRESTMapper(nil)
	m.AddSpecific(k.GroupVersionKind, trees, trees, meta.RESTScopeNamespace)
	e, err := New(Config{Client: client, Mapper: m, Log: quiet()})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	c.resource = trees
	created := func(done *plan.Changes) int {
		require.NoError(t, done.Failed)
		return len(done.Stored)
	}

	require.Equal(t, 600, created(repeating(t, c, tree("root", "default", ""), 600, k.GroupVersionKind, trees)))
	full := repeating(t, c, tree("child", "default", "root"), 600, k.GroupVersionKind, trees)
	require.InDelta(t, 400, created(full), 60, "the bucket may refill for a minute")
	require.ErrorContains(t, full.Rejected, `child "leaf": it is not created yet: kinds and decorators whose children lead back to them created 1000 objects from Tree "default/root" on; now they create 60 a minute`)
	require.Equal(t, 50, created(repeating(t, c, tree("child", "default", "root"), 50, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, pods)), "Pods do not lead back")
	require.Equal(t, 50, created(repeating(t, c, forged, 50, k.GroupVersionKind, trees)), "counted apart")

	require.NoError(t, client.Resource(trees).Namespace("default").Delete(t.Context(), "root", metav1.DeleteOptions{}))
	gone := repeating(t, c, tree("late", "default", "root"), 1, k.GroupVersionKind, trees)
	require.Zero(t, created(gone))
	require.NoError(t, gone.Rejected)
	require.True(t, gone.Waiting)
}
