package cli

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/manifest"
)

// unknownKind returns the finding for an object of an unknown kind, placed at the field that is
// wrong.
func (v *vetter) unknownKind(object manifest.Object, gvk schema.GroupVersionKind) finding {
	why := v.catalog.WhyUnknown(gvk)
	reason := why.Reason
	if why.Elsewhere {
		reason += "; --kinds adds kinds" + v.hint
	}
	place := object.Locate(why.Field).Value
	f := about(object)
	f.Type = unknownKindType
	f.Message = fmt.Sprintf("unknown kind %q: %s", gvk, reason)
	return f.at(place.Position)
}
