package schema

import "slices"

// Enforcement says who enforces one rule.
type Enforcement struct {
	// Field is what the rule is about; items of lists are [*] and fields that a pattern
	// names are {*}.
	Field string
	*Rule
	// Says is the rule in words: its text, or the default of a field that is always there.
	Says string
	// Evaluated tells that the CUE evaluator checks the field.
	Evaluated bool
}

// Enforcements lists the rules of a schema, each where it stands; OpenAPI has noted who
// enforces them.
func Enforcements(s *Schema) []Enforcement {
	l := lister{}
	l.schema("", s)
	return l.found
}

type lister struct {
	found []Enforcement
}

func (l *lister) add(field string, r *Rule) {
	if r != nil && !slices.ContainsFunc(l.found, func(e Enforcement) bool { return e.Field == field && e.Rule == r }) {
		l.found = append(l.found, Enforcement{Field: field, Rule: r, Says: r.Text})
	}
}

func (l *lister) schema(path string, s *Schema) {
	for _, r := range s.rules() {
		if r != s.Eval {
			l.add(path, r)
		}
	}
	if s.Eval != nil {
		l.found = append(l.found, Enforcement{Field: path, Rule: s.Eval, Says: s.Eval.Text, Evaluated: true})
	}
	for _, a := range s.Alternatives {
		l.schema(path, a.Schema)
	}
	if s.Items != nil {
		l.schema(path+"[*]", s.Items)
	}
	if s.Struct != nil {
		l.structure(path, s.Struct)
	}
}

func (l *lister) structure(path string, s *StructSchema) {
	for _, f := range s.Fields {
		name := joined(path, f.Name)
		switch value, ok := staticDefault(f.Schema); {
		case f.Presence == Optional:
		case f.Presence == Regular && ok:
			l.found = append(l.found, Enforcement{Field: name, Rule: f.Rule, Says: "default " + string(rawJSON(value).Raw)})
		default:
			l.add(name, f.Rule)
		}
		l.schema(name, f.Schema)
	}
	for _, label := range s.Labels {
		if label.Regexp != nil {
			l.add(path+".{*}", label.Rule)
		}
		l.schema(path+".{*}", label.Schema)
	}
	for _, c := range s.Conditions {
		l.add(path, c.Rule)
		l.structure(path, c.Then)
	}
}

// LeaveToAPIServer notes that a CRD cannot carry what is said of a field. For some
// rules, those at the positions that own tells, the API server has its own.
func LeaveToAPIServer(f *Field, own func(Position) bool) {
	rules := append(Enforcements(f.Schema), Enforcement{Rule: f.Rule})
	for _, e := range rules {
		if e.Where = Admission; own(e.Position) {
			e.Where = APIServer
		}
	}
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
