package schema

import (
	"slices"
)

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
	closed.Groups = append(closed.Groups, Group{ID: c.id, Labels: s.Labels, Open: open, NotInCUE: c.notInCUE})
	closed.Fields = nil
	for _, f := range s.Fields {
		field := *f
		field.Schema = c.schema(f.Schema)
		for _, condition := range s.Conditions {
			added := condition.Then.Field(f.Name)
			if added != nil && added.Schema.Unclosed && f.Schema.isUnclosed() {
				field.Schema = Impossible(f.Schema.Position,
					"CUE does not close the structs next to a validator that an if adds, like list.MaxItems: make them a definition, as in [...#Item]")
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
	return s.Struct != nil && len(s.Struct.Groups) == 0 && !s.Struct.Open ||
		slices.ContainsFunc(s.parts(), (*Schema).isUnclosed)
}
