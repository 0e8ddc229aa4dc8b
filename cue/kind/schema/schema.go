package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Types is a set of the types that JSON values have.
type Types uint8

// The types, as CUE distinguishes them: 3 is an Int and 3.0 a Float.
const (
	Null Types = 1 << iota
	Bool
	Int
	Float
	String
	List
	Struct

	Number  = Int | Float
	AnyType = Null | Bool | Number | String | List | Struct
)

// String names the types as CUE does.
func (t Types) String() string {
	names := []struct {
		types Types
		name  string
	}{{Null, "null"}, {Bool, "bool"}, {Number, "number"}, {Int, "int"}, {Float, "float"}, {String, "string"},
		{List, "list"}, {Struct, "struct"}}
	var parts []string
	for _, n := range names {
		if t&n.types == n.types {
			parts = append(parts, n.name)
			t &^= n.types
		}
	}
	return strings.Join(parts, " or ")
}

// TypeOf returns the type of a value as unstructured objects have it.
func TypeOf(value any) Types {
	switch value.(type) {
	case nil:
		return Null
	case bool:
		return Bool
	case int64:
		return Int
	case float64:
		return Float
	case string:
		return String
	case []any:
		return List
	case map[string]any:
		return Struct
	}
	return 0
}

// Rule is one thing that a schema requires.
type Rule struct {
	// Text is the rule in CUE, like ">=1" or "strings.MaxRunes(63)".
	Text string
	// Position is where it stands.
	Position place.Position
	// NotInCUE marks what a @kube attribute requires and the CUE evaluator does not know.
	NotInCUE bool
}

// Schema defines which values a field may have. All of its rules have to hold; a rule for
// strings, for example, applies only if the value is a string. The zero Schema allows
// nothing, because it has no Types. A prepared Schema never changes.
type Schema struct {
	// Doc is the comment above the field.
	Doc string
	// Position is where the schema begins.
	Position place.Position

	Types    Types
	TypeRule *Rule
	Enum     *Enum
	Not      []Literal
	Min, Max *Bound
	// Length counts the runes of a string, Size the items of a list, Count the fields of
	// a struct.
	Length, Size, Count Range
	Patterns            []Pattern
	Checks              []Check
	Unique              *Rule
	Relations           []Relation
	Matches             []Match
	// Unclosed means that a validator stands next to the value, as in
	// list.MaxItems(3) & [...{a?: int}]: CUE v0.17.1 does not close the structs within that
	// are written out there.
	Unclosed bool
	// Items is the schema of the items of a list; nil allows any.
	Items *Schema
	// Struct is the schema of the fields of a struct; nil allows any.
	Struct *StructSchema

	// Alternatives, if there are any, replace all of the above: the value has to satisfy
	// one of them.
	Alternatives []Alternative
	// Reference, if set, replaces all of the above: the schema contains itself here.
	Reference *Schema

	// Default is the value of a regular field that is absent.
	Default *Literal
	// Impossible, if set, is the reason why nothing can satisfy the schema.
	Impossible *Rule

	Attributes
	prepared bool
	defaults bool // whether any value within can get a default
	guarded  bool // whether any value within may be immutable
}

// Attributes hold what @kube(…) states because CUE cannot.
type Attributes struct {
	ListType    string
	ListMapKeys []string
	MapType     string
	Format      string
	Immutable   *Rule
	// Deprecated names what to use instead; it is empty for a field that is not deprecated.
	Deprecated   string
	Embedded     bool
	PreserveAll  bool
	ListTypeRule *Rule
}

// Literal is a value that stands in the schema.
type Literal struct {
	*Rule
	Value any
}

// Enum lists the only values that are allowed; they are scalars.
type Enum struct {
	*Rule
	Values []any
}

// Bound is a limit for numbers.
type Bound struct {
	*Rule
	Value     any // int64 or float64
	Exclusive bool
}

// Range limits a length or a number of things.
type Range struct {
	Min, Max *Limit
}

// Limit is one end of a Range.
type Limit struct {
	*Rule
	N int64
}

// Pattern is a regular expression for strings, in the syntax of RE2.
type Pattern struct {
	*Rule
	Regexp  *regexp.Regexp
	Negated bool
}

// Check is a rule for strings that has a name in CUE's standard library.
type Check struct {
	*Rule
	Holds func(string) bool
	// Format is the OpenAPI format that allows all that the check allows, if there is one;
	// Exact reports that it allows nothing else.
	Format string
	Exact  bool
	// Pattern is the equivalent regular expression, if there is one.
	Pattern string
}

// Relation compares a value with an expression over the object: x op expr.
type Relation struct {
	*Rule
	Op   string
	Expr *Expr
}

// Match bounds how many of several schemas a value satisfies, as CUE's matchN does. The
// schemas have no defaults to give.
type Match struct {
	*Rule
	Count   Range
	Schemas []*Schema
}

// Alternative is one branch of a disjunction.
type Alternative struct {
	*Schema
	// Default marks the branch that is taken where several fit.
	Default bool
}

// Presence is whether a field is required.
type Presence int

// A Regular field is required unless it has a default.
const (
	Optional Presence = iota
	Required
	Regular
)

// Field is a field of a struct.
type Field struct {
	Name     string
	Presence Presence
	Schema   *Schema
	// Rule requires that the field is set.
	Rule *Rule
}

// StructSchema defines which fields a struct may have and what they have to be.
type StructSchema struct {
	Fields []*Field
	// Labels apply to all fields whose names match.
	Labels []LabelPattern
	// Open reports that a conjunct of the definition that is being read allows any field;
	// it matters until that definition is closed.
	Open bool
	// Defined reports that the struct embeds a definition.
	Defined bool
	// Groups are the definitions that the struct is part of.
	Groups []Group
	// Conditions are what an if adds.
	Conditions []Condition

	index    map[string]int
	required int // the number of required fields
	variants *variants
}

// LabelPattern applies to the fields whose names match; a nil Regexp matches all.
type LabelPattern struct {
	Regexp  *regexp.Regexp
	Negated bool
	Schema  *Schema
	Rule    *Rule
}

// Group is what a definition says about further fields: it allows fields that Labels match, and those that it names. ID
// identifies the definition. Open means that it allows any, because a part of it ends in "...".
type Group struct {
	ID     int
	Labels []LabelPattern
	Open   bool
	// NotInCUE means that CUE v0.17.1 does not close the struct; see Schema.Unclosed. Fescue
	// reports unknown fields anyway, as a problem that the evaluator does not have.
	NotInCUE bool
}

// Condition is an if in a struct: where When holds, Then is part of the struct.
type Condition struct {
	*Rule
	When *Expr
	Then *StructSchema
}

func (p LabelPattern) matches(name string) bool {
	return p.Regexp == nil || p.Regexp.MatchString(name) != p.Negated
}

// nameSteps is what it takes to match a name with the patterns of a struct.
func (s *StructSchema) nameSteps(name string) (n int) {
	for _, label := range s.Labels {
		if label.Regexp != nil {
			n += len(name) / budget.BytesPerMatch
		}
	}
	return n
}

// allows reports whether the group allows a field that it does not name.
func (g Group) allows(name string) bool {
	if g.Open {
		return true
	}
	for _, label := range g.Labels {
		if label.matches(name) {
			return true
		}
	}
	return false
}

// Field finds a field by its name.
func (s *StructSchema) Field(name string) *Field {
	if s.index != nil {
		if i, ok := s.index[name]; ok {
			return s.Fields[i]
		}
		return nil
	}
	for _, f := range s.Fields {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// allows reports whether CUE allows a field that the schema does not name.
func (s *StructSchema) allows(name string) bool {
	return !slices.ContainsFunc(s.Groups, func(g Group) bool { return !g.NotInCUE && !g.allows(name) })
}

// expects reports whether the author of the schema allows a field that it does not name.
func (s *StructSchema) expects(name string) bool {
	return !slices.ContainsFunc(s.Groups, func(g Group) bool { return !g.allows(name) })
}

// closed reports whether CUE rejects fields that the schema does not name.
func (s *StructSchema) closed() bool {
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return !g.NotInCUE && !g.Open })
}

// isOpen reports whether the author of the schema allows all fields that it does not name.
func (s *StructSchema) isOpen() bool {
	return !slices.ContainsFunc(s.Groups, func(g Group) bool { return !g.Open })
}

// canAllowMore reports whether an if may let a struct have fields that nothing names.
func (s *StructSchema) canAllowMore() bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool {
		return c.Then.isOpen() || len(c.Then.Labels) > 0 || c.Then.canAllowMore()
	})
}

// coversTypes reports whether an enum limits all allowed types: OpenAPI has
// no enum for one of several types.
func coversTypes(e *Enum, types Types) bool {
	var limited Types
	for _, v := range e.Values {
		limited |= TypeOf(v)
	}
	return types&^(limited|Null) == 0
}

// rules lists what a schema requires of a value itself, without what is within it.
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
	for _, m := range s.Matches {
		add(m.Rule)
	}
	for _, r := range []*Rule{s.Unique, s.ListTypeRule, s.Immutable} {
		add(r)
	}
	return rules
}
