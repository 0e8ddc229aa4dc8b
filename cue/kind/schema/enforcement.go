package schema

import (
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Enforcer is who enforces a rule.
type Enforcer int

// Admission enforces every rule, and so does the controller. The API server enforces some
// rules as well, through the CRD's schema or a CEL expression in it. The order is from weak to
// strong.
const (
	Admission Enforcer = iota
	// APIServer has a rule of its own, for metadata for example.
	APIServer
	// CRDPartly means that the CRD's schema has a part of the rule.
	CRDPartly
	CRDSchema
	CRDRule
)

func (e Enforcer) String() string {
	return [...]string{"admission and controller", "API server, built in", "CRD schema in part", "CRD schema",
		"CRD CEL rule"}[e]
}

// Enforcers map the rules of a schema to their enforcer: Admission unless noted otherwise.
type Enforcers map[*Rule]Enforcer

// set notes who enforces a rule, if there is one.
func (e Enforcers) set(r *Rule, by Enforcer) {
	if r != nil {
		e[r] = by
	}
}

// setPartly notes that the CRD enforces at most a part of a rule, if there is one.
func (e Enforcers) setPartly(r *Rule) {
	if r != nil {
		e[r] = min(e[r], CRDPartly)
	}
}

// Rejecting returns who rejects an object for a problem.
func (e Enforcers) Rejecting(p Problem) Enforcer {
	if p.Rule == nil || p.deep || p.IsNull() {
		return Admission // the API server drops unknown fields
	}
	if f, ok := p.BadValue.(float64); ok && p.Type == field.ErrorTypeTypeInvalid && f == math.Trunc(f) {
		return Admission // the API server takes 1.0 for an integer
	}
	return e[p.Rule]
}

// Enforcement is one rule for one field, and who enforces it.
type Enforcement struct {
	// Field is the field of the rule; items of lists are [*] and fields that a pattern
	// names are {*}.
	Field string
	*Rule
	// Words is the rule in words: its text, or the default of a field that is always set.
	Words string
	By    Enforcer
}

// Enforcements lists the rules of a schema, in the order of the fields. A line of CUE may
// require several things of a field (time.Time requires a string as well), or be part of several
// alternatives; it is listed once, with the weakest of its enforcers.
func Enforcements(s *Schema, by Enforcers) []Enforcement {
	type line struct {
		field, words string
		position     place.Position
	}
	at := make(map[line]int)
	var all []Enforcement
	eachRule("", s, func(field string, r *Rule, words string) {
		e := Enforcement{Field: field, Rule: r, Words: words, By: by[r]}
		p := line{field, words, r.Position}
		i, known := at[p]
		switch {
		case !known:
			at[p] = len(all)
			all = append(all, e)
		case e.By < all[i].By:
			all[i] = e
		}
	})
	return all
}

// eachRule visits the rules of a schema, each with its field and the rule in words.
func eachRule(path string, s *Schema, visit func(field string, r *Rule, words string)) {
	for _, r := range s.rules() {
		visit(path, r, r.Text)
	}
	for _, a := range s.Alternatives {
		eachRule(path, a.Schema, visit)
	}
	if s.Items != nil {
		eachRule(path+"[*]", s.Items, visit)
	}
	if s.Struct != nil {
		eachRuleOfStruct(path, s.Struct, visit)
	}
}

func eachRuleOfStruct(path string, s *StructSchema, visit func(field string, r *Rule, words string)) {
	for _, f := range s.Fields {
		name := joined(path, f.Name)
		switch value, ok := staticDefault(f.Schema); {
		case f.Presence == Optional:
		case f.Presence == Regular && ok:
			visit(name, f.Rule, "default "+string(rawJSON(value).Raw))
		default:
			visit(name, f.Rule, f.Rule.Text)
		}
		eachRule(name, f.Schema, visit)
	}
	for _, label := range s.Labels {
		if label.Regexp != nil {
			visit(path+".{*}", label.Rule, label.Rule.Text)
		}
		eachRule(path+".{*}", label.Schema, visit)
	}
	for _, c := range s.Conditions {
		visit(path, c.Rule, c.Text)
		eachRuleOfStruct(path, c.Then, visit)
	}
}
