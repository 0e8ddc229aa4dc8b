package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// The garbage collector orphaned the children of an object that is being deleted, and the cache still shows their owner
// references: none is deleted, whether it is wanted or not, and none keeps the object in a phase.
func TestOrphansAreNotPruned(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package orphans

import "fescue.dev/cue/contract"

#Parent: {
	apiVersion!: "orphans.example.com/v1", kind!: "Parent", metadata!: {name!: string, ...}
	spec: {on: *true | bool, go: *false | bool}
	status?: contract.#Status
}
#ParentController: contract.#Controller & {
	object!: #Parent
	names: plural: "parents"
	children: {if object.spec.on {config: template: {apiVersion: "v1", kind: "ConfigMap"}}}
	onDelete: "WAITING"
	phases: {
		WAITING: next: [{to: "GONE", when: object.spec.go}]
		GONE: terminal: true
	}
}
`)
	for name, spec := range map[string]map[string]any{
		"it is wanted":   {},
		"an if drops it": {"on": false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &far{t, k, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "orphans.example.com/v1", "kind": "Parent", "spec": map[string]any{},
				"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "finalizers": []any{Finalizer}},
			}}, &View{Types: map[schema.GroupVersionKind]ChildType{configMapKind: {Resource: configs, IsNamespaced: true}}, Normalized: children.NewNormalized()}}
			f.converge()
			require.Len(t, f.view.Children, 1)
			f.owner.SetDeletionTimestamp(new(metav1.NewTime(time.Now())))
			f.converge()
			require.True(t, hasLeft(f.owner))

			f.view.Orphaning = true
			f.owner.Object["spec"] = spec
			o, steps := f.converge()
			require.Empty(t, steps)
			require.False(t, o.isOver)
			require.NoError(t, unstructured.SetNestedField(f.owner.Object, true, "spec", "go"))
			for range 2 {
				o, steps = f.converge()
				require.Empty(t, steps)
			}
			require.True(t, o.isOver)
		})
	}
}
