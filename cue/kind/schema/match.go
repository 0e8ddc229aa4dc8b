package schema

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// match validates how many of several schemas a value satisfies.
func (w *walker) match(m *Match, value any) {
	var n, more int64
	for _, s := range m.Schemas {
		switch contradicts, incomplete := w.compare(s, value); {
		case contradicts:
		case incomplete:
			more++
		default:
			n++
		}
	}
	if m.Count.allows(n) {
		return
	}
	err := field.Invalid(w.at(), field.OmitValueType{}, fmt.Sprintf("must match %s, matches %d", m.describe(), n))
	// As in CUE: what the value does not have yet may satisfy more of them.
	for possible := n + 1; possible <= n+more; possible++ {
		if m.Count.allows(possible) {
			w.addIncomplete(m.Rule, err)
			return
		}
	}
	w.add(m.Rule, err)
}

// compare reports whether a value, with the defaults that a schema would give it, contradicts
// the schema, and whether it is incomplete.
func (w *walker) compare(s *Schema, value any) (contradicts, incomplete bool) {
	trial, d := w.apart(), defaulter{budget: w.budget, structs: w.structs}
	trial.value(s, d.value(s, value))
	for _, p := range trial.problems {
		if p.Rule == nil || !p.Rule.NotInCUE {
			contradicts, incomplete = contradicts || !p.incomplete, incomplete || p.incomplete
		}
	}
	return contradicts, incomplete
}

// Either returns a match as a disjunction, or as _, if it asks for one or more of several
// schemas that only scalars satisfy and that have no defaults.
func (m *Match) Either() *Schema {
	if m.Count.Min == nil || m.Count.Min.N != 1 || m.Count.Max != nil {
		return nil
	}
	if i := slices.IndexFunc(m.Schemas, (*Schema).isAnything); i >= 0 {
		return m.Schemas[i]
	}
	var alternatives []Alternative
	for _, s := range m.Schemas {
		if s.HasDefault() || !s.isScalar() {
			return nil
		}
		alternatives = append(alternatives, Alternative{Schema: s})
	}
	return Or(m.Position, alternatives)
}

// isScalar reports whether a schema allows only scalars, by rules that disjunctions combine.
func (s *Schema) isScalar() bool {
	if len(s.Alternatives) > 0 {
		return !slices.ContainsFunc(s.Alternatives, func(a Alternative) bool { return !a.isScalar() })
	}
	return s.Reference == nil && s.Impossible == nil && s.Types&(List|Struct) == 0 && len(s.Matches) == 0
}

// IsRecursive reports whether a schema contains itself or another one that does.
func (s *Schema) IsRecursive() bool {
	return s.Reference != nil || slices.ContainsFunc(s.parts(), (*Schema).IsRecursive)
}

// describe describes a match in words.
func (m *Match) describe() string {
	var texts []string
	for _, s := range m.Schemas {
		texts = append(texts, s.describe())
	}
	all := strings.Join(texts, " | ")
	lower, upper := m.Count.Min, m.Count.Max
	switch {
	case upper != nil && upper.N == 0:
		return "none of " + all
	case upper == nil:
		return fmt.Sprintf("at least %d of %s", lower.N, all)
	case lower == nil:
		return fmt.Sprintf("at most %d of %s", upper.N, all)
	}
	return fmt.Sprintf("exactly %d of %s", upper.N, all)
}

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
	case types == String && s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(v any) bool { return TypeOf(v) != String }):
		rule.Enum = enumOf(s.Enum.Values)
		left.Enum = nil
	}
	return rule, left.isAnything()
}

// exactFields adds that fields are required, and the rules for their values.
func exactFields(s, around *StructSchema, outer, rule *props) bool {
	if len(s.Groups) > 0 || len(s.Labels) > 0 || len(s.Conditions) > 0 || around == nil || around.addsFields(outer) {
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
