package proof

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/schema"
)

// mutation is one way to break a schema.
type mutation struct {
	name  string
	apply func()
	// attribute reports whether it changes what a @kube attribute requires.
	attribute bool
}

// mutationsOf lists the ways to break a schema, always in the same order. Those that
// plainly change nothing are left out.
func mutationsOf(s *schema.Schema) []mutation {
	m := mutator{seen: make(map[any]bool)}
	m.structure("", s.Struct)
	return m.found
}

type mutator struct {
	path  string
	found []mutation
	seen  map[any]bool
}

func (m *mutator) add(what string, apply func()) {
	m.found = append(m.found, mutation{name: m.path + ": " + what, apply: apply})
}

func (m *mutator) schema(path string, s *schema.Schema) {
	if s == nil || m.seen[s] || s.Reference != nil {
		return
	}
	m.seen[s] = true
	m.path = path
	m.presets(s)
	if len(s.Alternatives) > 0 {
		m.alternatives(s)
		return
	}
	m.types(s)
	m.literals(s)
	m.bound(&s.Min, "lower bound")
	m.bound(&s.Max, "upper bound")
	m.limits(&s.Length, "length")
	m.limits(&s.Size, "size")
	m.limits(&s.Count, "count")
	m.texts(s)
	m.relations(s)
	m.list(s)
	if s.Struct != nil {
		m.structure(path, s.Struct)
	}
}

// dropAt drops one element, and leaves a shared slice unchanged.
func dropAt[T any](list *[]T, i int) { *list = slices.Delete(slices.Clone(*list), i, i+1) }

func (m *mutator) presets(s *schema.Schema) {
	if s.Default == nil {
		return
	}
	m.add("default dropped", func() { s.Default = nil })
	m.add("default changed", func() { s.Default = &schema.Literal{Rule: s.Default.Rule, Value: another(s.Default.Value)} })
}

// another returns a value of the same type.
func another(value any) any {
	switch v := value.(type) {
	case bool:
		return !v
	case int64:
		return v + 1
	case float64:
		return v + 1
	case string:
		return v + "x"
	case []any:
		return append(slices.Clone(v), "x")
	}
	return "x"
}

func (m *mutator) alternatives(s *schema.Schema) {
	for i, a := range s.Alternatives {
		m.add(fmt.Sprintf("alternative %d dropped", i), func() { dropAt(&s.Alternatives, i) })
		if a.Default {
			m.add(fmt.Sprintf("default mark moved from alternative %d", i), func() {
				s.Alternatives[i].Default = false
				s.Alternatives[(i+1)%len(s.Alternatives)].Default = true
			})
		}
	}
	path := m.path
	for i, a := range s.Alternatives {
		m.schema(fmt.Sprintf("%s|%d", path, i), a.Schema)
	}
}

func (m *mutator) types(s *schema.Schema) {
	for t := schema.Null; t <= schema.Struct; t <<= 1 {
		// One wider type in addition to null is enough, or most mutations would be of this sort.
		neighbour := s.Types&(t>>1) != 0 || t == schema.Null
		switch {
		case s.Types&t == 0 && neighbour:
			m.add("type widened by "+t.String(), func() { s.Types |= t })
		case s.Types&t != 0 && s.Types != t:
			m.add("type narrowed by "+t.String(), func() { s.Types &^= t })
		}
	}
}

func (m *mutator) literals(s *schema.Schema) {
	for i, not := range s.Not {
		m.add("dropped "+not.Text, func() { dropAt(&s.Not, i) })
	}
	if s.Enum == nil {
		return
	}
	for i, v := range s.Enum.Values {
		if len(s.Enum.Values) > 1 {
			m.add(fmt.Sprintf("%v dropped from enum", v), func() { dropAt(&s.Enum.Values, i) })
		}
	}
	m.add("value added to enum", func() { s.Enum.Values = append(s.Enum.Values, another(s.Enum.Values[0])) })
	m.add("enum dropped", func() { s.Enum = nil })
}

func (m *mutator) bound(b **schema.Bound, what string) {
	if *b == nil {
		return
	}
	shifted := func(by int64) func() {
		return func() {
			bound := **b
			if i, ok := bound.Value.(int64); ok {
				bound.Value = i + by
			} else {
				bound.Value = bound.Value.(float64) + float64(by)
			}
			*b = &bound
		}
	}
	m.add(what+" + 1", shifted(1))
	m.add(what+" - 1", shifted(-1))
	m.add(what+" dropped", func() { *b = nil })
	m.add(what+" exclusive flipped", func() {
		bound := **b
		bound.Exclusive = !bound.Exclusive
		*b = &bound
	})
}

func (m *mutator) limits(r *schema.Range, what string) {
	m.limit(&r.Min, "least "+what, 1)
	m.limit(&r.Max, "greatest "+what, 0)
}

// limit changes a limit, except those without effect: every length is at least 0.
func (m *mutator) limit(l **schema.Limit, what string, least int64) {
	if *l == nil {
		return
	}
	m.add(what+" dropped", func() { *l = nil })
	m.add(what+" + 1", func() { *l = &schema.Limit{Rule: (*l).Rule, N: (*l).N + 1} })
	if (*l).N > least {
		m.add(what+" - 1", func() { *l = &schema.Limit{Rule: (*l).Rule, N: (*l).N - 1} })
	}
}

func (m *mutator) texts(s *schema.Schema) {
	for i, p := range s.Patterns {
		source := p.Regexp.String()
		m.add("pattern dropped "+p.Text, func() { dropAt(&s.Patterns, i) })
		m.add("pattern negated "+p.Text, func() { s.Patterns[i].Negated = !p.Negated })
		if start, ok := strings.CutPrefix(source, "^"); ok {
			m.add("pattern without ^ "+p.Text, func() { s.Patterns[i].Regexp = regexp.MustCompile(start) })
		}
		if end, ok := strings.CutSuffix(source, "$"); ok {
			m.add("pattern without $ "+p.Text, func() { s.Patterns[i].Regexp = regexp.MustCompile(end) })
		}
	}
	for i, c := range s.Checks {
		m.add("check dropped "+c.Text, func() { dropAt(&s.Checks, i) })
		m.found[len(m.found)-1].attribute = c.NotInCUE
	}
}

// otherOperator maps an operator to one that it may be mistaken for.
var otherOperator = map[string]string{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}

func (m *mutator) relations(s *schema.Schema) {
	for i, r := range s.Relations {
		m.add("relation dropped "+r.Text, func() { dropAt(&s.Relations, i) })
		m.add("operator changed "+r.Text, func() { s.Relations[i].Op = otherOperator[r.Op] })
	}
}

func (m *mutator) list(s *schema.Schema) {
	if s.Unique != nil {
		m.add("unique dropped", func() { s.Unique = nil })
	}
	if s.ListType != "" {
		m.add("list type dropped", func() { s.ListType, s.ListMapKeys = "", nil })
		m.found[len(m.found)-1].attribute = true
	}
	if s.Items != nil {
		if len(mutationsOfItems(s.Items)) > 0 {
			m.add("items unchecked", func() { s.Items = nil })
		}
		m.schema(m.path+"[*]", s.Items)
	}
}

// mutationsOfItems returns empty for items without rules.
func mutationsOfItems(s *schema.Schema) []mutation {
	m := mutator{seen: make(map[any]bool)}
	if m.schema("", s); s.Types == schema.AnyType && s.Struct == nil && s.Reference == nil {
		return nil
	}
	return append(m.found, mutation{})
}

func (m *mutator) structure(path string, s *schema.StructSchema) {
	if m.seen[s] {
		return
	}
	m.seen[s] = true
	m.path = path
	if !allowsAll(s) {
		m.add("closed struct opened", func() { s.Groups = nil })
	} else if len(s.Labels) == 0 {
		m.add("open struct closed", func() { s.Groups = []schema.Group{{ID: -1}} })
	}
	m.labels(path, s)
	for i, c := range s.Conditions {
		m.path = path
		m.add("condition dropped "+c.Text, func() { dropAt(&s.Conditions, i) })
		m.add("condition negated "+c.Text, func() {
			s.Conditions[i].When = &schema.Expr{Op: schema.OpNot, Args: []*schema.Expr{c.When}, Text: c.When.Text}
		})
		if op, ok := otherOperator[string(c.When.Op)]; ok {
			m.add("operator changed "+c.Text, func() { c.When.Op = schema.Op(op) })
		}
		m.structure(path+"?"+c.Text, c.Then)
	}
	for i, f := range s.Fields {
		m.path = strings.TrimPrefix(path+"."+f.Name, ".")
		m.presence(f)
		if strings.Contains(m.path, ".") { // the API server needs those at the top
			m.add("field dropped", func() { dropAt(&s.Fields, i) })
		}
		m.schema(m.path, f.Schema)
	}
}

// allowsAll reports whether a struct may have fields of any name.
func allowsAll(s *schema.StructSchema) bool {
	all := func(l schema.LabelPattern) bool { return l.Regexp == nil }
	return !slices.ContainsFunc(s.Groups, func(g schema.Group) bool { return !slices.ContainsFunc(g.Labels, all) })
}

func (m *mutator) presence(f *schema.Field) {
	become := func(what string, p schema.Presence) { m.add(what, func() { f.Presence = p }) }
	switch f.Presence {
	case schema.Required:
		become("required → optional", schema.Optional)
	case schema.Regular:
		become("regular → required", schema.Required)
		become("regular → optional", schema.Optional)
	case schema.Optional:
		become("optional → required", schema.Required)
	}
}

func (m *mutator) labels(path string, s *schema.StructSchema) {
	for i, l := range s.Labels {
		m.path = path
		m.add("labels dropped "+l.Rule.Text, func() { dropAt(&s.Labels, i) })
		if l.Regexp != nil {
			m.add("pattern of labels dropped "+l.Rule.Text, func() { s.Labels[i].Regexp = nil })
			m.add("pattern of labels negated "+l.Rule.Text, func() { s.Labels[i].Negated = !l.Negated })
		}
		m.schema(path+".{*}", l.Schema)
	}
	for i, g := range s.Groups {
		for j, l := range g.Labels {
			m.path = path
			m.add("allowed names dropped "+l.Rule.Text, func() { dropAt(&s.Groups[i].Labels, j) })
			if l.Regexp != nil {
				m.add("pattern of allowed names dropped "+l.Rule.Text, func() { s.Groups[i].Labels[j].Regexp = nil })
			}
		}
	}
}
