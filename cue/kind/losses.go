package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxConvertedBytes bounds what a conversion makes of an object: the API server stores none that is larger
// than the requests that it accepts, and one of a list must not fail the others.
const maxConvertedBytes = 3 << 20

// Losses returns an error for each field of an object in the stored version that does not survive a
// conversion to a version that is served, and back.
func (k *Kind) Losses(b *Budget, object map[string]any) (lost field.ErrorList) {
	for _, v := range k.Versions {
		if v != k.Version && v.Served {
			_, errs := k.fromStored(b, object, v)
			lost = append(lost, errs...)
		}
	}
	return lost
}

// fromStored converts an object from the stored version, and lists what does not survive the way back.
func (k *Kind) fromStored(b *Budget, object map[string]any, to *Version) (map[string]any, field.ErrorList) {
	object = k.withDefaults(b, object)
	converted, failures := k.convertOnce(b, object, k.Version, to)
	if len(failures) > 0 {
		return converted, errorsOf(failures, to)
	}
	back, failures := k.convertOnce(b, converted, to, k.Version)
	if len(failures) > 0 {
		return converted, errorsOf(failures, k.Version)
	}
	return converted, differences(nil, withoutFixed(object), withoutFixed(back), fmt.Sprintf("after a conversion from %s to %s and back", k.GroupVersionKind.Version, to.GroupVersionKind.Version))
}

// errorsOf returns the errors of fields that cannot be computed in a version.
func errorsOf(failures []failure, in *Version) (errs field.ErrorList) {
	for _, f := range failures {
		_, path, _ := strings.Cut(f.path, ".")
		errs = append(errs, field.Invalid(field.NewPath(path), field.OmitValueType{}, fmt.Sprintf("cannot be converted to %s: %v", in.GroupVersionKind.Version, f.err)))
	}
	return errs
}

// differences returns an error for each field of an object that is not the same later. Lists are compared as a
// whole.
func differences(path *field.Path, object, later map[string]any, when string) (errs field.ErrorList) {
	all := maps.Clone(object)
	maps.Copy(all, later)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, exists := object[name]
		b, existsToo := later[name]
		before, isMap := a.(map[string]any)
		after, areMaps := b.(map[string]any)
		switch {
		case isMap && areMaps:
			errs = append(errs, differences(path.Child(name), before, after, when)...)
		case exists != existsToo || sameJSON("", a, b) != nil:
			errs = append(errs, field.Invalid(path.Child(name), a, fmt.Sprintf("would be %s %s", shown(b, existsToo), when)))
		}
	}
	return errs
}

// FieldsOf lists the fields of errors, without their values.
func FieldsOf(errs field.ErrorList) string {
	var fields []string
	for _, err := range errs {
		fields = append(fields, err.Field)
	}
	return strings.Join(fields, ", ")
}

// maxShown is how much of a value a message shows beside the field's own.
const maxShown = 300

func shown(value any, exists bool) string {
	if !exists {
		return "absent"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "…"
	}
	return string(text)
}
