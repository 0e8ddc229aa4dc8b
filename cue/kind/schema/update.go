package schema

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// ValidateUpdate lists the immutable fields that differ between two versions of an object.
// Both have their defaults.
func ValidateUpdate(b *budget.Budget, s *Schema, old, object map[string]any) []Problem {
	w := walker{where: where{budget: b, structs: make([]map[string]any, 0, 16)}}
	w.update(s, old, object)
	return w.result()
}

// update compares two versions of a value that exists in both.
func (w *walker) update(s *Schema, old, value any) {
	if s.Immutable == nil && s.Reference != nil {
		s = s.Reference
	}
	if !s.guarded || !w.budget.Take(1) {
		return
	}
	if s.Immutable != nil {
		if !reflect.DeepEqual(old, value) {
			w.add(s.Immutable, field.Invalid(w.at(), value, "field is immutable"))
		}
		return
	}
	if len(s.Alternatives) > 0 {
		w.updateAlternatives(s, old, value)
		return
	}
	oldObject, wasObject := old.(map[string]any)
	object, isObject := value.(map[string]any)
	if s.Struct != nil && wasObject {
		if !isObject { // what it holds could be added again with another value
			object = map[string]any{}
		}
		w.updateFields(s.Struct, oldObject, object)
	}
	oldList, wasList := old.([]any)
	list, isList := value.([]any)
	if s.ListType == "map" && s.Items != nil && wasList && isList {
		w.updateItems(s, oldList, list)
	}
}

// updateAlternatives compares along the alternative that the value fits, and the one that
// it fitted before.
func (w *walker) updateAlternatives(s *Schema, old, value any) {
	now, _ := w.choose(possible(w.budget, s.Alternatives, value), func(*Schema) any { return value })
	before, _ := w.choose(possible(w.budget, s.Alternatives, old), func(*Schema) any { return old })
	if now != nil {
		w.update(now.schema, old, value)
	}
	if before != nil && (now == nil || now.schema != before.schema) {
		w.update(before.schema, old, value)
	}
}

func (w *walker) updateFields(s *StructSchema, old, object map[string]any) {
	w.structs = append(w.structs, object)
	defer func() { w.structs = w.structs[:len(w.structs)-1] }()
	before := append(slices.Clone(w.structs[:len(w.structs)-1]), old)
	present := s                // its fields must not be added or removed
	for len(s.Conditions) > 0 { // fields that an if adds may have ifs of their own
		// Conditions that held before count as well; otherwise an update could unlock the
		// field that it changes.
		mask, _ := s.holding(w.budget, w.structs)
		held, _ := s.holding(w.budget, before)
		s, present = s.variants.with(w.budget, s.Conditions, mask|held).schema,
			s.variants.with(w.budget, s.Conditions, mask).schema
	}
	for _, f := range s.Fields {
		before, existed := old[f.Name]
		now, exists := object[f.Name]
		w.path = append(w.path, fieldStep(f.Name))
		switch {
		case existed && exists:
			w.update(f.Schema, before, now)
		case existed != exists && f.Schema.Immutable != nil && present.Field(f.Name) != nil:
			w.add(f.Schema.Immutable, field.Invalid(w.at(), now, "field is immutable"))
		case existed && !exists && present.Field(f.Name) != nil:
			w.update(f.Schema, before, nil)
		}
		w.path = w.path[:len(w.path)-1]
	}
	for name, now := range object {
		before, existed := old[name]
		if _, named := s.index[name]; named || !existed {
			continue
		}
		w.path = append(w.path, fieldStep(name))
		for _, label := range s.Labels {
			if label.matches(name) {
				w.update(label.Schema, before, now)
			}
		}
		w.path = w.path[:len(w.path)-1]
	}
}

// updateItems compares the items of two lists that have the same keys.
func (w *walker) updateItems(s *Schema, old, list []any) {
	w.budget.Take(itemSteps * (len(old) + len(list)))
	before := make(map[string]any, len(old))
	for _, item := range old {
		if object, ok := item.(map[string]any); ok {
			before[keysOf(object, s.ListMapKeys)] = item
		}
	}
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			continue
		}
		was, ok := before[keysOf(object, s.ListMapKeys)]
		if !ok {
			continue
		}
		w.path = append(w.path, itemStep(i))
		w.update(s.Items, was, item)
		w.path = w.path[:len(w.path)-1]
	}
}

// keysOf returns a text that is the same for items with the same keys.
func keysOf(item map[string]any, keys []string) string {
	var b strings.Builder
	for _, key := range keys {
		writeIdentity(&b, item[key])
	}
	return b.String()
}
