package plan

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// A type that the kind no longer owns stays in the inventory while it has children, or while they
// cannot be read.
func TestFormerTypes(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, odd)
	secret := schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	owner := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "odd.example.com/v1", "kind": "A", "spec": map[string]any{"case": "none"},
		"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner"},
		"status": map[string]any{"childInventory": map[string]any{"types": []any{
			map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, map[string]any{"apiVersion": "v1", "kind": "Secret"},
		}}},
	}}
	require.Equal(t, []schema.GroupVersionKind{secret}, FormerTypes(k, owner))
	former := func(of children.Origin) children.Live {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "o-s", "namespace": "default", "uid": "s"}}}
		of.Mark(k, owner, object)
		return children.Of(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, object)
	}
	for name, tc := range map[string]struct {
		live   []children.Live
		err    error
		prunes string
		keeps  bool
		pruned string
	}{
		"a child is left":            {live: []children.Live{former(children.Origin{Child: "s"})}, prunes: "delete o-s", keeps: true},
		"a child of a phase is left": {live: []children.Live{former(children.Origin{Child: "s", Phase: "RUNNING"})}},
		"nothing is left":            {},
		"it cannot be read":          {err: errors.New("secrets is forbidden"), keeps: true, pruned: "children of type Secret may be left from an earlier version of the kind: secrets is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &View{Children: tc.live, Normalized: children.NewNormalized(), Former: map[schema.GroupVersionKind]error{secret: tc.err}}
			p := Decide(k, owner, v, now)
			c := Compare(p, v)
			require.Equal(t, tc.prunes, describe(c.Prunes))
			o := outcomeOf(p, c, &Changes{}, v)
			status, err := Report(p, o)
			require.NoError(t, err)
			_, _, message := conditionIn(status, kind.ConditionPruned)
			require.Equal(t, tc.pruned, message)
			stored := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			require.Equal(t, tc.keeps, len(children.InventoryOf(stored).Types) == 3, children.InventoryOf(stored).Types)
			require.Equal(t, tc.pruned != "", o.WakeAt.Equal(now.Add(formerRetry)))
		})
	}
}
