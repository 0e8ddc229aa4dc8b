package schema

import (
	"slices"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Or returns the schema of the values that satisfy one of the alternatives, as CUE's |
// does, in the simplest form: an enum, a set of types, or one schema with a default where
// these are equivalent, and a list of alternatives otherwise.
func Or(at place.Position, alternatives []Alternative) *Schema {
	all := flatten(alternatives)
	possible := slices.DeleteFunc(slices.Clone(all), func(a Alternative) bool { return a.Impossible != nil })
	if len(possible) == 0 {
		return all[0].Schema
	}
	if s := withDefault(possible); s != nil { // before merging, which loses the order of literals
		return s
	}
	possible = mergeTypes(mergeLiterals(possible))
	if len(possible) == 1 {
		return possible[0].Schema
	}
	if s := withDefault(possible); s != nil {
		return s
	}
	return &Schema{Position: at, Alternatives: possible}
}

// flatten puts the alternatives of disjunctions within a disjunction on one level.
func flatten(alternatives []Alternative) []Alternative {
	var flat []Alternative
	for _, a := range alternatives {
		branches := []Alternative{{Schema: a.Schema}}
		if a.Reference == nil {
			branches = a.branches()
		}
		for _, inner := range branches {
			// A marked disjunction is the default as a whole, or as far as its own defaults.
			inner.Default = inner.Default && !a.Default || a.Default && (inner.Default || !hasDefault(branches))
			flat = append(flat, inner)
		}
	}
	return flat
}

// mergeTypes combines alternatives for different types in one schema: rules for strings do
// not apply to numbers.
func mergeTypes(alternatives []Alternative) []Alternative {
	var merged []Alternative
	for _, a := range alternatives {
		i := slices.IndexFunc(merged, func(m Alternative) bool { return separable(m, a) })
		if i < 0 {
			merged = append(merged, a)
			continue
		}
		merged[i] = Alternative{Schema: bothTypes(merged[i].Schema, a.Schema)}
	}
	return merged
}

func separable(a, b Alternative) bool {
	return !a.Default && !b.Default && a.isLeaf() && b.isLeaf() && a.Types&b.Types == 0 &&
		len(a.Relations) == 0 && len(b.Relations) == 0 && len(a.Matches) == 0 && len(b.Matches) == 0 &&
		(!a.Unclosed && !b.Unclosed || (a.Types|b.Types)&(List|Struct) != List|Struct) &&
		(a.Types&Number == 0 || b.Types&Number == 0 || !boundsNumbers(a.Schema) && !boundsNumbers(b.Schema))
}

// boundsNumbers reports whether a schema has rules that integers and other numbers share.
func boundsNumbers(s *Schema) bool {
	return s.Min != nil || s.Max != nil || len(s.Not) > 0
}

func bothTypes(a, b *Schema) *Schema {
	s := withNotes(Schema{}, a, b)
	s.Types = a.Types | b.Types
	if a.TypeRule != nil && b.TypeRule != nil {
		s.TypeRule = &Rule{Text: a.TypeRule.Text + " | " + b.TypeRule.Text, Position: a.TypeRule.Position}
	}
	s.Enum = orEnums(a.Enum, b.Enum)
	s.Unclosed = a.Unclosed || b.Unclosed
	s.Not = slices.Concat(a.Not, b.Not)
	s.Patterns, s.Checks = slices.Concat(a.Patterns, b.Patterns), slices.Concat(a.Checks, b.Checks)
	for _, x := range []*Schema{a, b} {
		s.Min, s.Max = tighter(s.Min, x.Min, 1), tighter(s.Max, x.Max, -1)
		s.Length, s.Size, s.Count = s.Length.and(x.Length), s.Size.and(x.Size), s.Count.and(x.Count)
		if x.Unique != nil {
			s.Unique = x.Unique
		}
		if x.Items != nil {
			s.Items = x.Items
		}
		if x.Struct != nil {
			s.Struct = x.Struct
		}
	}
	return s
}

func orEnums(a, b *Enum) *Enum {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	rule := *a.Rule
	rule.Text += " | " + b.Text
	values := slices.Clone(a.Values)
	for _, v := range b.Values {
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	return &Enum{&rule, values}
}

// mergeLiterals combines all alternatives that are only literals in one enum.
func mergeLiterals(alternatives []Alternative) []Alternative {
	var merged []Alternative
	literals := -1
	for _, a := range alternatives {
		switch {
		case a.Default || !a.isLiteral():
			merged = append(merged, a)
		case literals < 0:
			literals = len(merged)
			merged = append(merged, a)
		default:
			enum := *merged[literals].Schema
			enum.Types |= a.Types
			enum.Enum = orEnums(enum.Enum, a.Enum)
			merged[literals] = Alternative{Schema: &enum}
		}
	}
	return merged
}

// isLiteral reports whether a schema is only an enum.
func (s *Schema) isLiteral() bool {
	if !s.isLeaf() || s.Enum == nil || s.Default != nil || len(s.Relations) > 0 || len(s.Matches) > 0 {
		return false
	}
	var types Types
	for _, v := range s.Enum.Values {
		types |= TypeOf(v)
	}
	return types == s.Types
}

// HasDefault reports whether an absent value may get a default.
func (s *Schema) HasDefault() bool { return s.Default != nil || hasDefault(s.Alternatives) }

// withDefault combines alternatives in one schema if one is a marked literal: the others,
// with it as their default.
func withDefault(alternatives []Alternative) *Schema {
	var marked *Literal
	var others []Alternative
	at := 0 // how many others stand before the marked one
	for _, a := range alternatives {
		switch {
		case !a.Default:
			others = append(others, a)
		case marked != nil || !a.isLiteral() || len(a.Enum.Values) != 1:
			return nil
		default:
			marked, at = &Literal{a.Enum.Rule, a.Enum.Values[0]}, len(others)
		}
	}
	if marked == nil || len(others) == 0 {
		return nil
	}
	literalsOnly := !slices.ContainsFunc(others, func(a Alternative) bool { return !a.isLiteral() })
	if literalsOnly {
		literal := Alternative{Schema: Constant(marked.Value, marked.Rule)}
		others = mergeLiterals(slices.Insert(others, at, literal))
	}
	if len(others) != 1 || !others[0].isLeaf() || others[0].Schema.Default != nil || len(others[0].Relations) > 0 ||
		!others[0].Fits(marked.Value) {
		return nil
	}
	s := *others[0].Schema
	s.Default = marked
	return &s
}
