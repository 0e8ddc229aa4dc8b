package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// StoredName is the object in the stored version, in a conversion.
	StoredName = "stored"
	// ToStoredName is the direction of a conversion to the stored version.
	ToStoredName = "toStored"
	// FromStoredName is the direction from it.
	FromStoredName = "fromStored"
)

// Converts reports whether a version has a conversion, so that Convert has to be asked.
// Otherwise versions only differ in which fields of an object are known.
func (vs Versions) Converts() bool {
	return slices.ContainsFunc(vs, func(v *Version) bool { return v.Conversion != nil })
}

// Convert returns an object in another version of the kind, with that version's defaults. Its metadata and
// status are the same. lost are the fields that do not survive: those that cannot be computed are left out,
// because an error would have all reads of the object fail, and lists with it. Only a version that is not
// served must hold the whole object: the API server does not read objects in it, but prunes them by what its
// managed fields list.
func (vs Versions) Convert(
	b *Budget, object map[string]any, apiVersion string,
) (converted map[string]any, lost field.ErrorList, err error) {
	from, err := vs.named(object["apiVersion"])
	if err != nil {
		return nil, nil, err
	}
	to, err := vs.named(apiVersion)
	if err != nil || from == to {
		return object, nil, err
	}
	object, lost = vs.ToStored(b, object)
	if to != vs.Stored() {
		var more field.ErrorList
		object, more = vs.FromStored(b, object, to)
		lost = append(lost, more...)
	}
	if len(lost) > 0 && !to.Served {
		return nil, nil,
			fmt.Errorf("%s is not served, and cannot hold %s: remove what metadata.managedFields lists of %s",
				apiVersion, FieldsOf(lost), apiVersion)
	}
	return object, lost, nil
}

// IsStored reports whether an object is in the version that is stored, or needs no conversion to it.
func (vs Versions) IsStored(object map[string]any) bool {
	return !vs.Converts() || object["apiVersion"] == vs.Stored().GroupVersionKind.GroupVersion().String()
}

// AsStored checks an object in any version, and returns it as it will be stored, without its defaults if
// it is in that version. The errors are those of the object, or else of what is stored.
func (k *Kind) AsStored(object map[string]any) (map[string]any, field.ErrorList) {
	if errs := k.Validate(object); len(errs) > 0 {
		return object, errs
	}
	if k.Versions.IsStored(object) {
		return object, k.Versions.Losses(k.NewBudget(), object)
	}
	b := k.NewBudget()
	converted, errs := k.Versions.ToStored(b, object)
	if len(errs) == 0 {
		errs = k.Versions.ErrorsAsStored(k.Validate(converted))
	}
	if len(errs) == 0 {
		errs = k.Versions.Losses(b, converted)
	}
	return converted, errs
}

// ToStored returns an object as it is stored, with the errors of the fields that cannot be computed, which
// are left out. What would be different on the way back is only spelled otherwise.
func (vs Versions) ToStored(b *Budget, object map[string]any) (map[string]any, field.ErrorList) {
	from := vs.of(object)
	if from == vs.Stored() || !vs.Converts() {
		return object, nil
	}
	converted, failures := vs.ConvertOnce(b, from.WithDefaults(b, object), from, vs.Stored())
	return converted, errorsOf(failures, vs.Stored())
}

// ErrorsAsStored has the errors of an object that was converted say so.
func (vs Versions) ErrorsAsStored(errs field.ErrorList) field.ErrorList {
	for i, err := range errs {
		converted := *err
		converted.Detail = "as " + vs.Stored().GroupVersionKind.Version + ": " + err.Detail
		errs[i] = &converted
	}
	return errs
}

// named returns the version of an apiVersion.
func (vs Versions) named(apiVersion any) (*Version, error) {
	var known []string
	for _, v := range vs {
		name := v.GroupVersionKind.GroupVersion().String()
		if name == apiVersion {
			return v, nil
		}
		known = append(known, name)
	}
	return nil, fmt.Errorf("apiVersion: %v is no version of %s, which has %s", apiVersion,
		vs.Stored().GroupVersionKind.Kind, strings.Join(known, ", "))
}

// ConvertOnce converts an object with its defaults to or from the stored version. What cannot be computed is
// left out, and listed.
func (vs Versions) ConvertOnce(b *Budget, object map[string]any, from, to *Version) (map[string]any, []Failure) {
	direction, other := FromStoredName, to
	if to == vs.Stored() {
		direction, other = ToStoredName, from
	}
	m := mapper{}
	var by *Stated
	var root Piece
	if c := other.Conversion; c != nil {
		by = c.Stated[direction]
		var none map[string]any
		given := []any{object, none}
		if direction == FromStoredName {
			slices.Reverse(given)
		}
		whole := compiledPiece{c.Program.RunGiven(b, given...)}
		root = whole.Field(direction)
	}
	converted := runtime.DeepCopyJSON(m.fields(WithoutFixed(object), by, root, direction))
	pruning.Prune(converted, to.Structural, true)
	text, err := json.Marshal(converted)
	if err == nil && len(text) > maxConvertedBytes {
		err = fmt.Errorf("it would have %d bytes: must have at most %d", len(text), maxConvertedBytes)
	}
	if err != nil {
		converted, m.failures = make(map[string]any), append(m.failures, Failure{direction + ".spec", err})
	}
	for _, name := range []string{"metadata", "status"} {
		if value, ok := object[name]; ok {
			converted[name] = value
		}
	}
	converted["apiVersion"], converted["kind"] = to.GroupVersionKind.ToAPIVersionAndKind()
	converted = to.WithDefaults(b, converted)
	if err := exceeded(b, nil); err != nil {
		m.failures = append(m.failures, Failure{direction + ".apiVersion", err})[:1] // all others follow from it
	}
	return converted, m.failures
}

// FixedFields are the fields that conversions copy as they are, but for the version itself.
var FixedFields = []string{"apiVersion", "kind", "metadata", "status"}

// WithoutFixed returns the fields of an object that a conversion may change.
func WithoutFixed(object map[string]any) map[string]any {
	object = maps.Clone(object)
	for _, name := range FixedFields {
		delete(object, name)
	}
	return object
}

// mapper computes the fields of a converted object, and collects what it cannot compute.
type mapper struct{ failures []Failure }

// Failure is why a field of a conversion cannot be computed.
type Failure struct {
	path string // with the direction, as in toStored.spec.keep
	Err  error
}

// fields returns the fields of a struct: those that the conversion states, and otherwise those of the source.
func (m *mapper) fields(source map[string]any, by *Stated, p Piece, path string) map[string]any {
	if by == nil {
		return source
	}
	result := maps.Clone(source)
	for _, name := range slices.Sorted(maps.Keys(by.Fields)) {
		if value, ok := m.field(source[name], by.Fields[name], p.Field(name), path+"."+name); ok {
			result[name] = value
		} else {
			delete(result, name)
		}
	}
	return result
}

// field returns a field that the conversion states, or something in it.
func (m *mapper) field(source any, by *Stated, p Piece, path string) (value any, ok bool) {
	if by.Whole {
		value, ok, err := statedValue(p, path)
		if err != nil {
			m.failures = append(m.failures, Failure{path, err})
		}
		return value, ok && err == nil
	}
	within, exists := source.(map[string]any)
	if !exists {
		within = make(map[string]any)
	}
	fields := m.fields(within, by, p, path)
	return fields, exists || len(fields) > 0
}

// statedValue returns a value without the fields that read something absent; ok is false if that is
// all of it.
func statedValue(p Piece, path string) (value any, ok bool, err error) {
	if !p.Exists() {
		return nil, false, nil
	}
	value, absent, err := p.Data(path, "")
	if err != nil || len(absent) == 0 {
		return value, value != nil && err == nil, err
	}
	if p.IsStruct() {
		names, err := p.Names()
		fields := make(map[string]any, len(names))
		for _, name := range names {
			if err != nil {
				break
			}
			var present bool
			if value, present, err = statedValue(p.Field(name), path+"."+name); present {
				fields[name] = value
			}
		}
		return fields, err == nil, err
	}
	var items []any
	for i, element := range p.Elements() {
		item, present, err := statedValue(element, fmt.Sprintf("%s[%d]", path, i))
		if err != nil || !present {
			return nil, false, err
		}
		items = append(items, item)
	}
	return items, items != nil, nil
}
