package schema

import (
	"slices"
)

// matches adds the matches of a value as oneOf, anyOf, allOf and not, where these are exact.
func (e *emitter) matches(s *Schema, p *props) {
	for i := range s.Matches {
		m := &s.Matches[i]
		if rule, ok := exactMatch(m, s, p); ok {
			p.AllOf = append(p.AllOf, *rule)
			e.Enforcers.set(m.Rule, CRDSchema)
		}
	}
}

// exactMatch returns the rule in OpenAPI that accepts the same values as a match does; outer is
// the schema of the value in the CRD, of which the schema around is the original.
func exactMatch(m *Match, around *Schema, outer *props) (*props, bool) {
	var all []props
	for _, s := range m.Schemas {
		rule, ok := exactly(s, around, outer)
		if !ok {
			return nil, false
		}
		all = append(all, *rule)
	}
	lower, upper := m.Count.Min, m.Count.Max
	switch n := int64(len(all)); {
	case upper != nil && upper.N == 0 && lower != nil && lower.N == 0:
		if n == 1 {
			return &props{Not: &all[0]}, true
		}
		return &props{Not: &props{AnyOf: all}}, true
	case lower != nil && lower.N == n:
		return &props{AllOf: all}, true
	case lower != nil && lower.N == 1 && upper == nil:
		return &props{AnyOf: all}, true
	case lower != nil && lower.N == 1 && upper.N == 1:
		return &props{OneOf: all}, true
	}
	return nil, false
}

// exactly returns the rule in OpenAPI that accepts the same values as a schema, among those
// of the type of outer. It has a rule for what generated schemas consist of: fields that are
// required, enums of strings, and matches of these.
func exactly(s, around *Schema, outer *props) (*props, bool) {
	types := map[string]Types{"object": Struct, "string": String}[outer.Type]
	if !s.isLeaf() || !around.isLeaf() || types == 0 || outer.Nullable || s.Types&types == 0 {
		return nil, false
	}
	rule := &props{}
	for i := range s.Matches {
		inner, ok := exactMatch(&s.Matches[i], around, outer)
		if !ok {
			return nil, false
		}
		rule.AllOf = append(rule.AllOf, *inner)
	}
	left := *s // the rules that OpenAPI does not have yet
	left.Types, left.Matches = AnyType, nil
	switch {
	case types == Struct && s.Struct != nil:
		if !exactFields(s.Struct, around.Struct, outer, rule) {
			return nil, false
		}
		left.Struct = nil
	case types == String && s.Enum != nil &&
		!slices.ContainsFunc(s.Enum.Values, func(v any) bool { return TypeOf(v) != String }):
		rule.Enum = enumOf(s.Enum.Values)
		left.Enum = nil
	}
	return rule, left.isAnything()
}

// exactFields adds that fields are required, and the rules for their values.
func exactFields(s, around *StructSchema, outer, rule *props) bool {
	if !s.isOpen() || len(s.Labels) > 0 || len(s.Conditions) > 0 || around == nil || around.addsFields(outer) {
		return false
	}
	for _, f := range s.Fields {
		switch f.Presence {
		case Regular:
			return false
		case Required:
			rule.Required = append(rule.Required, f.Name)
		case Optional:
		}
		if f.Schema.isAnything() {
			continue
		}
		property, ok := outer.Properties[f.Name]
		own := around.Field(f.Name)
		if !ok || own == nil {
			return false
		}
		inner, ok := exactly(f.Schema, own.Schema, &property)
		if !ok {
			return false
		}
		if rule.Properties == nil {
			rule.Properties = make(map[string]props)
		}
		rule.Properties[f.Name] = *inner
	}
	slices.Sort(rule.Required)
	return true
}
