package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/manifest"
)

// unknownKind is the finding for an object of a kind that is not known. It is placed at
// the field of the two that is wrong, which is kind unless only the version is.
func (v *vetter) unknownKind(object manifest.Object, gvk schema.GroupVersionKind) finding {
	wrong, why := v.whyUnknown(gvk)
	place := object.Locate(wrong).Value
	f := about(object)
	f.Type = unknownKindType
	f.Message = fmt.Sprintf("unknown kind %q: %s", gvk, why)
	return f.at(place.Position)
}

// whyUnknown says which field makes a kind unknown and which kinds there are instead.
func (v *vetter) whyUnknown(gvk schema.GroupVersionKind) (wrong, why string) {
	if v.broken[gvk.Kind] {
		return "kind", fmt.Sprintf("the kind %s in --kinds does not load", gvk.Kind)
	}
	var versions, inGroup, near, all []string
	for _, known := range slices.SortedFunc(maps.Keys(v.kinds), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }) {
		all = append(all, known.String())
		if known.Group != gvk.Group {
			continue
		}
		inGroup = append(inGroup, known.String())
		if known.Kind == gvk.Kind {
			versions = append(versions, known.Version)
		}
		if isNear(known.Kind, gvk.Kind) {
			near = append(near, known.Kind)
		}
	}
	switch {
	case len(versions) > 0:
		return "apiVersion", fmt.Sprintf("%s of %s is known in the version %s", gvk.Kind, gvk.Group, strings.Join(versions, ", "))
	case len(near) > 0:
		return "kind", fmt.Sprintf("did you mean %s? Known in this group are: %s", strings.Join(slices.Compact(near), " or "), strings.Join(inGroup, "; "))
	case len(inGroup) > 0:
		return "kind", "known in this group are: " + strings.Join(inGroup, "; ")
	}
	return "kind", fmt.Sprintf("known are: %s; --kinds adds kinds%s", strings.Join(all, "; "), v.hint)
}

// isNear tells whether one name may be meant by the other: but for case, a plural or a
// letter too many, too few or wrong, they are the same.
func isNear(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	prefix := 0
	for prefix < len(a) && a[prefix] == b[prefix] {
		prefix++
	}
	switch len(b) - len(a) {
	case 0:
		return prefix == len(a) || a[prefix+1:] == b[prefix+1:]
	case 1:
		return a[prefix:] == b[prefix+1:]
	}
	return false
}
