package ir

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxProblems bounds what is reported of one object: nobody reads more, and an object
// of 3 MiB could have a hundred thousand.
const maxProblems = 200

// Problem is one thing that is wrong with an object.
type Problem struct {
	*field.Error
	// Rule is what the object breaks; it is nil if the problem is a field that no rule
	// speaks of.
	Rule *Rule
	// incomplete tells that the value lacks something but contradicts nothing, which
	// does not rule out an alternative.
	incomplete bool
	// enum is what has none of its values.
	enum *Enum
	// deep tells that the problem is where the schema contains itself, which CRDs cannot
	// express.
	deep bool
}

// Where says who refuses the object for the problem.
func (p Problem) Where() Where {
	if p.Rule == nil || p.deep || p.IsNull() {
		return Admission // the API server drops unknown fields, and null where it is not allowed
	}
	if f, ok := p.BadValue.(float64); ok && p.Type == field.ErrorTypeTypeInvalid && f == math.Trunc(f) {
		return Admission // the API server takes 1.0 for an integer
	}
	return p.Rule.Where
}

// IsNull tells whether the problem is that a value is null.
func (p Problem) IsNull() bool { return p.BadValue == nil && p.Type != field.ErrorTypeDuplicate }

// Validate lists what is wrong with an object that has its defaults, in no order. After
// maxProblems of them it stops looking.
func Validate(s *Schema, object map[string]any) []Problem {
	w := walker{structs: make([]map[string]any, 0, 8), path: make([]step, 0, 8)}
	w.value(s, object)
	return w.problems
}

// step is one step of the path to a value.
type step struct {
	name  string
	index int // of a list if name is empty
}

// walker walks through an object along a schema.
type walker struct {
	path     []step
	structs  []map[string]any // around the value, outermost first
	problems []Problem
	deep     bool // beyond where the schema contains itself
	// choosing counts the disjunctions around the value: below one, a value is looked at
	// once for each alternative.
	choosing int
	probing  bool // only whether there is a contradiction matters
	against  bool // one was found while probing
	memo     memo
}

func (w *walker) at() *field.Path {
	if w.probing {
		return nil // nobody reads the problem
	}
	var path *field.Path
	for _, s := range w.path {
		if s.name == "" && path != nil {
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
	w.report(Problem{Error: err, Rule: rule, deep: w.deep})
	w.against = w.against || w.probing
}

func (w *walker) addIncomplete(rule *Rule, err *field.Error) {
	w.report(Problem{Error: err, Rule: rule, incomplete: true, deep: w.deep})
}

func (w *walker) report(problems ...Problem) {
	w.problems = append(w.problems, problems[:min(len(problems), maxProblems-len(w.problems))]...)
}

// done tells that nothing more has to be looked at.
func (w *walker) done() bool { return w.against || len(w.problems) >= maxProblems }

// value validates one value.
func (w *walker) value(s *Schema, value any) {
	if w.done() {
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
}

func (w *walker) scalar(s *Schema, value any) {
	if s.Enum != nil && !s.Enum.allows(value) {
		w.add(s.Enum.Rule, field.NotSupported(w.at(), value, supported(s.Enum)))
		w.problems[len(w.problems)-1].enum = s.Enum
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

// counted says how many things there are; their name is a plural.
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
		w.add(r.Min.Rule, field.Invalid(w.at(), value, fmt.Sprintf("must have at least %s, has %d", counted(r.Min.N, things), n)))
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
			w.path = append(w.path, step{index: i})
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

// unique reports the items that are there twice, as a whole or by their keys.
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
		if seen[identity] {
			w.path = append(w.path, step{index: i})
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
		w.path = append(w.path, step{name: name})
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
			w.path = append(w.path, step{name: f.Name})
			w.addIncomplete(f.Rule, field.Required(w.at(), ""))
			w.path = w.path[:len(w.path)-1]
		}
	}
}

// unnamed validates a field that the schema does not name.
func (w *walker) unnamed(s *StructSchema, name string, value any) {
	if !s.allows(name) {
		w.add(nil, field.Forbidden(w.at(), "unknown field"))
		return
	}
	for _, label := range s.Labels {
		if label.matches(name) {
			w.value(label.Schema, value)
		}
	}
}

// conditional validates a struct together with what its conditions bring in.
func (w *walker) conditional(s *StructSchema, object map[string]any) {
	mask, failed := s.holding(w.structs)
	for _, f := range failed {
		if f.how == missing {
			w.addIncomplete(f.Rule, field.Required(w.at(), "a field that the condition "+f.Text+" reads is not there"))
		} else {
			w.add(f.Rule, field.Invalid(w.at(), field.OmitValueType{}, "the condition "+f.Text+" cannot be evaluated"))
		}
	}
	active := s.variants.with(s.Conditions, mask)
	if active.impossible != nil {
		w.add(active.impossible, field.Invalid(w.at(), field.OmitValueType{}, active.impossible.Text))
		return
	}
	w.fields(active.schema, object)
}

func (w *walker) relation(r Relation, value any) {
	other, how := r.Expr.eval(w.structs)
	switch how {
	case missing:
		w.addIncomplete(r.Rule, field.Invalid(w.at(), value, "must satisfy "+r.Text+", and a field that this reads is not there"))
	case invalid:
		w.add(r.Rule, field.Invalid(w.at(), value, "must satisfy "+r.Text+", which cannot be evaluated"))
	case known:
		holds, ok := compare(r.Op, value, other)
		// CUE has no bounds of booleans, and refuses those of other types, also with !=.
		types := TypeOf(value) | TypeOf(other)
		ok = ok && types&Bool == 0 && (TypeOf(value) == TypeOf(other) || types&^Number == 0)
		if r.Op == "==" { // a reference: 1 is not 1.0
			holds, ok = TypeOf(value)&(List|Struct) == 0 && value == other, true
		}
		if !ok || !holds {
			w.add(r.Rule, field.Invalid(w.at(), value, fmt.Sprintf("must satisfy %s, which is %v here", r.Text, other)))
		}
	}
}

// reference validates a value where the schema contains itself. Below a disjunction, it
// does so once: looking again for each alternative would double the work at each level.
func (w *walker) reference(s *Schema, value any) {
	before := w.deep
	w.deep = true
	defer func() { w.deep = before }()
	if w.choosing == 0 {
		w.value(s, value)
		return
	}
	if w.probing {
		against, ok := w.memo.probed(s, value)
		if !ok {
			against = w.contradicts(s, value)
			w.memo.keepProbed(s, value, against)
		}
		w.against = w.against || against
		return
	}
	problems, ok := w.memo.tried(s, value, w.path)
	if !ok {
		problems = w.try(s, value)
		w.memo.keepTried(s, value, w.path, problems)
	}
	w.report(problems...)
}

// alternatives validates a value that has to satisfy one of several schemas.
func (w *walker) alternatives(s *Schema, value any) {
	chosen, several := w.choose(possible(s.Alternatives, value), func(*Schema) any { return value })
	switch {
	case several:
		w.addIncomplete(s.TypeRule, field.Invalid(w.at(), field.OmitValueType{}, "must tell which of the alternatives it is: "+describe(s.Alternatives)))
	case w.probing:
		w.against = w.against || chosen == nil
	case chosen == nil:
		w.report(w.noneFits(s, value)...)
	default:
		w.report(w.try(chosen.schema, value)...)
	}
}

// possible drops the alternatives that a struct contradicts by a literal or by the name
// of a field, by which most are told apart: what is left is most often one.
func possible(alternatives []Alternative, value any) []Alternative {
	object, ok := value.(map[string]any)
	if !ok {
		return alternatives
	}
	return slices.DeleteFunc(slices.Clone(alternatives), func(a Alternative) bool { return a.rulesOut(object) })
}

// rulesOut looks at the scalars and the names of a struct alone, which defaults do not
// change.
func (s *Schema) rulesOut(object map[string]any) bool {
	if s.Struct == nil {
		return false
	}
	for name, value := range object {
		f := s.Struct.Field(name)
		switch {
		case f == nil:
			if len(s.Struct.Conditions) == 0 && !s.Struct.allows(name) {
				return true
			}
		case TypeOf(value)&(List|Struct) == 0 && !f.Schema.Enum.allows(value):
			return true
		}
	}
	return false
}

// fitting is an alternative that a value fits, and the value with its defaults.
type fitting struct {
	schema *Schema
	value  any
}

// choose picks the alternative that a value fits: the only one that it does not
// contradict, or the only default one among several; several tells that there is no such
// one. with gives the value with the defaults of an alternative.
func (w *walker) choose(alternatives []Alternative, with func(*Schema) any) (chosen *fitting, several bool) {
	if len(alternatives) > 1 {
		w.choosing++
		defer func() { w.choosing-- }()
	}
	marked := false
	for _, a := range alternatives {
		if chosen != nil && marked && !a.Default {
			continue
		}
		value := with(a.Schema)
		if w.contradicts(a.Schema, value) {
			continue
		}
		fit := &fitting{a.Schema, value}
		if chosen == nil || a.Default && !marked {
			chosen, marked, several = fit, a.Default, false
			continue
		}
		several = several || !chosen.isSame(fit)
		if len(chosen.schema.Relations) > 0 && a.Default == marked {
			chosen = fit // which needs no other field to be there
		}
	}
	if several {
		return nil, true
	}
	return chosen, false
}

// isSame tells whether two alternatives make the same of a value: for scalars they
// always do, but structs differ in what else they allow.
func (f *fitting) isSame(o *fitting) bool {
	if !hasStruct(f.value) {
		return true
	}
	return f.schema.saysNothingElse(f.value) && o.schema.saysNothingElse(o.value) &&
		(len(f.schema.Struct.Groups) == 0) == (len(o.schema.Struct.Groups) == 0) && reflect.DeepEqual(f.value, o.value)
}

// saysNothingElse tells whether a schema names only fields that a struct has, and those
// are no structs themselves.
func (s *Schema) saysNothingElse(value any) bool {
	object, ok := value.(map[string]any)
	if !ok || s.Struct == nil || len(s.Struct.Labels) > 0 || len(s.Struct.Conditions) > 0 {
		return false
	}
	for _, f := range s.Struct.Fields {
		if v, ok := object[f.Name]; !ok || hasStruct(v) {
			return false
		}
	}
	return true
}

// contradicts tells whether a value has problems with a schema other than that it is
// incomplete.
func (w *walker) contradicts(s *Schema, value any) bool {
	probing, against, problems := w.probing, w.against, w.problems
	w.probing, w.against, w.problems = true, false, nil
	w.value(s, value)
	found := w.against
	w.probing, w.against, w.problems = probing, against, problems
	return found
}

// closest lists the problems that a value has with the alternative that it contradicts
// least, and those that it has with each.
func (w *walker) closest(alternatives []Alternative, value any) (closest []Problem, all [][]Problem) {
	w.choosing++
	defer func() { w.choosing-- }()
	// No alternative gave the value its defaults: they are not what is missing.
	d := defaulter{structs: w.structs}
	for _, a := range alternatives {
		problems := w.try(a.Schema, d.value(a.Schema, value))
		all = append(all, problems)
		if closest == nil || w.closeness(problems) < w.closeness(closest) {
			closest = problems
		}
	}
	return closest, all
}

// closeness orders alternatives by how much a value contradicts them; what alternatives
// are told apart by weighs more: the type, literals, and which fields there are.
func (w *walker) closeness(problems []Problem) int {
	n, own := 0, w.at().String()
	for _, p := range problems {
		switch {
		case p.incomplete:
		case p.Type == field.ErrorTypeTypeInvalid && p.Field == own:
			n += 100_000
		case p.Type == field.ErrorTypeNotSupported:
			n += 10_000
		case p.Type == field.ErrorTypeForbidden:
			n += 100
		default:
			n++
		}
	}
	return n
}

// noneFits reports a value that contradicts all alternatives: as one problem if they
// are scalars or told apart by a literal, else as those with the closest.
func (w *walker) noneFits(s *Schema, value any) []Problem {
	alternatives := s.Alternatives
	closest, all := w.closest(alternatives, value)
	if !onlyScalars(alternatives) {
		if literal := noLiteral(all); literal != nil {
			return literal
		}
		return closest
	}
	first := closest[0]
	first.Error = &field.Error{Type: field.ErrorTypeInvalid, Field: w.at().String(), BadValue: first.BadValue, Detail: "must satisfy " + describe(alternatives)}
	if closest[0].Type == field.ErrorTypeTypeInvalid {
		first.Type = field.ErrorTypeTypeInvalid
	}
	if s.TypeRule != nil {
		first.Rule = s.TypeRule
	}
	return []Problem{first}
}

func onlyScalars(alternatives []Alternative) bool {
	return !slices.ContainsFunc(alternatives, func(a Alternative) bool { return a.Reference != nil || a.Types&(List|Struct) != 0 })
}

// noLiteral finds the field that has none of the literals by which all alternatives are
// told apart.
func noLiteral(all [][]Problem) []Problem {
	for _, p := range all[0] {
		if p.Type != field.ErrorTypeNotSupported {
			continue
		}
		var allowed []string
		for _, problems := range all {
			i := slices.IndexFunc(problems, func(o Problem) bool {
				return o.Type == field.ErrorTypeNotSupported && o.Field == p.Field && o.enum != nil
			})
			if i < 0 {
				allowed = nil
				break
			}
			allowed = append(allowed, supported(problems[i].enum)...)
		}
		if len(allowed) > 0 {
			error := *p.Error
			error.Detail = field.NotSupported(nil, "", allowed).Detail
			p.Error = &error
			return []Problem{p}
		}
	}
	return nil
}

// try validates a value without reporting what is wrong with it.
func (w *walker) try(s *Schema, value any) []Problem {
	before := w.problems
	w.problems = nil
	w.value(s, value)
	problems := w.problems
	w.problems = before
	return problems
}

// hasStruct tells whether there is a struct in a value: two alternatives that let the
// same scalars pass are one, but two structs differ in what else they allow.
func hasStruct(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return true
	case []any:
		return slices.ContainsFunc(v, hasStruct)
	}
	return false
}

// Fits tells whether a schema lets a value pass that is a default.
func (s *Schema) Fits(value any) bool {
	w := walker{}
	w.value(s, value)
	return !slices.ContainsFunc(w.problems, func(p Problem) bool { return !p.incomplete })
}

// scalarFits tells whether the rules for scalars, the enum aside, let a value pass.
func (s *Schema) scalarFits(value any) bool {
	without := Schema{Types: s.Types, Not: s.Not, Min: s.Min, Max: s.Max, Length: s.Length, Patterns: s.Patterns, Checks: s.Checks}
	return without.Fits(value)
}

// visit is a struct or a list that is looked at along a schema.
type visit struct {
	schema  *Schema
	address uintptr
	size    int
}

func visitOf(s *Schema, value any) visit {
	v := reflect.ValueOf(value)
	return visit{s, v.Pointer(), v.Len()}
}

// memo is what a walker found out of the structs and lists of one object, which do not
// change meanwhile. The zero memo is ready for use.
type memo struct {
	against  map[visit]bool
	problems map[visit]problemsAt
}

type problemsAt struct {
	path     []step
	problems []Problem
}

func (m *memo) probed(s *Schema, value any) (against, ok bool) {
	if TypeOf(value)&(List|Struct) != 0 {
		against, ok = m.against[visitOf(s, value)]
	}
	return against, ok
}

func (m *memo) keepProbed(s *Schema, value any, against bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.against == nil {
		m.against = make(map[visit]bool)
	}
	m.against[visitOf(s, value)] = against
}

// tried is what was found where path leads; one value may be at several places.
func (m *memo) tried(s *Schema, value any, path []step) ([]Problem, bool) {
	if TypeOf(value)&(List|Struct) == 0 {
		return nil, false
	}
	found, ok := m.problems[visitOf(s, value)]
	return found.problems, ok && slices.Equal(found.path, path)
}

func (m *memo) keepTried(s *Schema, value any, path []step, problems []Problem) {
	if TypeOf(value)&(List|Struct) == 0 {
		return
	}
	if m.problems == nil {
		m.problems = make(map[visit]problemsAt)
	}
	m.problems[visitOf(s, value)] = problemsAt{slices.Clone(path), problems}
}
