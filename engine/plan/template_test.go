package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// What admission was not asked about is not created, whatever the status says.
func TestChildInAnUnknownPlace(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	owner.SetNamespace("")
	config := schema.GroupKind{Kind: "ConfigMap"}
	template := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "kube-system"}}
	owner.Object["status"] = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "kube-system"},
	}}}
	v := &View{Types: map[schema.GroupVersionKind]ChildType{config.WithVersion("v1"): {IsNamespaced: true}}, Normalized: children.NewNormalized()}
	for name, test := range map[string]struct {
		places  kind.Places
		message string
	}{
		"asked about":        {places: kind.Places{config: {"team-a", "kube-system"}}},
		"asked about all":    {},
		"not asked about":    {places: kind.Places{config: {"team-a"}}, message: `child "c": metadata.namespace: Forbidden: "kube-system" does not follow from what the user submitted`},
		"asked about no one": {places: kind.Places{config: nil}, message: "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Compare(&Plan{Kind: k, Object: owner, Children: []kind.Child{{Name: "c", Template: template}}, places: test.places}, v)
			if test.message == "" {
				require.NoError(t, c.Rejected)
				require.Len(t, c.Steps, 1)
				return
			}
			require.ErrorContains(t, c.Rejected, test.message)
			require.Empty(t, c.Steps)
		})
	}
}
