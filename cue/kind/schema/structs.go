package schema

import (
	"fmt"
	"slices"
)

// andStructSchemas combines the rules for the fields of a struct. If they contradict each
// other, it returns a rule that explains why.
func andStructSchemas(a, b *StructSchema) (*StructSchema, *Rule) {
	s := &StructSchema{
		Labels:     slices.Concat(a.Labels, b.Labels),
		Open:       a.Open || b.Open,
		Defined:    a.Defined || b.Defined,
		Groups:     andGroups(a.Groups, b.Groups),
		Conditions: slices.Concat(a.Conditions, b.Conditions),
	}
	var impossible *Rule
	add := func(f *Field) {
		if f == nil {
			return
		}
		if f.Presence != Optional && f.Schema.Impossible != nil && impossible == nil {
			impossible = &Rule{Text: f.Name + ": " + f.Schema.Impossible.Text, Position: f.Schema.Impossible.Position}
		}
		s.Fields = append(s.Fields, f)
	}
	for _, f := range a.Fields {
		if other := b.Field(f.Name); other != nil {
			add(andFields(f, other))
			continue
		}
		add(b.admits(f, a.Groups))
	}
	for _, f := range b.Fields {
		if a.Field(f.Name) == nil {
			add(a.admits(f, b.Groups))
		}
	}
	return s, impossible
}

// andGroups lists all closed definitions; the parts of one allow what any of them does.
func andGroups(a, b []Group) []Group {
	groups := slices.Clone(a)
	for _, g := range b {
		i := slices.IndexFunc(groups, func(o Group) bool { return o.ID == g.ID })
		if i < 0 {
			groups = append(groups, g)
			continue
		}
		groups[i].Labels = slices.Concat(groups[i].Labels, g.Labels)
		groups[i].NotInCUE = groups[i].NotInCUE && g.NotInCUE
	}
	return groups
}

func andFields(a, b *Field) *Field {
	both := &Field{Name: a.Name, Presence: max(a.Presence, b.Presence), Schema: And(a.Schema, b.Schema), Rule: a.Rule}
	if b.Presence > a.Presence {
		both.Rule = b.Rule
	}
	return both
}

// admits returns what becomes of a field that only the other schema names: it has to
// satisfy the labels, and is forbidden if a closed definition does not allow it. others are the
// definitions of the other schema; a part of one of those may add fields to it.
func (s *StructSchema) admits(f *Field, others []Group) *Field {
	schema := f.Schema
	for _, label := range s.Labels {
		if label.matches(f.Name) {
			schema = And(schema, label.Schema)
		}
	}
	for _, g := range s.Groups {
		if !g.NotInCUE && !g.allows(f.Name) && !slices.ContainsFunc(others, func(o Group) bool { return o.ID == g.ID }) {
			if f.Presence == Optional {
				return nil
			}
			schema = Impossible(f.Schema.Position, "the field is not allowed by the definition that it is combined with")
		}
	}
	if schema == f.Schema {
		return f
	}
	return &Field{Name: f.Name, Presence: f.Presence, Schema: schema, Rule: f.Rule}
}

// Close turns a schema into a definition: no struct in it may have other fields than it
// names, unless it is open. id identifies the definition.
func Close(s *Schema, id int) *Schema { return (&closer{id: id}).schema(s) }

// closer closes the structs of one definition.
type closer struct {
	id int
	// notInCUE means that a validator stands next to a value around the struct.
	notInCUE bool
}

func (c closer) schema(s *Schema) *Schema {
	if s.Impossible != nil || s.Reference != nil {
		return s
	}
	closed := *s
	closed.prepared = false
	c.notInCUE = c.notInCUE || s.Unclosed
	if c.notInCUE && s.Struct != nil && s.Struct.Defined {
		return Impossible(
			s.Position,
			"CUE closes a struct that embeds a definition only sometimes if a validator like list.MaxItems stands next to it: make it a definition, as in [...#Item]",
		)
	}
	if s.Struct != nil {
		closed.Struct = c.structure(s.Struct, s.Struct.Open)
	}
	if s.Items != nil {
		closed.Items = c.schema(s.Items)
	}
	closed.Alternatives = nil
	for _, a := range s.Alternatives {
		closed.Alternatives = append(closed.Alternatives, Alternative{c.schema(a.Schema), a.Default})
	}
	return &closed
}

func (c closer) structure(s *StructSchema, open bool) *StructSchema {
	closed := *s
	closed.index, closed.variants = nil, nil
	closed.Groups = slices.Clone(s.Groups)
	if !open {
		closed.Groups = append(closed.Groups, Group{ID: c.id, Labels: s.Labels, NotInCUE: c.notInCUE})
	}
	closed.Fields = nil
	for _, f := range s.Fields {
		field := *f
		field.Schema = c.schema(f.Schema)
		for _, condition := range s.Conditions {
			added := condition.Then.Field(f.Name)
			if added != nil && added.Schema.Unclosed && f.Schema.isUnclosed() {
				field.Schema = Impossible(f.Schema.Position, "CUE does not close the structs next to a validator that an if adds, like list.MaxItems: make them a definition, as in [...#Item]")
			}
		}
		closed.Fields = append(closed.Fields, &field)
	}
	closed.Labels = nil
	for _, l := range s.Labels {
		l.Schema = c.schema(l.Schema)
		closed.Labels = append(closed.Labels, l)
	}
	closed.Conditions = nil
	for _, condition := range s.Conditions {
		condition.Then = c.structure(condition.Then, open || condition.Then.Open)
		closed.Conditions = append(closed.Conditions, condition)
	}
	return &closed
}

// isUnclosed reports whether there is a struct in a schema that only a definition around it
// closes.
func (s *Schema) isUnclosed() bool {
	if s.Reference != nil {
		return false
	}
	return s.Struct != nil && len(s.Struct.Groups) == 0 && !s.Struct.Open || slices.ContainsFunc(s.parts(), (*Schema).isUnclosed)
}

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
			return &ImpossibleError{Rule: &Rule{Text: fmt.Sprintf("there are more than %d conditions in one struct", maxConditions), Position: s.Position}}
		}
	}
	if len(s.Checks) > 0 && s.Types&List != 0 {
		return &ImpossibleError{Rule: &Rule{Text: "write string & " + s.Checks[0].Text + ": CUE also accepts a list of bytes", Position: s.Position}}
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
