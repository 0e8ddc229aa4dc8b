package plan

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
)

// projected returns a view of children of which only what is read exists.
func projected(t *testing.T, k *kind.Kind, v *View) *View {
	t.Helper()
	part := func(u *unstructured.Unstructured, keep *parts.Set) *unstructured.Unstructured {
		text, err := json.Marshal(u.Object)
		require.NoError(t, err)
		o, err := projection.To(keep).Parse(text)
		require.NoError(t, err)
		return o.Unstructured()
	}
	metadata := children.ReadOfMetadata()
	less := *v
	less.Children = nil
	for _, child := range v.Children {
		keep := metadata.Union(children.ReadOfReadiness(child.Object.GroupVersionKind())).Union(k.ReadOfChildren())
		less.Children = append(less.Children, children.Of(child.Resource, part(child.Object, keep)))
	}
	less.Strays = nil
	for _, s := range v.Strays {
		s.Objects = slices.Clone(s.Objects)
		for i, object := range s.Objects {
			s.Objects[i] = part(object, metadata)
		}
		less.Strays = append(less.Strays, s)
	}
	return &less
}
