package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// maxProblems bounds the problems reported for one object: nobody reads more, and an object
// of 3 MiB could have a hundred thousand.
const maxProblems = 200

// Problem is one error of an object.
type Problem struct {
	*field.Error
	// Rule is the rule that the object breaks; it is nil for an unknown field.
	Rule *Rule
	// incomplete means that something is missing in the value but nothing contradicts the
	// schema, which does not rule out an alternative.
	incomplete bool
	// enum is the enum that the value is not in.
	enum *Enum
	// deep means that the problem is where the schema contains itself, which CRDs cannot
	// express.
	deep bool
}

// IsNull reports whether the problem is that a value is null.
func (p Problem) IsNull() bool { return p.BadValue == nil && p.Type != field.ErrorTypeDuplicate }

// Validate lists the problems of an object that has its defaults, in no order. It stops
// after maxProblems.
func Validate(b *budget.Budget, s *Schema, object map[string]any) []Problem {
	w := walker{where: where{budget: b, structs: make([]map[string]any, 0, 8), path: make([]step, 0, 8)}}
	w.value(s, object)
	return w.result()
}

// result returns what was found, or the only problem of an object that exceeds the budget: what was found of it
// may be wrong.
func (w *walker) result() []Problem {
	if w.budget.IsExceeded() {
		return []Problem{{Error: field.Invalid(field.NewPath("spec"), field.OmitValueType{}, w.budget.Excess())}}
	}
	return w.found
}

// step is one step of the path to a value.
type step struct {
	name  string
	index int // of a list, or -1 if it is a field
}

func fieldStep(name string) step { return step{name, -1} }

func itemStep(index int) step { return step{"", index} }

// where is the place of a value in an object. problems and fits each begin a walk of their own
// there.
type where struct {
	budget  *budget.Budget
	path    []step
	structs []map[string]any // around the value, outermost first
	deep    int              // how often the schema contains itself on the way
	// choosing is true below a disjunction: there, a value is validated once for each
	// alternative.
	choosing bool
	memo     *memo
}

// problems lists what a schema finds wrong with a value.
func (here *where) problems(s *Schema, value any) []Problem {
	w := here.walk()
	w.value(s, value)
	return w.found
}

// fits reports whether a value does not contradict a schema; it may be incomplete. The walk ends
// at the first contradiction.
func (here *where) fits(s *Schema, value any) bool {
	w := here.walk()
	w.onlyFits = true
	w.value(s, value)
	return !w.contradicted
}

// walk returns a walker that has found nothing.
func (here *where) walk() *walker {
	here.remember()
	return &walker{where: *here}
}

// below returns the same place below a disjunction.
func (here *where) below() *where {
	here.remember()
	below := *here
	below.choosing = true
	return &below
}

// remember makes all walks that begin here share what they find.
func (here *where) remember() {
	if here.memo == nil {
		here.memo = new(memo)
	}
}

// walker is one walk through a value along a schema. It does for its whole length what it was
// begun for.
type walker struct {
	where
	found        []Problem
	onlyFits     bool // fits began it: nobody reads what is found
	contradicted bool // its answer to fits, which ends it
}

func (w *walker) at() *field.Path {
	if w.onlyFits {
		return nil
	}
	var path *field.Path
	for _, s := range w.path {
		if s.index >= 0 {
			path = path.Index(s.index)
		} else {
			path = path.Child(s.name)
		}
	}
	if path == nil {
		return field.NewPath("")
	}
	return path
}

func (w *walker) add(rule *Rule, err *field.Error) {
	w.report(Problem{Error: err, Rule: rule, deep: w.deep > 0})
	w.contradicted = w.onlyFits
}

func (w *walker) addIncomplete(rule *Rule, err *field.Error) {
	w.report(Problem{Error: err, Rule: rule, incomplete: true, deep: w.deep > 0})
}

func (w *walker) report(problems ...Problem) {
	w.found = append(w.found, problems[:min(len(problems), maxProblems-len(w.found))]...)
}

// done reports whether nothing more has to be validated.
func (w *walker) done() bool {
	return w.contradicted || len(w.found) >= maxProblems || w.budget.IsExceeded()
}

// value validates one value.
func (w *walker) value(s *Schema, value any) {
	if w.budget.Take(1); w.done() {
		return
	}
	switch {
	case s.Reference != nil:
		w.reference(s.Reference, value)
	case s.Impossible != nil:
		w.add(s.Impossible, field.Invalid(w.at(), value, s.Impossible.Text))
	case len(s.Alternatives) > 0:
		w.alternatives(s, value)
	case s.Types&TypeOf(value) == 0:
		w.add(s.TypeRule, field.TypeInvalid(w.at(), value, "must be "+s.Types.String()+", is "+TypeOf(value).String()))
	default:
		w.typed(s, value)
	}
}

// typed validates a value of a type that the schema allows.
func (w *walker) typed(s *Schema, value any) {
	switch v := value.(type) {
	case string:
		w.scalar(s, value)
		w.text(s, v)
	case int64, float64:
		w.scalar(s, value)
		w.number(s, v)
	case []any:
		w.list(s, v)
	case map[string]any:
		w.object(s, v)
	default:
		w.scalar(s, value)
	}
	for _, r := range s.Relations {
		w.relation(r, value)
	}
	for i := range s.Matches {
		w.match(&s.Matches[i], value)
	}
}

func (w *walker) scalar(s *Schema, value any) {
	if s.Enum != nil && !s.Enum.allows(value) {
		w.add(s.Enum.Rule, field.NotSupported(w.at(), value, supported(s.Enum)))
		w.found[len(w.found)-1].enum = s.Enum
	}
	for _, not := range s.Not {
		if equal, ok := compare("==", value, not.Value); ok && equal {
			w.add(not.Rule, field.Invalid(w.at(), value, "must satisfy "+not.Text))
		}
	}
}

func supported(e *Enum) []string {
	var texts []string
	for _, v := range e.Values {
		texts = append(texts, fmt.Sprint(v))
	}
	return texts
}

func (w *walker) text(s *Schema, text string) {
	if !w.budget.Take(len(text)/budget.BytesPerStep + len(text)/budget.BytesPerMatch*(len(s.Patterns)+len(s.Checks))) {
		return
	}
	if s.Length != (Range{}) && !s.Length.allows(runes(text)) {
		w.outOfRange(s.Length, runes(text), text, "characters")
	}
	for i := range s.Patterns {
		if p := &s.Patterns[i]; p.Regexp.MatchString(text) == p.Negated {
			w.add(p.Rule, field.Invalid(w.at(), text, "must satisfy "+p.Text))
		}
	}
	for i := range s.Checks {
		if c := &s.Checks[i]; !c.Holds(text) {
			w.add(c.Rule, field.Invalid(w.at(), text, "must satisfy "+c.Text))
		}
	}
}

// counted returns a number of things in words; things is a plural.
func counted(n int64, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return fmt.Sprintf("%d %s", n, things)
}

// allows is apart from outOfRange, whose arguments cost an allocation.
func (r Range) allows(n int64) bool {
	return (r.Min == nil || n >= r.Min.N) && (r.Max == nil || n <= r.Max.N)
}

// outOfRange reports a length or a number of things.
func (w *walker) outOfRange(r Range, n int64, value any, things string) {
	if r.Min != nil && n < r.Min.N {
		w.add(r.Min.Rule,
			field.Invalid(w.at(), value, fmt.Sprintf("must have at least %s, has %d", counted(r.Min.N, things), n)))
	}
	if r.Max != nil && n > r.Max.N {
		err := field.TooLongCharacters(w.at(), "", int(r.Max.N))
		if things != "characters" {
			err = field.TooMany(w.at(), int(n), int(r.Max.N))
			err.Detail = "must have at most " + counted(r.Max.N, things)
		}
		w.add(r.Max.Rule, err)
	}
}

func (w *walker) number(s *Schema, n any) {
	for _, end := range []struct {
		bound *Bound
		sign  int
	}{{s.Min, 1}, {s.Max, -1}} {
		if end.bound == nil {
			continue
		}
		if order := compareNumbers(n, end.bound.Value) * end.sign; order < 0 || order == 0 && end.bound.Exclusive {
			w.add(end.bound.Rule, field.Invalid(w.at(), n, "must satisfy "+end.bound.Text))
		}
	}
}

func (w *walker) list(s *Schema, list []any) {
	if n := int64(len(list)); !s.Size.allows(n) {
		w.outOfRange(s.Size, n, field.OmitValueType{}, "items")
	}
	if s.Items != nil {
		for i, item := range list {
			if w.done() {
				return
			}
			w.path = append(w.path, itemStep(i))
			w.value(s.Items, item)
			w.path = w.path[:len(w.path)-1]
		}
	}
	if s.Unique != nil {
		w.unique(s.Unique, list, nil)
	}
	switch s.ListType {
	case "set":
		w.unique(s.ListTypeRule, list, nil)
	case "map":
		w.unique(s.ListTypeRule, list, s.ListMapKeys)
	}
}

// itemSteps is what it takes to compare an item with all others.
const itemSteps = 4

// unique reports duplicate items, as a whole or by their keys.
func (w *walker) unique(rule *Rule, list []any, keys []string) {
	seen := make(map[string]bool, len(list))
	var b strings.Builder
	for i, item := range list {
		if w.done() {
			return
		}
		b.Reset()
		if keys == nil {
			writeIdentity(&b, item)
		} else {
			object, ok := item.(map[string]any)
			if !ok {
				continue
			}
			for _, key := range keys {
				writeIdentity(&b, object[key])
			}
		}
		identity := b.String()
		w.budget.Take(itemSteps + len(identity)/budget.BytesPerStep)
		if seen[identity] {
			w.path = append(w.path, itemStep(i))
			w.add(rule, field.Duplicate(w.at(), item))
			w.path = w.path[:len(w.path)-1]
		}
		seen[identity] = true
	}
}

func (w *walker) object(s *Schema, object map[string]any) {
	if n := int64(len(object)); !s.Count.allows(n) {
		w.outOfRange(s.Count, n, field.OmitValueType{}, "fields")
	}
	if s.Struct == nil {
		return
	}
	w.structs = append(w.structs, object)
	w.fields(s.Struct, object)
	w.structs = w.structs[:len(w.structs)-1]
}

// fields validates the fields of a struct, which is the innermost of w.structs.
func (w *walker) fields(s *StructSchema, object map[string]any) {
	if len(s.Conditions) > 0 {
		w.conditional(s, object)
		return
	}
	found := 0
	for name, value := range object {
		if w.done() {
			return
		}
		w.path = append(w.path, fieldStep(name))
		if i, ok := s.index[name]; ok {
			if s.Fields[i].Presence != Optional {
				found++
			}
			w.value(s.Fields[i].Schema, value)
		} else {
			w.unnamed(s, name, value)
		}
		w.path = w.path[:len(w.path)-1]
	}
	if found == s.required {
		return
	}
	for _, f := range s.Fields {
		if _, ok := object[f.Name]; !ok && f.Presence != Optional {
			w.path = append(w.path, fieldStep(f.Name))
			w.addIncomplete(f.Rule, field.Required(w.at(), ""))
			w.path = w.path[:len(w.path)-1]
		}
	}
}

// unnamed validates a field that the schema does not name.
func (w *walker) unnamed(s *StructSchema, name string, value any) {
	if !w.budget.Take(s.nameSteps(name)) {
		return
	}
	if !s.allows(name) {
		w.add(nil, field.Forbidden(w.at(), "unknown field"))
		return
	}
	for _, label := range s.Labels {
		if label.matches(name) {
			w.value(label.Schema, value)
		}
	}
	if !s.expects(name) {
		w.addIncomplete(notClosedInCUE, field.Forbidden(w.at(), "unknown field"))
	}
}

// notClosedInCUE is the rule against unknown fields that CUE v0.17.1 does not have; see
// Schema.Unclosed.
var notClosedInCUE = &Rule{Text: "unknown field", NotInCUE: true}

// conditional validates a struct together with the fields that its conditions add.
func (w *walker) conditional(s *StructSchema, object map[string]any) {
	mask, failed := s.holding(w.budget, w.structs)
	for _, f := range failed {
		if f.how == missing {
			w.addIncomplete(f.Rule, field.Required(w.at(), "the condition "+f.Text+" reads "+f.When.missing(w.structs)+
				", which is not set"))
		} else {
			w.add(f.Rule, field.Invalid(w.at(), field.OmitValueType{}, "the condition "+f.Text+" cannot be evaluated"))
		}
	}
	active := s.variants.with(w.budget, s.Conditions, mask)
	if active.impossible != nil {
		w.add(active.impossible, field.Invalid(w.at(), field.OmitValueType{}, active.impossible.Text))
		return
	}
	before := len(w.found)
	w.fields(active.schema, object)
	for i := before; i < len(w.found); i++ {
		s.because(mask, w.at(), &w.found[i])
	}
}

// because adds the condition to a problem that it causes: a field that is required because
// it holds, or not allowed because it does not.
func (s *StructSchema) because(mask uint32, at *field.Path, p *Problem) {
	for i, c := range s.Conditions {
		for _, f := range c.Then.Fields {
			if p.Field != child(at, f.Name) {
				continue
			}
			holds := mask&(1<<i) != 0
			switch {
			case p.Type == field.ErrorTypeRequired && holds && p.Rule == f.Rule && p.Detail == "":
				p.Error = field.Required(field.NewPath(p.Field), "since "+c.Text)
			case p.Type == field.ErrorTypeForbidden && !holds && (p.Rule == nil || p.Rule == notClosedInCUE):
				p.Error = field.Forbidden(field.NewPath(p.Field), "is allowed only if "+c.Text)
			}
		}
	}
}

// child names a field of the struct at a path.
func child(at *field.Path, name string) string {
	if at.String() == "" {
		return name
	}
	return at.Child(name).String()
}

// shown returns the value of the other field of a comparison, if it is short and not secret.
func shown(other any) string {
	if TypeOf(other)&Number == 0 {
		return ""
	}
	return fmt.Sprintf(", which is %v here", other)
}

func (w *walker) relation(r Relation, value any) {
	w.budget.Take(r.Expr.steps(w.structs))
	other, how := r.Expr.eval(w.structs)
	switch how {
	case missing:
		w.addIncomplete(r.Rule, field.Invalid(w.at(), value, "must satisfy "+r.Text+", and "+r.Expr.missing(w.structs)+
			" is not set"))
	case invalid:
		w.add(r.Rule, field.Invalid(w.at(), value, "must satisfy "+r.Text+", which cannot be evaluated"))
	case known:
		holds, ok := compare(r.Op, value, other)
		// CUE has no bounds of booleans, and rejects those of other types, also with !=.
		types := TypeOf(value) | TypeOf(other)
		ok = ok && types&Bool == 0 && (TypeOf(value) == TypeOf(other) || types&^Number == 0)
		if r.Op == "==" { // a reference: 1 is not 1.0
			holds, ok = TypeOf(value)&(List|Struct) == 0 && value == other, true
		}
		if !ok || !holds {
			w.add(r.Rule, field.Invalid(w.at(), value, "must satisfy "+r.Text+shown(other)))
		}
	}
}

// Fits reports whether a schema allows a value as a default.
func (s *Schema) Fits(value any) bool {
	prepared := *s
	prepared.prepared = false
	Prepare(&prepared)
	here := where{budget: budget.New("")}
	return !slices.ContainsFunc(here.problems(&prepared, value), func(p Problem) bool { return !p.incomplete })
}

// scalarFits reports whether the rules for scalars, except the enum, allow a value.
func (s *Schema) scalarFits(value any) bool {
	without := Schema{Types: s.Types, Not: s.Not, Min: s.Min, Max: s.Max, Length: s.Length, Patterns: s.Patterns,
		Checks: s.Checks}
	return without.Fits(value)
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
