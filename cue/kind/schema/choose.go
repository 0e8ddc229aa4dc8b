package schema

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// reference validates a value where the schema contains itself. Below a disjunction, it
// does so once: validating it for each alternative would double the work at each level.
func (w *walker) reference(s *Schema, value any) {
	w.deep++
	defer func() { w.deep-- }()
	switch {
	case !w.choosing:
		w.value(s, value)
	case w.onlyFits:
		w.contradicted = !w.fitsOnce(s, value)
	default:
		w.report(w.problemsOnce(s, value)...)
	}
}

// fitsOnce is fits for a value that other alternatives have too.
func (here *where) fitsOnce(s *Schema, value any) bool {
	fits, ok := here.memo.knownFit(s, value)
	if !ok {
		fits = here.fits(s, value)
		here.memo.keepFit(s, value, fits)
	}
	return fits
}

// problemsOnce is problems for a value that other alternatives have too.
func (here *where) problemsOnce(s *Schema, value any) []Problem {
	problems, ok := here.memo.knownProblems(s, value, here.path)
	if !ok {
		problems = here.problems(s, value)
		here.memo.keepProblems(s, value, here.path, problems)
	}
	return problems
}

// ambiguous begins the error for a value that fits several alternatives.
const ambiguous = "must match exactly one alternative: "

// alternatives validates a value that has to satisfy one of several schemas.
func (w *walker) alternatives(s *Schema, value any) {
	chosen, several := w.choose(possible(w.budget, s.Alternatives, value), func(*Schema) any { return value })
	switch {
	case several:
		w.addIncomplete(s.TypeRule, field.Invalid(w.at(), field.OmitValueType{}, ambiguous+describe(s.Alternatives)))
	case w.onlyFits:
		w.contradicted = chosen == nil
	case chosen == nil:
		w.report(w.noneFits(s, value)...)
	default:
		w.report(w.problems(chosen.schema, value)...)
	}
}

// possible drops the alternatives that a struct contradicts by a literal or by the name of a
// field, which distinguish most alternatives: usually one is left.
func possible(b *budget.Budget, alternatives []Alternative, value any) []Alternative {
	object, ok := value.(map[string]any)
	if !ok {
		return alternatives
	}
	b.Take(len(alternatives) * (1 + len(object)/entriesPerStep))
	return slices.DeleteFunc(slices.Clone(alternatives), func(a Alternative) bool { return a.rulesOut(b, object) })
}

// rulesOut checks only the scalars and the names of a struct, which defaults do not
// change.
func (s *Schema) rulesOut(b *budget.Budget, object map[string]any) bool {
	if s.Struct == nil {
		return false
	}
	for name, value := range object {
		f := s.Struct.Field(name)
		switch {
		case f == nil:
			if b.Take(s.Struct.nameSteps(name)); len(s.Struct.Conditions) == 0 && !s.Struct.allows(name) {
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
// contradict, or the only default one among several; several reports that none was
// picked. with gives the value with the defaults of an alternative.
func (here *where) choose(alternatives []Alternative, with func(*Schema) any) (chosen *fitting, several bool) {
	if len(alternatives) > 1 {
		here = here.below()
	}
	marked := false
	for _, a := range alternatives {
		if chosen != nil && marked && !a.Default {
			continue
		}
		value := with(a.Schema)
		if !here.fits(a.Schema, value) {
			continue
		}
		fit := &fitting{a.Schema, value}
		if chosen == nil || a.Default && !marked {
			chosen, marked, several = fit, a.Default, false
			continue
		}
		several = several || !chosen.isSame(fit)
		if len(chosen.schema.Relations) > 0 && a.Default == marked {
			chosen = fit // it needs no other field
		}
	}
	if several {
		return nil, true
	}
	return chosen, false
}

// isSame reports whether two alternatives treat a value in the same way: for scalars they
// always do, but structs differ in what else they allow.
func (f *fitting) isSame(o *fitting) bool {
	if !hasStruct(f.value) {
		return true
	}
	return f.schema.saysNothingElse(f.value) && o.schema.saysNothingElse(o.value) &&
		f.schema.Struct.closed() == o.schema.Struct.closed() && reflect.DeepEqual(f.value, o.value)
}

// saysNothingElse reports whether a schema names only fields that a struct has, and those are
// not structs themselves.
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

// closest lists the problems that a value has with the alternative that it contradicts
// least, and those that it has with each.
func (w *walker) closest(alternatives []Alternative, value any) (closest []Problem, all [][]Problem) {
	below := w.below()
	// No alternative gave the value its defaults, so missing defaults are not reported.
	d := defaulter{budget: w.budget, structs: w.structs}
	for _, a := range alternatives {
		problems := below.problems(a.Schema, d.value(a.Schema, value))
		all = append(all, problems)
		if closest == nil || w.closeness(problems) < w.closeness(closest) {
			closest = problems
		}
	}
	return closest, all
}

// closeness orders alternatives by how much a value contradicts them. What
// distinguishes alternatives weighs most: the type of the value, and in a struct the names of
// its fields and their literals. Problems further within come after that.
func (w *walker) closeness(problems []Problem) int {
	n, own := 0, w.at().String()
	for _, p := range problems {
		inner := strings.TrimPrefix(strings.TrimPrefix(p.Field, own), ".")
		direct := !strings.ContainsAny(inner, ".[")
		switch {
		case p.incomplete:
		case p.Type == field.ErrorTypeTypeInvalid && p.Field == own:
			n += 100_000_000
		case direct && p.Type == field.ErrorTypeNotSupported:
			n += 1_000_000
		case direct && p.Type == field.ErrorTypeForbidden:
			n += 1_000
		default:
			n++
		}
	}
	return n
}

// noneFits reports a value that contradicts all alternatives: as one problem if they
// are scalars or distinguished by a literal, else as those with the closest.
func (w *walker) noneFits(s *Schema, value any) []Problem {
	alternatives := s.Alternatives
	closest, all := w.closest(alternatives, value)
	if len(closest) == 0 { // with its defaults, it fits several
		return []Problem{{Error: field.Invalid(w.at(), field.OmitValueType{}, ambiguous+describe(alternatives)),
			Rule: s.TypeRule, incomplete: true}}
	}
	if !onlyScalars(alternatives) {
		if literal := noLiteral(all); literal != nil {
			return literal
		}
		return closest
	}
	first := closest[0]
	first.Error = &field.Error{Type: field.ErrorTypeInvalid, Field: w.at().String(), BadValue: first.BadValue,
		Detail: "must satisfy " + describe(alternatives)}
	if closest[0].Type == field.ErrorTypeTypeInvalid {
		first.Type = field.ErrorTypeTypeInvalid
	}
	if s.TypeRule != nil {
		first.Rule = s.TypeRule
	}
	return []Problem{first}
}

func onlyScalars(alternatives []Alternative) bool {
	return !slices.ContainsFunc(alternatives,
		func(a Alternative) bool { return a.Reference != nil || a.Types&(List|Struct) != 0 })
}

// noLiteral finds the field that has none of the literals that distinguish all
// alternatives.
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
			narrowed := *p.Error
			narrowed.Detail = field.NotSupported(nil, "", allowed).Detail
			p.Error = &narrowed
			return []Problem{p}
		}
	}
	return nil
}

// hasStruct reports whether there is a struct in a value: two alternatives that allow the
// same scalars are one, but two structs differ in what else they allow.
func hasStruct(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return true
	case []any:
		return slices.ContainsFunc(v, hasStruct)
	}
	return false
}
