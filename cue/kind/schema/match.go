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
func (here *where) compare(s *Schema, value any) (contradicts, incomplete bool) {
	d := defaulter{budget: here.budget, structs: here.structs}
	for _, p := range here.problems(s, d.value(s, value)) {
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
