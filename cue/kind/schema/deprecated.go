package schema

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// HasDeprecated reports whether a field of the schema is deprecated.
func HasDeprecated(s *Schema) bool {
	var d deprecated
	d.schema(s)
	return len(d.found) > 0
}

// Deprecated lists the fields of an object that the schema calls deprecated, each with what
// to use instead, in the order of the fields. It visits every alternative of a
// disjunction.
func Deprecated(b *budget.Budget, s *Schema, object map[string]any) []string {
	d := deprecated{budget: b}
	d.value(s, object, nil)
	slices.Sort(d.found)
	return slices.Compact(d.found)
}

// deprecated collects the deprecated fields.
type deprecated struct {
	budget *budget.Budget
	found  []string
	seen   map[*Schema]bool // schemas visited without an object
}

// value visits a value that is present.
func (d *deprecated) value(s *Schema, value any, path *field.Path) {
	switch {
	case s == nil || !d.budget.Take(1):
		return
	case s.Reference != nil:
		s = s.Reference
	}
	if s.Deprecated != "" && path != nil {
		d.found = append(d.found, fmt.Sprintf("%s: deprecated: %s", path, s.Deprecated))
	}
	for _, alternative := range s.Alternatives {
		d.value(alternative.Schema, value, path)
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			d.value(s.Items, item, path.Index(i))
		}
	case map[string]any:
		if s.Struct != nil {
			d.fields(s.Struct, value, path)
		}
	}
}

func (d *deprecated) fields(s *StructSchema, value map[string]any, path *field.Path) {
	for _, name := range slices.Sorted(maps.Keys(value)) {
		if !d.budget.Take(1 + s.nameSteps(name)) {
			return
		}
		at := path.Child(name)
		if path == nil {
			at = field.NewPath(name)
		}
		if f := s.Field(name); f != nil {
			d.value(f.Schema, value[name], at)
		}
		for _, label := range s.Labels {
			if label.matches(name) {
				d.value(label.Schema, value[name], at)
			}
		}
	}
	for _, condition := range s.Conditions {
		d.fields(condition.Then, value, path)
	}
}

// schema visits all of a schema.
func (d *deprecated) schema(s *Schema) {
	if s == nil || d.seen[s] {
		return
	}
	if d.seen == nil {
		d.seen = make(map[*Schema]bool)
	}
	d.seen[s] = true
	if s.Deprecated != "" {
		d.found = append(d.found, s.Deprecated)
	}
	d.schema(s.Items)
	d.schema(s.Reference)
	for _, alternative := range s.Alternatives {
		d.schema(alternative.Schema)
	}
	if s.Struct != nil {
		d.structSchema(s.Struct)
	}
}

func (d *deprecated) structSchema(s *StructSchema) {
	for _, f := range s.Fields {
		d.schema(f.Schema)
	}
	for _, label := range s.Labels {
		d.schema(label.Schema)
	}
	for _, condition := range s.Conditions {
		d.structSchema(condition.Then)
	}
}
