package kind

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// KeptPrefix begins the names of the annotations that a conversion writes. The rest is the version
// that the object was converted from; the value is what the object cannot say in its own version.
const KeptPrefix = "conversion.fescue.dev/"

// maxAnnotations is the most bytes that the annotations of an object may have
// (TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation).
const maxAnnotations = 256 << 10

// kept is what an annotation holds: by the path of a field, as a JSON pointer, what the object has
// there in the version that it was converted from, and would not get back by a conversion alone.
type kept map[string]keptField

// keptField is one field. Someone may change the object before it is converted back: the field is
// only restored while the conversion yields the same for it as before.
type keptField struct {
	// Value is what the object had, if it had something.
	Value any `json:"value,omitempty"`
	// Absent means that it had nothing.
	Absent bool `json:"absent,omitempty"`
	// Instead identifies what the conversion yields; it is empty if that is nothing.
	Instead string `json:"instead,omitempty"`
}

// differences returns what an object has that another does not, by fields; lists are compared as a
// whole. Metadata and the type of the object are left out.
func differences(object, converted map[string]any) kept {
	all := make(kept)
	without := func(o map[string]any) map[string]any {
		o = maps.Clone(o)
		for _, name := range fixedFields {
			delete(o, name)
		}
		return o
	}
	all.compare("", without(object), without(converted))
	return all
}

func (k kept) compare(path string, had, yields map[string]any) {
	for name, value := range had {
		at := path + "/" + pointerEscaper.Replace(name)
		other, ok := yields[name]
		if !ok {
			k[at] = keptField{Value: value}
			continue
		}
		a, isMap := value.(map[string]any)
		b, areMaps := other.(map[string]any)
		switch {
		case isMap && areMaps:
			k.compare(at, a, b)
		case !sameValue(value, other):
			k[at] = keptField{Value: value, Instead: fingerprint(other)}
		}
	}
	for name, other := range yields {
		if _, ok := had[name]; !ok {
			k[path+"/"+pointerEscaper.Replace(name)] = keptField{Absent: true, Instead: fingerprint(other)}
		}
	}
}

// restore returns an object with the fields that are kept for it, except those that the conversion
// no longer yields the same for. The object is not changed.
func (k kept) restore(object map[string]any) map[string]any {
	for _, path := range slices.Sorted(maps.Keys(k)) {
		names := strings.Split(path, "/")
		if len(names) < 2 || names[0] != "" {
			continue // not ours
		}
		for i, name := range names {
			names[i] = pointerUnescaper.Replace(name)
		}
		if !slices.Contains(fixedFields, names[1]) {
			object, _ = k[path].restoreAt(object, names[1:]).(map[string]any)
		}
	}
	return object
}

// restoreAt restores a field below a value, which is returned unchanged if the field is not to be
// restored.
func (f keptField) restoreAt(value any, names []string) any {
	within, ok := value.(map[string]any)
	if !ok {
		return value
	}
	name := names[0]
	present, exists := within[name]
	if len(names) > 1 {
		if exists {
			within = maps.Clone(within)
			within[name] = f.restoreAt(present, names[1:])
		}
		return within
	}
	if exists != (f.Instead != "") || exists && fingerprint(present) != f.Instead {
		return within // it was changed
	}
	within = maps.Clone(within)
	if f.Absent {
		delete(within, name)
	} else {
		within[name] = f.Value
	}
	return within
}

var (
	pointerEscaper   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// fingerprint identifies a value.
func fingerprint(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it comes from JSON, or from a behaviour, whose values are the same
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// sameValue compares values, where 1 and 1.0 are the same.
func sameValue(a, b any) bool {
	return reflect.DeepEqual(a, b) || fingerprint(a) == fingerprint(b)
}

// KeptStatusErrors returns an error for each annotation that would have a conversion change the status of
// an object that someone has written. The API server takes the status of a write from the object as it was
// before, which is nil for a new one, and has the result converted: without this, anyone who may write an
// object could write its status.
func (k *Kind) KeptStatusErrors(object, before map[string]any) (errs field.ErrorList) {
	if !k.Converts() {
		return nil
	}
	for _, v := range k.Versions {
		name := KeptPrefix + v.GroupVersionKind.Version
		if all, _ := keptOf(object, v.GroupVersionKind.Version); !all.restoresStatus() {
			continue
		}
		status := func(of map[string]any) any {
			converted, err := k.Convert(of, v.GroupVersionKind.GroupVersion().String())
			if err != nil {
				return nil // it cannot be read in that version
			}
			return converted["status"]
		}
		will := status(object)
		if !sameValue(will, status(withoutKeptStatus(object, v.GroupVersionKind.Version))) && (before == nil || !sameValue(will, status(before))) {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations").Key(name), "it would change the status: remove the annotation, or its entries that begin with /status"))
		}
	}
	return errs
}

// keepsStatus reports whether the path of a field is that of the status, or of a field in it.
func keepsStatus(path string) bool { return path == "/status" || strings.HasPrefix(path, "/status/") }

func (k kept) restoresStatus() bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(k)), keepsStatus)
}

// withoutKeptStatus returns an object whose annotation for a version keeps nothing of the status.
func withoutKeptStatus(object map[string]any, version string) map[string]any {
	all, rest := keptOf(object, version)
	maps.DeleteFunc(all, func(path string, _ keptField) bool { return keepsStatus(path) })
	object, err := all.keep(rest, version)
	if err != nil {
		return rest
	}
	return object
}

// keptOf reads the annotation of an object for a version, and returns the object without it. An
// annotation that someone else wrote is ignored.
func keptOf(object map[string]any, version string) (kept, map[string]any) {
	annotations := annotationsOf(object)
	text, ok := annotations[KeptPrefix+version].(string)
	if !ok {
		return nil, object
	}
	rest := maps.Clone(annotations)
	delete(rest, KeptPrefix+version)
	var k kept
	if json.Unmarshal([]byte(text), &k) != nil {
		k = nil
	}
	return k, withAnnotations(object, rest)
}

// keep adds the annotation for a version to an object. The object is not changed.
func (k kept) keep(object map[string]any, version string) (map[string]any, error) {
	if len(k) == 0 {
		return object, nil
	}
	text, err := json.Marshal(k)
	if err != nil {
		panic(err) // as in fingerprint
	}
	annotations := maps.Clone(annotationsOf(object))
	if annotations == nil {
		annotations = make(map[string]any)
	}
	name := KeptPrefix + version
	annotations[name] = string(text)
	size := 0
	for name, value := range annotations {
		value, _ := value.(string)
		size += len(name) + len(value)
	}
	if size > maxAnnotations {
		largest := slices.MaxFunc(slices.Sorted(maps.Keys(k)), func(a, b string) int { return len(fmt.Sprint(k[a])) - len(fmt.Sprint(k[b])) })
		return nil, fmt.Errorf("metadata.annotations: have %d bytes with what %s keeps, such as %s: must have at most %d", size, name, shownPointer(largest), maxAnnotations)
	}
	return withAnnotations(object, annotations), nil
}

// shownPointer returns a JSON pointer as the path of a field.
func shownPointer(pointer string) string {
	return pointerUnescaper.Replace(strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", "."))
}

func annotationsOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

// withAnnotations returns an object with other annotations, or without any. The object is not changed.
func withAnnotations(object, annotations map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = make(map[string]any)
	}
	metadata["annotations"] = annotations
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	object = maps.Clone(object)
	object["metadata"] = metadata
	return object
}

// fixedFields are the fields that conversions do not state: they are the same in all versions, but
// for the version itself.
var fixedFields = []string{"apiVersion", "kind", "metadata"}

// carried returns as much of a value as another version can say: what has no field there, or does not
// have its type, is left out. ok is false if that is all of it. The value is not changed; the result
// shares parts with it.
func carried(value any, to *schemaProps) (result any, ok bool) {
	if to == nil {
		return nil, false
	}
	if to.XPreserveUnknownFields != nil && *to.XPreserveUnknownFields && len(to.Properties) == 0 {
		return value, true
	}
	switch v := value.(type) {
	case nil:
		return nil, to.Nullable
	case map[string]any:
		if to.Type != "object" {
			return value, to.Type == "" && !to.XIntOrString
		}
		fields := make(map[string]any, len(v))
		for name, inner := range v {
			if value, ok := carried(inner, propertyOf(to, name)); ok {
				fields[name] = value
			}
		}
		return fields, true
	case []any:
		if to.Type != "array" || to.Items == nil || to.Items.Schema == nil {
			return value, to.Type == "" && !to.XIntOrString
		}
		items := make([]any, len(v))
		for i, item := range v {
			if items[i], ok = carried(item, to.Items.Schema); !ok {
				return nil, false
			}
		}
		return items, true
	}
	return value, isOfType(value, to)
}

// isOfType reports whether a scalar has the type of a field.
func isOfType(value any, to *schemaProps) bool {
	t := schema.TypeOf(value)
	switch to.Type {
	case "string":
		return t == schema.String
	case "boolean":
		return t == schema.Bool
	case "integer":
		whole, isFloat := value.(float64)
		return t == schema.Int || isFloat && whole == math.Trunc(whole)
	case "number":
		return t&schema.Number != 0
	case "":
		return !to.XIntOrString || t&(schema.Int|schema.String) != 0
	}
	return false
}

// propertyOf returns the schema of a field; nil if there is none.
func propertyOf(of *schemaProps, name string) *schemaProps {
	if of == nil {
		return nil
	}
	if p, ok := of.Properties[name]; ok {
		return &p
	}
	switch {
	case of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil:
		return of.AdditionalProperties.Schema
	case of.AdditionalProperties != nil && of.AdditionalProperties.Allows, of.XPreserveUnknownFields != nil && *of.XPreserveUnknownFields:
		return &schemaProps{}
	}
	return nil
}
