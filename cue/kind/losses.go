package kind

import (
	"bytes"
	"errors"
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
func (vs Versions) Losses(b *Budget, object map[string]any) (lost field.ErrorList) {
	for _, v := range vs {
		if v != vs.Stored() && v.Served {
			_, errs := vs.FromStored(b, object, v)
			lost = append(lost, errs...)
		}
	}
	return lost
}

// FromStored converts an object from the stored version, and lists what does not survive the way back.
func (vs Versions) FromStored(b *Budget, object map[string]any, to *Version) (map[string]any, field.ErrorList) {
	object = vs.Stored().WithDefaults(b, object)
	converted, failures := vs.ConvertOnce(b, object, vs.Stored(), to)
	if len(failures) > 0 {
		return converted, errorsOf(failures, to)
	}
	back, failures := vs.ConvertOnce(b, converted, to, vs.Stored())
	if len(failures) > 0 {
		return converted, errorsOf(failures, vs.Stored())
	}
	return converted, differences(
		nil,
		WithoutFixed(object),
		WithoutFixed(back),
		fmt.Sprintf("after a conversion from %s to %s and back", vs.Stored().GroupVersionKind.Version,
			to.GroupVersionKind.Version),
	)
}

// errorsOf returns the errors of fields that cannot be computed in a version.
func errorsOf(failures []Failure, in *Version) (errs field.ErrorList) {
	for _, f := range failures {
		_, path, _ := strings.Cut(f.path, ".")
		errs = append(errs,
			field.Invalid(field.NewPath(path), field.OmitValueType{},
				fmt.Sprintf("cannot be converted to %s: %v", in.GroupVersionKind.Version, f.Err)))
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
		case exists != existsToo || SameJSON("", a, b) != nil:
			errs = append(errs,
				field.Invalid(path.Child(name), a, fmt.Sprintf("would be %s %s", Shown(b, existsToo), when)))
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

// Shown returns a value for a message, cut if it is long.
func Shown(value any, exists bool) string {
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

// SameJSON compares two values by their JSON, where 1 and 1.0 are the same.
func SameJSON(what string, a, b any) error {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	if err := errors.Join(errX, errY); err != nil || bytes.Equal(x, y) {
		return err
	}
	return fmt.Errorf("%s: %s and %s", what, x, y)
}
