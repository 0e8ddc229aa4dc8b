package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// An object that waits in a phase after its deletion goes when its namespace does, whatever it waits for; an object that
// does not wait is not asked about.
func TestNamespaceLeavesWithItsObjects(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package guard

import "fescue.dev/cue/contract"

#Guard: {
	apiVersion!: "guards.example.com/v1", kind!: "Guard", metadata!: {name!: string, ...}
	spec: n: *1 | int & <=9
	status?: {contract.#Status, phase?: "WAITING" | "FAILED" | "GONE"}
}
#GuardController: contract.#Controller & {
	object!: #Guard
	observed: _
	names: plural: "guards"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: base: template: {apiVersion: "v1", kind: "ConfigMap"}
	onDelete: "WAITING"
	phases: {
		WAITING: {
			children: note: {update: "Never", template: {apiVersion: "v1", kind: "ConfigMap", data: base: observed.base.metadata.name}}
			next: [{to: "FAILED", when: observed.note.data.base == "x"}]
		}
		FAILED: next: [{to: "GONE", when: object.spec.n == 2}]
		GONE: terminal: true
	}
}
`)
	for name, tc := range map[string]struct {
		phase   string
		n       int64
		created bool
		asked   bool
	}{
		"its child waits for what is gone": {phase: "WAITING", asked: true},
		"its child is gone":                {phase: "WAITING", created: true, asked: true},
		"it waits for someone":             {phase: "FAILED", asked: true},
		"it is invalid":                    {phase: "WAITING", n: 10, asked: true},
		"it has not entered the phase":     {},
		"it is about to go":                {phase: "FAILED", n: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "guards.example.com/v1", "kind": "Guard",
				"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "u"},
				"spec":     map[string]any{"n": max(tc.n, 1)},
			}}
			object.SetFinalizers([]string{Finalizer})
			object.SetDeletionTimestamp(new(metav1.NewTime(now)))
			if tc.phase != "" {
				status := map[string]any{"phase": tc.phase, "conditions": []any{map[string]any{
					"type": "Deleting", "status": "True", "reason": tc.phase, "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z",
				}}}
				if tc.created {
					status["childInventory"] = map[string]any{"created": map[string]any{"note": "gone"}}
				}
				object.Object["status"] = status
			}
			leaving := false
			v := &View{
				Normalized: children.NewNormalized(), Types: map[schema.GroupVersionKind]ChildType{k.Owns[0]: {Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, IsNamespaced: true}},
			}
			outcome := func() (o *Outcome, isAsked bool) {
				_, o = converge(k, object, v, now, func(todo *Comparison) *Changes {
					isAsked = isAsked || todo.Try != nil
					return &Changes{Obstacles: Obstacles{Held: true}, NamespaceLeaving: todo.Try != nil && leaving}
				})
				return o, isAsked
			}
			o, isAsked := outcome()
			require.False(t, o.isOver)
			require.Equal(t, tc.asked, isAsked)
			require.Equal(t, tc.asked, o.lingers)
			leaving = true
			o, _ = outcome()
			require.Equal(t, tc.asked, o.isOver)
		})
	}
}
