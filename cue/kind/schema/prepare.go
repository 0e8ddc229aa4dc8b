package schema

import (
	"fmt"
	"slices"
)

// Prepare prepares a schema for use. The result of a later And has to be prepared again.
func Prepare(s *Schema) {
	if s.prepared {
		return
	}
	s.prepared, s.defaults, s.guarded = true, true, true // a recursive schema may have either
	defaults := s.Default != nil || s.Reference != nil
	guarded := s.Immutable != nil || s.Reference != nil
	for _, sub := range s.parts() {
		Prepare(sub)
		defaults, guarded = defaults || sub.defaults, guarded || sub.guarded
	}
	for _, m := range s.Matches {
		for _, sub := range m.Schemas {
			Prepare(sub)
		}
	}
	if s.Struct != nil {
		s.Struct.prepare()
		// Variants share these, and are created while objects are validated.
		for _, c := range s.Struct.Conditions {
			Prepare(&Schema{Struct: c.Then})
		}
		guarded = guarded || len(s.Struct.Conditions) > 0
		defaults = defaults || len(s.Struct.Conditions) > 0 ||
			slices.ContainsFunc(s.Struct.Fields, func(f *Field) bool { return f.Presence == Regular })
	}
	s.defaults, s.guarded = defaults, guarded
}

// parts lists the schemas within.
func (s *Schema) parts() []*Schema {
	var parts []*Schema
	if s.Items != nil {
		parts = append(parts, s.Items)
	}
	if s.Struct != nil {
		for _, f := range s.Struct.Fields {
			parts = append(parts, f.Schema)
		}
		for _, l := range s.Struct.Labels {
			parts = append(parts, l.Schema)
		}
	}
	for _, a := range s.Alternatives {
		parts = append(parts, a.Schema)
	}
	return parts
}

func (s *StructSchema) prepare() {
	if s.index != nil {
		return
	}
	s.required = 0
	index := make(map[string]int, len(s.Fields))
	for i, f := range s.Fields {
		index[f.Name] = i
		if f.Presence != Optional {
			s.required++
		}
	}
	s.index = index
	if len(s.Conditions) > 0 {
		s.variants = newVariants(s)
	}
}

// Check rejects a schema that cannot be compiled to a bounded validator: it returns the first
// part that nothing satisfies, because the author cannot have meant it.
func (s *Schema) Check() error {
	if s.Impossible != nil {
		return &ImpossibleError{Rule: s.Impossible}
	}
	if s.Struct != nil {
		if s.Struct.conditions() > maxConditions {
			return &ImpossibleError{Rule: &Rule{Text: fmt.Sprintf("there are more than %d conditions in one struct",
				maxConditions), Position: s.Position}}
		}
	}
	if len(s.Checks) > 0 && s.Types&List != 0 {
		return &ImpossibleError{Rule: &Rule{Text: "write string & " + s.Checks[0].Text +
			": CUE also accepts a list of bytes", Position: s.Position}}
	}
	if s.Embedded && (!s.Struct.demands("apiVersion") || !s.Struct.demands("kind")) {
		return &ImpossibleError{Rule: &Rule{Text: "an embedded resource needs apiVersion! and kind!, which the API server requires: write k8s.#EmbeddedObject", Position: s.Position}}
	}
	for _, sub := range s.parts() {
		if err := sub.Check(); err != nil {
			return err
		}
	}
	return nil
}

// conditions counts the ifs of a struct and those within them.
func (s *StructSchema) conditions() int {
	n := len(s.Conditions)
	for _, c := range s.Conditions {
		n += c.Then.conditions()
	}
	return n
}

// demands reports whether a struct has to have a field.
func (s *StructSchema) demands(name string) bool {
	if s == nil {
		return false
	}
	f := s.Field(name)
	return f != nil && f.Presence == Required
}

// ImpossibleError means that a schema contradicts itself.
type ImpossibleError struct{ *Rule }

func (e *ImpossibleError) Error() string { return e.Text }

// DependsOnObject reports whether a schema compares a value with other fields, or asks them
// in a condition.
func (s *Schema) DependsOnObject() bool {
	return len(s.Relations) > 0 || s.Struct != nil && len(s.Struct.Conditions) > 0 ||
		slices.ContainsFunc(s.parts(), (*Schema).DependsOnObject)
}

// flatConditions lists the conditions of a struct and those within them, each with all
// conditions that have to hold.
func flatConditions(s *StructSchema) []Condition {
	var flat []Condition
	for _, c := range s.Conditions {
		flat = append(flat, c)
		for _, inner := range flatConditions(c.Then) {
			inner.When = &Expr{Op: "&&", Args: []*Expr{c.When, inner.When}}
			rule := *inner.Rule
			rule.Text = c.Text + " and " + inner.Text
			inner.Rule = &rule
			flat = append(flat, inner)
		}
	}
	return flat
}
