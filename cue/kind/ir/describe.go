package ir

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// describe says in few words what the alternatives are.
func describe(alternatives []Alternative) string {
	var texts []string
	for _, a := range alternatives {
		texts = append(texts, a.describe())
	}
	return strings.Join(texts, " | ")
}

func (s *Schema) describe() string {
	switch {
	case s.Reference != nil:
		return s.Reference.describe()
	case len(s.Alternatives) > 0:
		return "(" + describe(s.Alternatives) + ")"
	case s.Types == Struct && s.Struct != nil:
		var names []string
		for _, f := range s.Struct.Fields {
			names = append(names, f.Name)
		}
		return "{" + strings.Join(names, ", ") + "}"
	}
	var texts []string
	for _, r := range s.rules() {
		if !slices.Contains(texts, r.Text) { // strings.MaxRunes(3), say, is a rule for the type as well
			texts = append(texts, r.Text)
		}
	}
	if len(texts) == 0 {
		return s.Types.String()
	}
	return strings.Join(texts, " & ")
}

// rules lists what a schema demands of a value itself, without what is within it.
func (s *Schema) rules() []*Rule {
	var rules []*Rule
	add := func(r *Rule) {
		if r != nil && !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	if s.Types != AnyType {
		add(s.TypeRule)
	}
	if s.Enum != nil {
		add(s.Enum.Rule)
	}
	for _, n := range s.Not {
		add(n.Rule)
	}
	for _, b := range []*Bound{s.Min, s.Max} {
		if b != nil {
			add(b.Rule)
		}
	}
	for _, r := range []Range{s.Length, s.Size, s.Count} {
		for _, l := range []*Limit{r.Min, r.Max} {
			if l != nil {
				add(l.Rule)
			}
		}
	}
	for _, p := range s.Patterns {
		add(p.Rule)
	}
	for _, c := range s.Checks {
		add(c.Rule)
	}
	for _, r := range s.Relations {
		add(r.Rule)
	}
	for _, r := range []*Rule{s.Unique, s.ListTypeRule, s.Immutable, s.Eval} {
		add(r)
	}
	return rules
}

// writeIdentity writes a text that is the same for equal values only; 1 and 1.0 differ,
// as they do in CUE.
func writeIdentity(b *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		b.WriteString(strconv.Quote(v))
	case []any:
		b.WriteByte('[')
		for _, item := range v {
			writeIdentity(b, item)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for _, name := range names {
			b.WriteString(strconv.Quote(name))
			b.WriteByte(':')
			writeIdentity(b, v[name])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	default:
		fmt.Fprintf(b, "%T %v", v, v)
	}
}

// DependsOnObject tells whether a schema compares a value with other fields, or asks them
// in a condition.
func (s *Schema) DependsOnObject() bool {
	return len(s.Relations) > 0 || s.Struct != nil && len(s.Struct.Conditions) > 0 ||
		slices.ContainsFunc(s.parts(), (*Schema).DependsOnObject)
}
