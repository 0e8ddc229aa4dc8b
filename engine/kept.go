package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/parts"
)

// keptOfStrays is what is read of unmanaged objects.
var keptOfStrays = children.ReadOfMetadata()

// keptOfChildren returns what kinds read of children of a type: everything if one corrects their
// fields.
func keptOfChildren(gvk schema.GroupVersionKind, kinds []*kind.Kind) *parts.Set {
	keep := keptOfStrays.Union(children.ReadOfReadiness(gvk))
	for _, k := range kinds {
		switch {
		case !slices.Contains(k.Owns, gvk):
		case k.Corrected.Has(gvk):
			return parts.Everything()
		default:
			keep = keep.Union(k.ReadOfChildren())
		}
	}
	return keep
}
