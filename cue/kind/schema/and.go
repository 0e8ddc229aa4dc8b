package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// maxAlternatives bounds the product of disjunctions. CUE's own evaluator takes 41 s
// for one of 2^14; a kind that people read has a handful.
const maxAlternatives = 64

// Impossible returns a schema that nothing satisfies.
func Impossible(at place.Position, format string, args ...any) *Schema {
	return &Schema{Position: at, Impossible: &Rule{Text: fmt.Sprintf(format, args...), Position: at}}
}

// Anything returns a schema that every value satisfies.
func Anything(at place.Position) *Schema { return &Schema{Position: at, Types: AnyType} }

func (s *Schema) isLeaf() bool { return len(s.Alternatives) == 0 && s.Reference == nil }

// isAnything reports whether a schema has no rule for the value.
func (s *Schema) isAnything() bool {
	return s.isLeaf() && s.Types == AnyType && s.Struct == nil && s.Items == nil && s.Default == nil &&
		len(s.Relations) == 0 &&
		len(s.Not) == 0 && s.Min == nil && s.Max == nil && len(s.Patterns) == 0 && len(s.Checks) == 0 &&
		s.Unique == nil &&
		s.Length == Range{} && s.Size == Range{} && s.Count == Range{} && s.Enum == nil && len(s.Matches) == 0
}

// And returns the schema of the values that satisfy both a and b, as CUE's & does. The
// arguments are not changed, but the result shares parts with them. A contradiction
// gives a schema that is Impossible.
func And(a, b *Schema) *Schema {
	switch {
	case a.Impossible != nil:
		return a
	case b.Impossible != nil:
		return b
	case a.Reference != nil && b.isAnything():
		return withNotes(*a, a, b)
	case b.Reference != nil && a.isAnything():
		return withNotes(*b, a, b)
	case a.Reference != nil || b.Reference != nil:
		return Impossible(a.Position,
			"a recursive definition cannot be combined with other constraints where it refers to itself")
	case !a.isLeaf() || !b.isLeaf():
		return andAlternatives(a, b)
	}
	return andLeaves(a, b)
}

// withNotes gives a schema the documentation and attributes of both of its parts.
func withNotes(s Schema, a, b *Schema) *Schema {
	s.Doc = cmp.Or(b.Doc, a.Doc)
	if a.Position.File == "" {
		s.Position = b.Position
	} else {
		s.Position = a.Position
	}
	x, y := a.Attributes, b.Attributes
	s.ListType, s.ListTypeRule = cmp.Or(x.ListType, y.ListType), cmp.Or(x.ListTypeRule, y.ListTypeRule)
	if s.ListMapKeys = x.ListMapKeys; len(s.ListMapKeys) == 0 {
		s.ListMapKeys = y.ListMapKeys
	}
	s.Deprecated = cmp.Or(x.Deprecated, y.Deprecated)
	s.MapType, s.Format = cmp.Or(x.MapType, y.MapType), cmp.Or(x.Format, y.Format)
	s.Immutable = cmp.Or(x.Immutable, y.Immutable)
	s.Embedded, s.PreserveAll = x.Embedded || y.Embedded, x.PreserveAll || y.PreserveAll
	return &s
}

// andAlternatives multiplies two disjunctions, or one with something else. A branch of
// the product is a default if both of its parts are, where a disjunction without
// defaults counts as one that has only defaults.
func andAlternatives(a, b *Schema) *Schema {
	as, bs := a.branches(), b.branches()
	if len(as)*len(bs) > maxAlternatives {
		return Impossible(a.Position, "the disjunctions have more than %d alternatives together", maxAlternatives)
	}
	markedA, markedB := hasDefault(as), hasDefault(bs)
	var product []Alternative
	for _, x := range as {
		for _, y := range bs {
			product = append(product, Alternative{And(x.Schema, y.Schema),
				(markedA || markedB) && (x.Default || !markedA) && (y.Default || !markedB)})
		}
	}
	return withNotes(*Or(a.Position, product), a, b)
}

func hasDefault(alternatives []Alternative) bool {
	return slices.ContainsFunc(alternatives, func(a Alternative) bool { return a.Default })
}

// branches sees any schema as a disjunction.
func (s *Schema) branches() []Alternative {
	if len(s.Alternatives) > 0 {
		return s.Alternatives
	}
	if s.Default == nil {
		return []Alternative{{Schema: s}}
	}
	rest := *s
	rest.Default = nil
	return []Alternative{{Schema: Constant(s.Default.Value, s.Default.Rule), Default: true}, {Schema: &rest}}
}

// Constant returns the schema that a scalar alone satisfies.
func Constant(value any, rule *Rule) *Schema {
	s := &Schema{Position: rule.Position, Types: TypeOf(value)}
	if value != nil {
		s.Enum = &Enum{rule, []any{value}}
	}
	return s
}

func andLeaves(a, b *Schema) *Schema {
	s := withNotes(Schema{}, a, b)
	s.Types = a.Types & b.Types
	if s.Types == 0 {
		return Impossible(a.Position, "nothing is both %s and %s", a.Types, b.Types)
	}
	s.TypeRule = a.TypeRule
	if s.TypeRule == nil || b.TypeRule != nil && s.Types != a.Types {
		s.TypeRule = b.TypeRule
	}
	if s.Enum = andEnums(a, b, s.Types); s.Enum != nil && len(s.Enum.Values) == 0 {
		return Impossible(a.Position, "%s and %s have no value in common", a.text(), b.text())
	}
	s.Not = slices.Concat(a.Not, b.Not)
	s.Min, s.Max = tighter(a.Min, b.Min, 1), tighter(a.Max, b.Max, -1)
	s.Length, s.Size, s.Count = a.Length.and(b.Length), a.Size.and(b.Size), a.Count.and(b.Count)
	s.Patterns, s.Checks = slices.Concat(a.Patterns, b.Patterns), slices.Concat(a.Checks, b.Checks)
	s.Relations, s.Matches = slices.Concat(a.Relations, b.Relations), slices.Concat(a.Matches, b.Matches)
	s.Unclosed = a.Unclosed || b.Unclosed
	s.Unique = cmp.Or(a.Unique, b.Unique)
	switch {
	case a.Items == nil || b.Items == nil:
		s.Items = cmp.Or(a.Items, b.Items)
	default:
		s.Items = And(a.Items, b.Items)
	}
	if impossible := s.andStructs(a, b); impossible != nil {
		return impossible
	}
	s.Default = andDefaults(a, b, s)
	if rule := s.emptyRange(); rule != nil {
		return &Schema{Position: s.Position, Impossible: rule}
	}
	return s.onlyPossibleEnum()
}

func (s *Schema) andStructs(a, b *Schema) *Schema {
	if a.Struct == nil || b.Struct == nil {
		s.Struct = cmp.Or(a.Struct, b.Struct)
		return nil
	}
	both, rule := andStructSchemas(a.Struct, b.Struct)
	if rule != nil && s.Types == Struct {
		return &Schema{Position: a.Position, Impossible: rule}
	}
	s.Struct = both
	return nil
}

// text names a schema in an error.
func (s *Schema) text() string {
	if s.Enum != nil {
		return s.Enum.Text
	}
	return s.Types.String()
}

// andEnums returns what both enums allow. An enum limits only values of the types that are
// in it.
func andEnums(a, b *Schema, types Types) *Enum {
	if a.Enum == nil && b.Enum == nil {
		return nil
	}
	rule := &Enum{}
	var all []any
	for _, s := range []*Schema{a, b} {
		if s.Enum != nil {
			all = append(all, s.Enum.Values...)
			if rule.Rule == nil {
				rule.Rule = s.Enum.Rule
			}
		}
	}
	for _, v := range all {
		if TypeOf(v)&types != 0 && a.Enum.allows(v) && b.Enum.allows(v) && !slices.Contains(rule.Values, v) {
			rule.Values = append(rule.Values, v)
		}
	}
	if a.Enum != nil && b.Enum != nil {
		// The combination is a rule of its own: the CRD may carry only one of the two.
		if len(b.Enum.Values) < len(a.Enum.Values) {
			rule.Rule = b.Enum.Rule
		}
		rule.Rule = new(*rule.Rule)
	}
	return rule
}

// allows reports whether the enum has a scalar, or does not limit its type.
func (e *Enum) allows(value any) bool {
	if e == nil {
		return true
	}
	limited := false
	for _, v := range e.Values {
		if v == value {
			return true
		}
		limited = limited || TypeOf(v) == TypeOf(value)
	}
	return !limited
}

// onlyPossibleEnum drops the values of an enum that another rule forbids, and the types
// that are left without any.
func (s *Schema) onlyPossibleEnum() *Schema {
	if s.Enum == nil {
		return s
	}
	var left []any
	var types, before Types
	for _, v := range s.Enum.Values {
		before |= TypeOf(v)
		if s.scalarFits(v) {
			left = append(left, v)
			types |= TypeOf(v)
		}
	}
	if s.Types &^= before &^ types; s.Types == 0 {
		return Impossible(s.Position, "no value of %s fits the other rules", s.Enum.Text)
	}
	s.Enum = &Enum{s.Enum.Rule, left}
	if coversTypes(s.Enum, s.Types) {
		s.Not = nil // excluded values are no longer in the enum
	}
	return s
}

func andDefaults(a, b, both *Schema) *Literal {
	var d *Literal
	switch {
	case a.Default == nil:
		d = b.Default
	case b.Default == nil || reflect.DeepEqual(a.Default.Value, b.Default.Value):
		d = a.Default
	}
	if d != nil && both.Fits(d.Value) {
		return d
	}
	return nil
}

// emptyRange returns why no value is between the limits, if nothing else is allowed.
func (s *Schema) emptyRange() *Rule {
	between := func(a, b *Rule) *Rule {
		return &Rule{Text: "nothing satisfies both " + a.Text + " and " + b.Text, Position: b.Position}
	}
	if s.Types&^Number == 0 && s.Min != nil && s.Max != nil {
		order := compareNumbers(s.Min.Value, s.Max.Value)
		if order > 0 || order == 0 && (s.Min.Exclusive || s.Max.Exclusive) {
			return between(s.Min.Rule, s.Max.Rule)
		}
	}
	for types, r := range map[Types]Range{String: s.Length, List: s.Size, Struct: s.Count} {
		if s.Types == types && r.Min != nil && r.Max != nil && r.Min.N > r.Max.N {
			return between(r.Min.Rule, r.Max.Rule)
		}
	}
	return nil
}

// tighter picks the stricter of two bounds; sign is 1 for lower and -1 for upper ones.
func tighter(a, b *Bound, sign int) *Bound {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	order := compareNumbers(a.Value, b.Value) * sign
	if order > 0 || order == 0 && a.Exclusive {
		return a
	}
	return b
}

func (r Range) and(o Range) Range {
	pick := func(a, b *Limit, sign int64) *Limit {
		if a == nil || b != nil && (b.N-a.N)*sign > 0 {
			return b
		}
		return a
	}
	return Range{pick(r.Min, o.Min, 1), pick(r.Max, o.Max, -1)}
}

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

// andGroups lists all definitions; the parts of one allow what any of them does.
func andGroups(a, b []Group) []Group {
	groups := slices.Clone(a)
	for _, g := range b {
		i := slices.IndexFunc(groups, func(o Group) bool { return o.ID == g.ID })
		if i < 0 {
			groups = append(groups, g)
			continue
		}
		groups[i].Labels = slices.Concat(groups[i].Labels, g.Labels)
		groups[i].Open = groups[i].Open || g.Open
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
		if !g.NotInCUE && !g.allows(f.Name) &&
			!slices.ContainsFunc(others, func(o Group) bool { return o.ID == g.ID }) {
			if f.Presence == Optional {
				return nil
			}
			schema = Impossible(f.Schema.Position,
				"the field is not allowed by the definition that it is combined with")
		}
	}
	if schema == f.Schema {
		return f
	}
	return &Field{Name: f.Name, Presence: f.Presence, Schema: schema, Rule: f.Rule}
}
