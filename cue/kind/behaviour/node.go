package behaviour

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// run is one evaluation.
type run struct {
	program *Program
	values  []any // what is given to it

	meter
	// packages are the nodes of packages, and lets those of let clauses.
	packages map[*Package]*node
	lets     map[letIn]kept
	patterns map[string]*regexp.Regexp // that are compiled
	scopes   scopes                    // for the elements of loops
	// of the comprehensions that are running: what they add if all their rounds succeed
	yielded []*env
}

// scopes are made in blocks.
type scopes struct {
	free  []env
	block int
}

// next returns a scope that is empty.
func (s *scopes) next() *env {
	if len(s.free) == 0 {
		s.block = min(max(8, 2*s.block), 512)
		s.free = make([]env, s.block)
	}
	e := &s.free[0]
	s.free = s.free[1:]
	return e
}

// meter counts the steps of a run, and how deep it is.
type meter struct {
	budget *budget.Budget
	depth  int
}

// exhausted is what a run that exceeds its budget panics with.
type exhausted struct{ reason string }

func (m *meter) step() { m.spend(1) }

// spend counts n steps at once.
func (m *meter) spend(n int) {
	if !m.budget.Take(n) {
		panic(exhausted{m.budget.Excess()})
	}
}

// env is what the names in an expression mean: a struct, or the variables of a clause.
type env struct {
	up         *env
	node       *node
	key, value any
}

// conj is one of the expressions, or values, that are unified to a field.
type conj struct {
	x     Expr // nil for a value
	env   *env
	value any
	group *group
}

// node is a field, or another value, that is computed as far as something asks for it.
type node struct {
	up    *node
	label string
	conjs []conj
	// choices are the alternatives taken of the first disjunctions.
	choices []int

	state    state
	kinds    Kinds
	isScalar bool
	scalar   any
	lits     []lit
	data     []data
	comps    []pending
	lists    []elements
	checks   []check
	open     []choice // disjunctions without an alternative
	queue    []queued
	seen     []inclusion
	met      int32 // disjunctions
	within   int32 // the disjunction whose alternative is being added, counted from 1; 0 is none
	problem  *Problem

	arcs       []arc
	enumerated bool // the length of the list is known, and the arcs are its elements
	length     int
	entries    []conj // of a list of one part, until an element is asked for
	chosen     *node
	isDefault  bool // chosen is one of several that fit
	checked    bool
	isLet      bool      // of a let clause
	several    *Problem  // more than one alternative fits
	closings   *closings // nil if it has no groups
}

type state int8

const (
	raw state = iota
	expanding
	expanded
)

type lit struct {
	*StructLit
	env   *env
	group *group
	// dynamic are the names of the dynamic fields; nil is not computed.
	dynamic []string
	state   state
}

// data is a struct of plain values.
type data struct {
	fields map[string]any
	group  *group
	after  int // how many literals were there before
}

// inclusion is a node whose parts have been added.
type inclusion struct {
	target *node
	group  *group
	within int32 // the disjunction in whose alternative it is included, as for a choice
}

type elements struct {
	list  *ListLit
	env   *env
	data  []any
	group *group
}

type pending struct {
	*Comprehension
	env     *env
	group   *group
	state   state
	problem *Problem
}

type choice struct {
	*Disjunction
	env    *env
	within int32 // the disjunction of whose alternative it is a part, counted from 1; 0 is none
}

// check is a constraint.
type check struct {
	x    Expr
	test func(r *run, value any) *Problem
}

type arc struct {
	label string
	kept
}

// kept is a field or a let of a struct that has been made.
type kept struct {
	node *node // nil if there is no such field
	// parts is how many parts the struct had, if it may get more; 0 is all.
	parts int
}

// path returns where a node is.
func (n *node) path() string {
	var names []string
	for ; n != nil && n.up != nil; n = n.up {
		names = append(names, shown(n.label))
	}
	var b strings.Builder
	for _, name := range slices.Backward(names) {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	return b.String()
}

// expand collects what a node is unified from.
func (n *node) expand(r *run) {
	if n.state != raw {
		return
	}
	r.enter()
	n.state, n.kinds = expanding, Any
	for _, c := range n.conjs {
		n.add(r, c)
	}
	n.addQueued(r)
	n.yieldAll(r, func(c pending) bool { return c.scalar }) // it may add a disjunction
	n.addQueued(r)
	n.state = expanded
	r.leave()
}

// enter counts how deep an evaluation is; leave ends that.
func (m *meter) enter() {
	if m.depth++; m.depth > maxDepth {
		panic(exhausted{fmt.Sprintf("is nested deeper than %d levels, or contains itself", maxDepth)})
	}
}

func (m *meter) leave() { m.depth-- }

// fail notes why a node has no value.
func (n *node) fail(p *Problem) {
	if p != nil && (p.Path == "" || p.isOpen) {
		copied := *p
		copied.isOpen = false // this node has none
		if p.Path == "" {
			copied.Path = n.path()
		}
		p = &copied
	}
	n.problem = worse(n.problem, p)
}

// add unifies a node with one more expression or value.
func (n *node) add(r *run, c conj) {
	r.step()
	if n.state == expanding {
		if turn := turnOf(n, c); turn > atOnce {
			n.queue = append(n.queue, queued{c, n.within, turn})
			return
		}
	}
	n.unify(r, c)
}

// unify is add for what can be computed now.
func (n *node) unify(r *run, c conj) {
	switch x := c.x.(type) {
	case nil:
		n.addValue(r, c.value, c.x, c.group)
	case *StructLit:
		x.addTo(r, n, c.env, c.group)
	case *ListLit:
		n.limit(List, x)
		n.lists = append(n.lists, elements{list: x, env: c.env, group: c.group.within()})
	case *Reference, *LetReference, *PackageReference, *Selector, *Index, *Variable, *Self:
		value, problem := r.resolve(x, c.env)
		if problem != nil {
			n.fail(problem)
			return
		}
		g := c.group
		if closes(x) {
			target, _ := value.(*node)
			g = g.closing(n, target)
		}
		n.include(r, value, x, g)
	case *Disjunction:
		x.addTo(r, n, c.env, c.group)
	case *Binary:
		if x.Op == token.AND {
			n.add(r, conj{x: x.X, env: c.env, group: c.group})
			n.add(r, conj{x: x.Y, env: c.env, group: c.group})
			return
		}
		n.addResult(r, x, c.env, c.group)
	case *Type:
		n.limit(x.Kinds, x)
		if x.Min != nil {
			n.checks = append(n.checks, check{x, within(x)})
		}
	case *Unary:
		if !isBound(x.Op) {
			n.addResult(r, x, c.env, c.group)
			return
		}
		limit, problem := r.eval(x.X, c.env)
		if problem != nil {
			n.fail(problem)
			return
		}
		x.addTo(n, limit)
	case *Builtin:
		x.Function.addTo(r, n, x, nil, c.env)
	case *Call:
		x.addTo(r, n, c.env, c.group)
	case *Bottom:
		n.fail(wrong(x, "explicit error (_|_ literal) in source"))
	default:
		n.addResult(r, x, c.env, c.group)
	}
}

// addResult unifies a node with the result of an operation.
func (n *node) addResult(r *run, x Expr, e *env, g *group) {
	value, problem := r.eval(x, e)
	if problem != nil {
		n.fail(problem)
		return
	}
	n.include(r, value, x, g)
}

// include unifies a node with a value, which may be another node.
func (n *node) include(r *run, value any, x Expr, g *group) {
	target, ok := value.(*node)
	if !ok {
		n.addValue(r, value, x, g)
		return
	}
	if target == n {
		return
	}
	r.spend((1 + len(n.seen)/partsPerStep) * (1 + g.depth()/partsPerStep))
	if slices.ContainsFunc(n.seen, func(s inclusion) bool {
		return s.target == target && s.within <= n.within && (s.group == g || g.isAgain(target))
	}) {
		return
	}
	n.seen = append(n.seen, inclusion{target, g, n.within})
	r.enter() // a node may include one that includes itself
	for _, c := range target.conjs {
		c.group = g
		n.add(r, c)
	}
	r.leave()
}

// addTo unifies a node with a struct.
func (x *StructLit) addTo(r *run, n *node, up *env, g *group) {
	if !x.scalar || len(x.Fields)+len(x.Dynamic) > 0 {
		isData := !x.scalar
		for _, f := range x.Fields {
			isData = isData || f.Mode != Optional && !isHidden(f.Name)
		}
		if isData {
			n.limit(Struct, x)
		}
	}
	inner := &env{up: up, node: n}
	fields := g.within()
	if len(x.Embeds)+len(x.Comprehensions) > 0 {
		fields = g.ofStruct()
	}
	n.lits = append(n.lits, lit{StructLit: x, env: inner, group: fields})
	n.addGroup(r, fields, x.IsOpen)
	for _, c := range x.Comprehensions {
		n.comps = append(n.comps, pending{Comprehension: c, env: inner, group: fields.embeds()})
	}
	for _, embedded := range x.Embeds {
		n.add(r, conj{x: embedded, env: inner, group: fields.embeds()})
	}
}

func (n *node) addValue(r *run, value any, x Expr, g *group) {
	switch v := value.(type) {
	case *node:
		n.include(r, v, x, g)
		return
	case map[string]any:
		n.limit(Struct, x)
		n.data = append(n.data, data{v, g.within(), len(n.lits)})
		n.addGroup(r, g.within(), false)
		return
	case []any:
		n.limit(List, x)
		n.lists = append(n.lists, elements{data: v, group: g.within()})
		return
	}
	value = scalarOf(value)
	if n.isScalar {
		if !sameScalar(n.scalar, value) {
			n.fail(problemAt(posOf(x), "conflicting values %s and %s", textOf(n.scalar), textOf(value)))
		}
		return
	}
	n.limit(kindOf(value), x)
	n.isScalar, n.scalar = true, value
}

func posOf(x Expr) token.Pos {
	if x == nil {
		return token.NoPos
	}
	return x.Pos()
}

// limit allows a node only some kinds of values.
func (n *node) limit(kinds Kinds, x Expr) {
	if n.kinds&kinds == 0 && n.problem == nil {
		n.fail(problemAt(posOf(x), "conflicting values (mismatched types %s and %s)", n.kinds, kinds))
	}
	n.kinds &= kinds
}

func (k Kinds) String() string {
	if k == Any {
		return "_"
	}
	var names []string
	for _, kind := range []struct {
		kinds Kinds
		name  string
	}{{Null, "null"}, {Bool, "bool"}, {Int, "int"}, {Float, "float"}, {String, "string"}, {Bytes, "bytes"},
		{List, "list"}, {Struct, "struct"}} {
		if k&kind.kinds != 0 {
			names = append(names, kind.name)
		}
	}
	return strings.Join(names, "|")
}

func kindOf(value any) Kinds {
	switch v := value.(type) {
	case nil:
		return Null
	case bool:
		return Bool
	case int64:
		return Int
	case *Decimal:
		if v.IsFloat {
			return Float
		}
		return Int
	case string:
		return String
	case []byte:
		return Bytes
	case []any:
		return List
	case map[string]any:
		return Struct
	case *node:
		if v.kinds&List != 0 && len(v.lists) > 0 {
			return List
		}
		return Struct
	}
	return 0
}

func sameScalar(a, b any) bool {
	x, y := kindOf(a), kindOf(b)
	if x != y {
		return false
	}
	if x&Number != 0 {
		return compareNumbers(a, b) == 0
	}
	if x == Bytes {
		return string(a.([]byte)) == string(b.([]byte))
	}
	return a == b
}

// textOf is a value in a message.
func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		if len(v) > 64 {
			v = v[:64] + "…"
		}
		return strconv.Quote(v)
	case []byte:
		return "bytes"
	case int64, *Decimal:
		return numberText(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return kindOf(value).String()
}

// reference returns the expression of a node that only refers to another value.
func (n *node) reference() (conj, bool) {
	if len(n.conjs) != 1 || n.state == expanding || n.problem != nil {
		return conj{}, false
	}
	return n.conjs[0], isReference(n.conjs[0].x)
}

// isReference reports whether an expression only refers to another value.
func isReference(x Expr) bool {
	switch x.(type) {
	case *Reference, *LetReference, *PackageReference, *Selector, *Index, *Variable, *Self:
		return true
	}
	return false
}

// target follows references and disjunctions to the node, or the value, that counts.
func (n *node) target(r *run) (any, *Problem) {
	first := n
	for range maxDepth {
		if n.chosen != nil {
			return n.chosen, nil
		}
		if c, ok := n.reference(); ok && len(n.choices) == 0 {
			n.state = expanding // a reference to itself finds it
			value, problem := r.resolve(c.x, c.env)
			n.state = raw
			if problem != nil {
				n.fail(problem)
				return nil, n.problem
			}
			next, isNode := value.(*node)
			if !isNode {
				return value, nil
			}
			if next == n || next == first {
				problem = incomplete(c.x, "", "refers to itself")
				problem.isOpen = true // that is any value for CUE
				return nil, problem
			}
			n = next
			continue
		}
		if n.state == expanding {
			return n, nil
		}
		n.expand(r)
		if len(n.open) == 0 {
			return n, nil
		}
		chosen, problem := n.choose(r)
		if problem != nil {
			return nil, problem
		}
		n.chosen = chosen
		return chosen, nil
	}
	return nil, &Problem{IsIncomplete: true, Path: first.path(), Message: "refers to itself"}
}

// isType reports whether a node is only a type so far, like string or >1.
func (n *node) isType() bool {
	return n.problem == nil && !n.isScalar && len(n.lits)+len(n.data)+len(n.lists)+len(n.comps) == 0
}

// parts returns the elements of a list, or the fields of a struct with definitions and hidden ones.
func (n *node) parts(r *run) (parts []any) {
	if kindOf(n) == List {
		parts, _ = r.elements(n)
		return parts
	}
	names, _ := n.fields(r)
	for _, name := range append(names, hiddenFields(n)...) {
		parts = append(parts, n.field(r, name))
	}
	return parts
}

// hiddenFields lists the definitions and hidden fields of a struct.
func hiddenFields(n *node) (names []string) {
	for _, l := range n.lits {
		for _, f := range l.Fields {
			if f.Mode == Regular && isHidden(f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// partial returns why a struct may have other fields, or a list other elements.
func (n *node) partial(r *run) *Problem {
	if kindOf(n) == List {
		_, problem := r.length(n)
		return problem
	}
	_, problem := n.fields(r)
	return problem
}

// unfit returns why a struct or a list cannot be an argument: it is not known which fields or elements it has, or
// something within it is wrong. What nobody looks at counts as well: otherwise the result would depend on the
// order of the elements, and hide that some are wrong.
func (r *run) unfit(argument any) *Problem {
	n, ok := argument.(*node)
	if !ok {
		return nil
	}
	if problem := n.partial(r); problem != nil {
		return problem
	}
	return n.broken(r)
}

// broken returns what is wrong within a struct or a list.
func (n *node) broken(r *run) *Problem {
	r.enter()
	defer r.leave()
	fields, problem := n.fields(r)
	if problem != nil && !problem.IsIncomplete {
		return problem
	}
	if kindOf(n) == List {
		length, problem := r.length(n)
		if problem != nil {
			return nil
		}
		for i := range length {
			if problem := r.brokenValue(r.element(n, i)); problem != nil {
				return problem
			}
		}
		return nil
	}
	for _, name := range fields {
		if problem := r.brokenValue(n.field(r, name)); problem != nil {
			return problem
		}
	}
	return nil
}

func (r *run) brokenValue(value any) *Problem {
	n, ok := value.(*node)
	if !ok || n == nil {
		return nil
	}
	value, problem := n.value(r)
	if problem != nil {
		if problem.IsIncomplete {
			return nil
		}
		return problem
	}
	if s, ok := value.(*node); ok {
		return s.broken(r)
	}
	return nil
}

// value computes a node: a scalar, a struct or a list.
func (n *node) value(r *run) (any, *Problem) {
	t, problem := n.target(r)
	if problem != nil {
		return nil, problem
	}
	n, ok := t.(*node)
	if !ok {
		return scalarOf(t), nil
	}
	if n.kinds&^Struct != 0 {
		n.yieldAll(r, func(c pending) bool { return c.scalar })
		for _, c := range n.comps {
			if c.scalar {
				n.fail(c.problem)
			}
		}
		if len(n.lits) > 0 && n.kinds&Struct != 0 && !n.isScalar && len(n.lists) == 0 {
			n.kinds &= Struct
		}
	}
	if n.problem != nil {
		return nil, n.problem
	}
	var value any
	switch {
	case n.isScalar:
		value = n.scalar
	case len(n.lists)+len(n.data) > 0 || len(n.lits) > 0 && n.kinds&Struct != 0:
		value = n.plain()
	default:
		return nil, &Problem{IsIncomplete: true, Path: n.path(), At: n.pos(), isOpen: true,
			Message: "incomplete value " + n.kinds.String()}
	}
	if !n.checked {
		n.checked = true
		for _, c := range n.checks {
			if problem := c.test(r, value); problem != nil {
				if problem.At == token.NoPos {
					problem.At = c.x.Pos()
				}
				n.fail(problem)
			}
		}
	}
	if n.problem != nil {
		return nil, n.problem
	}
	return value, nil
}

// structure computes a value that may be a struct whose constraints cannot be checked so far, or that is unified with
// what is absent: it has the fields that are known.
func (r *run) structure(value any) (any, *Problem) {
	computed, problem := r.valueOf(value)
	if n, ok := value.(*node); ok && problem != nil && problem.IsIncomplete {
		if target, _ := n.target(r); target != nil {
			if n, ok := target.(*node); ok && n.kinds&^Struct == 0 && kindOf(n) == Struct &&
				len(n.lits)+len(n.data) > 0 {
				return n, nil
			}
		}
	}
	return computed, problem
}

func (n *node) pos() token.Pos {
	for _, c := range n.conjs {
		if c.x != nil {
			return c.x.Pos()
		}
	}
	return token.NoPos
}

// yieldAll runs some of the comprehensions of a struct, and of those that they add.
func (n *node) yieldAll(r *run, which func(pending) bool) {
	i := 0
	for i < len(n.comps) {
		if which(n.comps[i]) {
			n.yield(r, i)
		}
		i++
	}
}

// yield runs one of the comprehensions of a struct. As in CUE, it adds nothing if one of its rounds waits or is wrong.
func (n *node) yield(r *run, i int) {
	if n.comps[i].state != raw {
		return
	}
	n.comps[i].state = expanding
	c := n.comps[i]
	start := len(r.yielded)
	problem := r.comprehend(c.Clauses, c.env, func(e *env) { r.yielded = append(r.yielded, e) })
	outer := n.within
	n.within = n.met
	for i := start; i < len(r.yielded) && problem == nil; i++ {
		n.add(r, conj{x: c.Body, env: r.yielded[i], group: c.group})
	}
	for n.addNext(r, reference) {
	}
	n.within = outer
	r.yielded = slices.Delete(r.yielded, start, len(r.yielded))
	if problem != nil && problem.Path == "" {
		copied := *problem
		copied.Path = n.path()
		problem = &copied
	}
	n.comps[i].problem = problem
	n.comps[i].state = expanded
}

// comprehend calls a function for each time that clauses yield.
func (r *run) comprehend(clauses []Clause, e *env, yield func(*env)) *Problem {
	r.step()
	if len(clauses) == 0 {
		yield(e)
		return nil
	}
	clause, rest := clauses[0], clauses[1:]
	switch clause.Kind {
	case token.IF:
		holds, problem := r.eval(clause.X, e)
		if problem != nil {
			return problem
		}
		b, ok := holds.(bool)
		if !ok {
			return wrong(clause.X, "cannot use %s (type %s) as type bool", textOf(holds), kindOf(holds))
		}
		r.note(clause.at, clause.counts, b)
		if b {
			return r.comprehend(rest, e, yield)
		}
		return nil
	case token.LET:
		value := &node{label: clause.Value, isLet: true, conjs: []conj{{x: clause.X, env: e}}}
		return r.comprehend(rest, &env{up: e, value: value}, yield)
	}
	source, problem := r.eval(clause.X, e)
	if problem != nil {
		return problem
	}
	isEmpty := true
	problem = clause.each(r, source, func(key, value any) *Problem {
		isEmpty = false
		inner := r.scopes.next()
		inner.up, inner.key, inner.value = e, key, value
		return r.comprehend(rest, inner, yield)
	})
	r.note(clause.at, clause.counts, !isEmpty)
	return problem
}

// each calls a function for the fields of a struct or the elements of a list, with their keys if the clause has a
// variable for them.
func (c Clause) each(r *run, source any, visit func(key, value any) *Problem) *Problem {
	switch s := source.(type) {
	case []any:
		for i, value := range s {
			if problem := visit(c.keyOf(i), value); problem != nil {
				return problem
			}
		}
		return nil
	case map[string]any:
		for _, name := range sortedKeys(s) {
			if problem := visit(name, s[name]); problem != nil {
				return problem
			}
		}
		return nil
	case *node:
		if kindOf(s) == List {
			length, problem := r.length(s)
			if problem != nil {
				return problem
			}
			for i := range length {
				if problem := visit(c.keyOf(i), r.element(s, i)); problem != nil {
					return problem
				}
			}
			return nil
		}
		names, problem := s.fields(r)
		if problem != nil {
			return problem
		}
		for _, name := range names {
			if problem := visit(shown(name), s.field(r, name)); problem != nil {
				return problem
			}
		}
		return nil
	}
	return wrong(c.X, "cannot range over %s (type %s): it must be a struct or a list", textOf(source), kindOf(source))
}

// keyOf returns the key of an element of a list; nil if nothing refers to it, so that it takes no memory.
func (c Clause) keyOf(i int) any {
	if c.Key == "" {
		return nil
	}
	return int64(i)
}

// field returns a field of a struct that exists: a value or a node; nil if it does not exist.
func (n *node) field(r *run, name string) any {
	if a := n.arc(r, name); a != nil {
		return a
	}
	return nil
}

// arc returns the node of a field, or nil if it does not exist.
func (n *node) arc(r *run, name string) *node {
	known := slices.IndexFunc(n.arcs, func(a arc) bool { return a.label == name })
	if known >= 0 && n.arcs[known].isValid(n) {
		return n.arcs[known].node
	}
	r.spend(1 + (len(n.arcs)+len(n.lits))/partsPerStep)
	n.expand(r)
	n.yieldAll(r, func(c pending) bool { return c.all || c.names[name] })
	field := arc{name, kept{node: n.declared(r, name)}}
	if n.state == expanding || slices.ContainsFunc(n.comps, func(c pending) bool {
		return c.state == expanding && (c.all || c.names[name])
	}) {
		field.parts = partsOfStruct(n)
	}
	if known = slices.IndexFunc(n.arcs, func(a arc) bool { return a.label == name }); known >= 0 {
		n.arcs[known] = field
	} else {
		n.arcs = append(n.arcs, field)
	}
	return field.node
}

// isValid reports whether a struct has no parts that a field, or a let, lacks.
func (k kept) isValid(n *node) bool { return k.parts == 0 || k.parts == partsOfStruct(n) }

// partsOfStruct returns how many parts declare the fields of a struct.
func partsOfStruct(n *node) int { return 1 + len(n.lits) + len(n.data) }

// declared returns the node of a field from all that declares it.
func (n *node) declared(r *run, name string) *node {
	var conjs []conj
	exists := false
	for i := range n.lits {
		l := &n.lits[i]
		for _, f := range l.byName[name] {
			conjs = append(conjs, conj{x: f.Value, env: l.env, group: l.group})
			exists = exists || f.Mode == Regular
		}
		if len(l.Dynamic) == 0 {
			continue
		}
		n.nameDynamic(r, i)
		for j, computed := range n.lits[i].dynamic {
			if computed == name {
				d := n.lits[i].Dynamic[j]
				conjs = append(conjs, conj{x: d.Value, env: n.lits[i].env, group: n.lits[i].group})
				exists = exists || d.Mode == Regular
			}
		}
	}
	for _, data := range n.data {
		if value, ok := fieldOf(data.fields, name); ok {
			conjs = append(conjs, conj{value: value, group: data.group})
			exists = true
		}
	}
	if !exists {
		return nil
	}
	field := &node{up: n, label: name, conjs: conjs}
	if !isHidden(name) {
		n.addPatterns(r, field, name)
		if g := n.closings.rejects(r, field.conjs); g != nil {
			field.fail(cmp.Or(n.problemOf(name), g.notAllowed(field)))
		}
	}
	return field
}

// addPatterns adds what patterns say of a field.
func (n *node) addPatterns(r *run, field *node, name string) {
	for i := range n.lits {
		l := &n.lits[i]
		for _, pattern := range l.Patterns {
			matches, problem := pattern.matches(r, l.env, shown(name))
			if problem != nil {
				field.fail(problem)
			}
			if !matches {
				continue
			}
			e := l.env
			if pattern.HasAlias {
				e = &env{up: e, key: shown(name)}
			}
			field.conjs = append(field.conjs, conj{x: pattern.Value, env: e, group: l.group})
		}
	}
}

// matches reports whether a pattern is for a name.
func (p *Pattern) matches(r *run, e *env, name string) (bool, *Problem) {
	if t, ok := p.Name.(*Type); ok && t.Min == nil {
		return t.Kinds&String != 0, nil
	}
	n := &node{conjs: []conj{{x: p.Name, env: e}, {value: name}}}
	_, problem := n.value(r)
	if problem != nil && problem.IsIncomplete {
		return false, problem
	}
	return problem == nil, nil
}

// nameDynamic computes the names of dynamic fields.
func (n *node) nameDynamic(r *run, i int) {
	if n.lits[i].state != raw {
		return
	}
	n.lits[i].state = expanding
	names := make([]string, len(n.lits[i].Dynamic))
	for j, d := range n.lits[i].Dynamic {
		name, problem := r.eval(d.Name, n.lits[i].env)
		text, ok := name.(string)
		if problem == nil && !ok {
			problem = wrong(d.Name, "cannot use %s (type %s) as the name of a field", textOf(name), kindOf(name))
		}
		if problem != nil {
			names[j] = "\x00" // no field
			n.comps = append(n.comps, pending{Comprehension: &Comprehension{at: d.at, all: true}, state: expanded,
				problem: problem})
			continue
		}
		names[j] = dataLabel(text)
	}
	n.lits[i].dynamic = names
	n.lits[i].state = expanded
}

// fieldOf returns a field of a struct of data.
func fieldOf(data map[string]any, label string) (any, bool) {
	if strings.HasPrefix(label, "\x01") {
		label = label[1:]
	} else if isHidden(label) {
		return nil, false
	}
	value, ok := data[label]
	return value, ok
}

// fields lists the names of the fields of a struct, without definitions and hidden ones, and
// returns why there may be others.
func (n *node) fields(r *run) (names []string, problem *Problem) {
	n.expand(r)
	n.yieldAll(r, func(pending) bool { return true })
	for i := range n.lits {
		n.nameDynamic(r, i)
	}
	known := make(map[string]bool)
	note := func(name string) {
		if !known[name] && !isHidden(name) {
			known[name] = true
			names = append(names, name)
		}
	}
	// CUE's order: names that are written come first, also those in comprehensions.
	var static func(order []Expr, all bool)
	static = func(order []Expr, all bool) {
		for _, decl := range order {
			switch decl := decl.(type) {
			case *Field:
				if decl.Mode == Regular && (all || n.arc(r, decl.Name) != nil) {
					note(decl.Name)
				}
			case *StructLit:
				static(decl.order, all)
			case *Comprehension:
				if body, ok := decl.Body.(*StructLit); ok {
					static(body.order, false)
				}
			}
		}
	}
	given := n.data
	ofData := func(before int) {
		for len(given) > 0 && given[0].after < before {
			for _, name := range sortedKeys(given[0].fields) {
				note(dataLabel(name))
			}
			given = given[1:]
		}
	}
	for i, l := range n.lits {
		ofData(i + 1)
		static(l.order, true)
	}
	ofData(len(n.lits) + 1)
	for _, l := range n.lits {
		if l.state == expanding { // the name that is being computed reads the names of all fields
			problem = worse(problem, incomplete(l.Dynamic[0], "", "refers to itself"))
			continue
		}
		for j, d := range l.Dynamic {
			if d.Mode == Regular && l.dynamic[j] != "\x00" {
				note(l.dynamic[j])
			}
		}
	}
	for _, c := range n.comps {
		problem = worse(problem, c.problem)
	}
	return names, worse(problem, n.problem)
}

// missing returns the required fields that a struct does not have.
func (n *node) missing(r *run) *Problem {
	for _, l := range n.lits {
		for _, f := range l.Fields {
			if f.Mode == Required && n.arc(r, f.Name) == nil {
				return &Problem{IsIncomplete: true, Path: strings.TrimPrefix(n.path()+"."+shown(f.Name), "."),
					At: f.Pos(), Message: "field is required but not present"}
			}
		}
	}
	return nil
}

// problemOf returns why a field that does not exist may exist.
func (n *node) problemOf(name string) *Problem {
	var problem *Problem
	for _, c := range n.comps {
		if c.all || c.names[name] {
			problem = worse(problem, c.problem)
		}
	}
	return problem
}
