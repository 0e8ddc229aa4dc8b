package behaviour

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Problem is why an expression has no value.
type Problem struct {
	// IsIncomplete means that something is absent so far; otherwise something is wrong.
	IsIncomplete bool
	// Path is the field of the behaviour that has no value.
	Path string
	// At is the place of the expression.
	At token.Pos
	// Absent is what is absent, as in observed.db.status.address; it may be empty.
	Absent string
	// Message is what is wrong.
	Message string
	// More are the other things that are absent in the same value.
	More []*Problem

	// isOpen means that there is a value, which is a type or several alternatives so far.
	isOpen bool
	// format and args make up Message, unless that is the same for all values.
	format string
	args   []any
}

func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// source is a part of a message that stands in the CUE of the kind, or of Fescue.
type source string

// Rule is Message without values: with the types, and with what the CUE of the kind says.
func (p *Problem) Rule() string {
	if p.format == "" {
		return p.Message
	}
	args := slices.Clone(p.args)
	for i, arg := range args {
		switch arg.(type) {
		case source, Kinds, token.Token:
		default:
			args[i] = source("…")
		}
	}
	return fmt.Sprintf(strings.NewReplacer("%d", "%s", "%v", "%s", "%q", "%s").Replace(p.format), args...)
}

func problemAt(pos token.Pos, format string, args ...any) *Problem {
	return &Problem{At: pos, Message: fmt.Sprintf(format, args...), format: format, args: args}
}

func wrong(x Expr, format string, args ...any) *Problem { return problemAt(x.Pos(), format, args...) }

func incomplete(x Expr, absent, format string, args ...any) *Problem {
	p := problemAt(x.Pos(), format, args...)
	p.IsIncomplete, p.Absent = true, absent
	return p
}

// join returns the problem of a value with two parts: what is absent in both counts.
func join(a, b *Problem) *Problem {
	if a == nil || b == nil || !a.IsIncomplete || !b.IsIncomplete || a == b {
		return worse(a, b)
	}
	joined := *a
	joined.More = slices.Concat(a.More, []*Problem{b}, b.More)
	return &joined
}

// worse returns the problem that counts of two: what is wrong stays wrong.
func worse(a, b *Problem) *Problem {
	if a == nil || b != nil && a.IsIncomplete && !b.IsIncomplete {
		return b
	}
	return a
}

// run is one evaluation.
type run struct {
	program *Program
	values  []any // what is given to it

	budget *budget.Budget
	depth  int
	// packages are the nodes of packages, and lets those of let clauses.
	packages map[*Package]*node
	lets     map[letIn]*node
	patterns map[string]*regexp.Regexp // that are compiled
	// scopes are for the elements of loops; they are made in blocks.
	scopes     []env
	scopeBlock int
	yielded    []*env // of the comprehensions that are running: what they add if all their rounds succeed
}

// scope returns a scope that is empty.
func (r *run) scope() *env {
	if len(r.scopes) == 0 {
		r.scopeBlock = min(max(8, 2*r.scopeBlock), 512)
		r.scopes = make([]env, r.scopeBlock)
	}
	e := &r.scopes[0]
	r.scopes = r.scopes[1:]
	return e
}

// exhausted is what a run that exceeds its budget panics with.
type exhausted struct{ reason string }

func (r *run) step() { r.spend(1) }

// spend counts n steps at once.
func (r *run) spend(n int) {
	if !r.budget.Take(n) {
		panic(exhausted{r.budget.Excess()})
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
	node  *node // nil if there is no such field
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
func (r *run) expand(n *node) {
	if n.state != raw {
		return
	}
	r.enter()
	n.state, n.kinds = expanding, Any
	for _, c := range n.conjs {
		r.add(n, c)
	}
	n.state = expanded
	r.leave()
}

// enter counts how deep an evaluation is; leave ends that.
func (r *run) enter() {
	if r.depth++; r.depth > maxDepth {
		panic(exhausted{fmt.Sprintf("is nested deeper than %d levels, or contains itself", maxDepth)})
	}
}

func (r *run) leave() { r.depth-- }

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
func (r *run) add(n *node, c conj) {
	r.step()
	switch x := c.x.(type) {
	case nil:
		r.addValue(n, c.value, c.x, c.group)
	case *StructLit:
		r.addStruct(n, x, c.env, c.group)
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
		r.include(n, value, x, g)
	case *Disjunction:
		r.addDisjunction(n, x, c.env, c.group)
	case *Binary:
		if x.Op == token.AND {
			r.add(n, conj{x: x.X, env: c.env, group: c.group})
			r.add(n, conj{x: x.Y, env: c.env, group: c.group})
			return
		}
		r.addResult(n, x, c.env, c.group)
	case *Type:
		n.limit(x.Kinds, x)
		if x.Min != nil {
			n.checks = append(n.checks, check{x, within(x)})
		}
	case *Unary:
		if !isBound(x.Op) {
			r.addResult(n, x, c.env, c.group)
			return
		}
		limit, problem := r.eval(x.X, c.env)
		if problem != nil {
			n.fail(problem)
			return
		}
		r.addBound(n, x, limit)
	case *Builtin:
		r.addValidator(n, x, x.Function, nil, c.env)
	case *Call:
		r.addCall(n, x, c.env, c.group)
	case *Bottom:
		n.fail(wrong(x, "explicit error (_|_ literal) in source"))
	default:
		r.addResult(n, x, c.env, c.group)
	}
}

// addDisjunction unifies a node with the alternative of a disjunction that it has chosen, or leaves that open.
func (r *run) addDisjunction(n *node, x *Disjunction, e *env, g *group) {
	if int(n.met) == len(n.choices) {
		n.open = append(n.open, choice{x, e, n.within})
		return
	}
	n.met++
	outer := n.within
	n.within = n.met
	r.add(n, conj{x: x.Alternatives[n.choices[n.met-1]].X, env: e, group: g})
	n.within = outer
}

// addResult unifies a node with the result of an operation.
func (r *run) addResult(n *node, x Expr, e *env, g *group) {
	value, problem := r.eval(x, e)
	if problem != nil {
		n.fail(problem)
		return
	}
	r.include(n, value, x, g)
}

// include unifies a node with a value, which may be another node.
func (r *run) include(n *node, value any, x Expr, g *group) {
	target, ok := value.(*node)
	if !ok {
		r.addValue(n, value, x, g)
		return
	}
	if target == n {
		return
	}
	if slices.ContainsFunc(n.seen, func(s inclusion) bool {
		return s.target == target && s.within <= n.within && (s.group == g || g.isAgain(target))
	}) {
		return
	}
	n.seen = append(n.seen, inclusion{target, g, n.within})
	for _, c := range target.conjs {
		c.group = g
		r.add(n, c)
	}
}

func (r *run) addStruct(n *node, x *StructLit, up *env, g *group) {
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
	r.addGroup(n, fields, x.IsOpen)
	for _, c := range x.Comprehensions {
		n.comps = append(n.comps, pending{Comprehension: c, env: inner, group: fields.embeds()})
	}
	for _, embedded := range x.Embeds {
		r.add(n, conj{x: embedded, env: inner, group: fields.embeds()})
	}
}

func (r *run) addValue(n *node, value any, x Expr, g *group) {
	switch v := value.(type) {
	case *node:
		r.include(n, v, x, g)
		return
	case map[string]any:
		n.limit(Struct, x)
		n.data = append(n.data, data{v, g.within()})
		r.addGroup(n, g.within(), false)
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
	}{{Null, "null"}, {Bool, "bool"}, {Int, "int"}, {Float, "float"}, {String, "string"}, {Bytes, "bytes"}, {List, "list"}, {Struct, "struct"}} {
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
	c := n.conjs[0]
	switch c.x.(type) {
	case *Reference, *LetReference, *PackageReference, *Selector, *Index, *Variable, *Self:
		return c, true
	}
	return conj{}, false
}

// target follows references and disjunctions to the node, or the value, that counts.
func (r *run) target(n *node) (any, *Problem) {
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
		r.expand(n)
		if len(n.open) == 0 {
			return n, nil
		}
		chosen, problem := r.choose(n)
		if problem != nil {
			return nil, problem
		}
		n.chosen = chosen
		return chosen, nil
	}
	return nil, &Problem{IsIncomplete: true, Path: first.path(), Message: "refers to itself"}
}

// choose takes the alternative that is the only one that fits, or the default.
func (r *run) choose(n *node) (*node, *Problem) {
	if n.several != nil {
		return nil, n.several
	}
	branches, problem := r.branches(nil, branch{node: n})
	if len(branches) == 0 {
		if n.isScalar && !problem.IsIncomplete {
			problem = wrong(n.open[0], "invalid value %s (does not fit %s)", textOf(n.scalar), source(n.open[0].Text))
		}
		n.fail(problem)
		return nil, n.problem
	}
	if chosen := only(branches); chosen != nil {
		n.isDefault = len(branches) > 1
		return r.took(n, chosen), nil
	}
	n.several = &Problem{IsIncomplete: true, Path: n.path(), At: n.open[0].Pos(), isOpen: true, Message: "unresolved disjunction: more than one alternative fits"}
	return nil, n.several
}

// only returns the only default, or the only branch; nil if there are several.
func only(branches []branch) (only *node) {
	if len(branches) == 1 {
		return branches[0].node
	}
	for _, b := range branches {
		switch {
		case b.standing != isDefault:
		case only != nil:
			return nil
		default:
			only = b.node
		}
	}
	return only
}

// standing is what an alternative is among others. The higher one counts of those of two disjunctions that are unified.
type standing int8

const (
	unmarked standing = iota
	isDefault
	notDefault
)

// branch is a node of whose disjunctions some have taken an alternative.
type branch struct {
	node     *node
	standing standing
	// mark is that of the alternative that it took last.
	mark standing
	// That alternative was taken of another branch, from, whose standing was this, with this mark. It has several
	// branches if there are disjunctions in it.
	from, fromMark standing
	isOneOfSeveral bool
}

// branches adds those of a node for whose disjunctions alternatives fit, and returns why none does. It takes
// alternatives of the disjunctions that stand where the first one does: in the same alternative of another, or in none.
// This is CUE's processDisjunctions.
func (r *run) branches(found []branch, from branch) (all []branch, problem *Problem) {
	start, within := len(found), from.node.open[0].within
	isOpen := func(b branch) bool { return b.isOpen(within) }
	found = append(found, from)
	for slices.ContainsFunc(found[start:], isOpen) {
		if found, problem = r.cross(found, start, within); len(found) == start {
			return found, problem
		}
	}
	return found, nil
}

// isOpen reports whether the next disjunction of a branch is a part of the alternative of another, or of none if that is 0.
func (b branch) isOpen(within int32) bool {
	return len(b.node.open) > 0 && b.node.open[0].within == within
}

// cross replaces the branches from start on by those that take the alternatives of their next disjunctions. If no
// default of a disjunction fits, it counts as one without default. This is CUE's crossProduct.
func (r *run) cross(found []branch, start int, within int32) (all []branch, problem *Problem) {
	end := len(found)
	leftFits, rightFits := false, false
	for i := start; i < end; i++ {
		from := found[i]
		if !from.isOpen(within) { // it does not have the disjunction that others have
			found = append(found, from)
			continue
		}
		d := from.node.open[0].Disjunction
		for j, alternative := range d.Alternatives {
			first, mark := len(found), d.mark(alternative)
			var why *Problem
			if found, why = r.take(found, from, j, mark); len(found) == first {
				if problem == nil || why.IsIncomplete && (why.Absent != "" || problem.Absent == "") { // it may fit later
					problem = why
				}
				continue
			}
			taken := found[first:]
			for k := range taken {
				taken[k].from, taken[k].fromMark, taken[k].isOneOfSeveral = from.standing, mark, len(taken) > 1
			}
			if len(taken) == 1 {
				taken[0].mark = mark
			}
			leftFits = leftFits || from.standing == isDefault || from.mark == isDefault
			rightFits = rightFits || mark == isDefault
		}
	}
	isMarked, crossed := false, found[end:]
	found = found[:start]
	for _, b := range crossed {
		if b.isOneOfSeveral {
			b.standing = max(b.from.where(leftFits), b.fromMark, b.standing)
			isMarked = isMarked || b.standing != unmarked
		} else {
			b.standing = max(b.standing.where(leftFits), b.mark.where(rightFits))
		}
		same := slices.IndexFunc(found[start:], func(f branch) bool { return r.same(f.node, b.node) })
		switch {
		case same < 0:
			found = append(found, b)
		case b.standing == isDefault:
			found[start+same].standing = isDefault
		}
	}
	for i := start; i < len(found) && isMarked; i++ {
		if found[i].standing == unmarked {
			found[i].standing = notDefault
		}
	}
	return found, problem
}

// where returns a standing if a default fits, and none otherwise.
func (s standing) where(fits bool) standing {
	if fits {
		return s
	}
	return unmarked
}

// mark returns what an alternative of a disjunction is.
func (d *Disjunction) mark(a Alternative) standing {
	switch {
	case !d.HasDefault:
		return unmarked
	case a.Default:
		return isDefault
	}
	return notDefault
}

// take adds the branch that takes an alternative of another, or those of the disjunctions in that, if they fit.
func (r *run) take(found []branch, from branch, alternative int, mark standing) (all []branch, problem *Problem) {
	was := from.node
	n := &node{up: was.up, label: was.label, conjs: was.conjs, choices: append(slices.Clip(was.choices), alternative)}
	r.expand(n)
	if len(n.open) == 0 {
		problem = r.dead(n)
	} else {
		problem = n.problem
	}
	if problem != nil {
		return found, problem
	}
	b := branch{node: n, standing: from.standing, mark: mark}
	if b.isOpen(int32(len(n.choices))) {
		return r.branches(found, b)
	}
	return append(found, b), nil
}

// same reports whether two branches have the same value.
func (r *run) same(a, b *node) bool {
	if a.isScalar && b.isScalar {
		return sameScalar(a.scalar, b.scalar)
	}
	if len(a.open)+len(b.open) > 0 {
		return false // so far
	}
	if a.isType() && b.isType() && len(a.checks)+len(b.checks) == 0 {
		return a.kinds == b.kinds
	}
	return r.samePart(a, b)
}

// isType reports whether a node is only a type so far, like string or >1.
func (n *node) isType() bool {
	return n.problem == nil && !n.isScalar && len(n.lits)+len(n.data)+len(n.lists)+len(n.comps) == 0
}

// samePart reports whether two fields or elements have the same value, which none of them has as a default.
func (r *run) samePart(a, b any) bool {
	r.step()
	x, problem := r.valueOf(a)
	y, problem2 := r.valueOf(b)
	if problem != nil || problem2 != nil || r.isDefault(a) != r.isDefault(b) {
		return false
	}
	m, isNode := x.(*node)
	n, isNode2 := y.(*node)
	if !isNode || !isNode2 || kindOf(m) != kindOf(n) {
		equal, problem := r.equal(x, y)
		return problem == nil && equal
	}
	if kindOf(m) == Struct {
		names, problem := r.fields(m)
		names2, problem2 := r.fields(n)
		isClosed, isClosed2 := r.rejects(m, nil) != nil, r.rejects(n, nil) != nil
		if problem != nil || problem2 != nil || isClosed != isClosed2 || !sets.New(names...).Equal(sets.New(names2...)) || !r.undefined(m).Equal(r.undefined(n)) {
			return false
		}
		return !slices.ContainsFunc(append(names, hiddenFields(m)...), func(name string) bool { return !r.samePart(r.field(m, name), r.field(n, name)) })
	}
	return slices.EqualFunc(r.parts(m), r.parts(n), r.samePart)
}

// isDefault reports whether the value of a field is the default of a disjunction.
func (r *run) isDefault(part any) bool {
	field, _ := part.(*node)
	return field != nil && field.isDefault
}

// undefined returns the names of the fields of a struct that are optional, and of those that are no data.
func (r *run) undefined(n *node) sets.Set[string] {
	names := sets.New(hiddenFields(n)...)
	for _, l := range n.lits {
		for _, f := range l.Fields {
			if f.Mode != Regular && r.arc(n, f.Name) == nil {
				names.Insert(f.Name)
			}
		}
	}
	return names
}

// dead returns why an alternative does not fit.
func (r *run) dead(n *node) *Problem {
	if n.isType() {
		return nil
	}
	value, problem := r.value(n)
	if problem != nil {
		if problem.IsIncomplete && n.problem == nil {
			return nil // it is a type so far
		}
		return problem
	}
	switch v := value.(type) {
	case *node:
		problem = worse(r.broken(v), r.lacking(v))
		return worse(v.problem, problem) // an if may have added what does not fit
	case []any: // what a builtin returns
		for _, element := range v {
			problem = worse(worse(problem, r.brokenValue(element)), r.lackingPart(element))
		}
	}
	return problem
}

// lacking returns why it is not known which fields or elements a struct or a list has, or what one of them refers to
// that is absent. An alternative is left then. What is deeper within it does not count, as in CUE.
func (r *run) lacking(n *node) *Problem {
	if problem := r.partial(n); problem != nil {
		return problem
	}
	for _, part := range r.parts(n) {
		if problem := r.lackingPart(part); problem != nil {
			return problem
		}
	}
	return nil
}

// lackingPart is lacking for a field or an element.
func (r *run) lackingPart(part any) *Problem {
	field, ok := part.(*node)
	if !ok || field == nil {
		return nil
	}
	value, problem := r.value(field)
	if s, ok := value.(*node); ok && problem == nil {
		problem = r.partial(s)
	}
	if problem != nil && problem.isOpen {
		return nil
	}
	return problem
}

// parts returns the elements of a list, or the fields of a struct with definitions and hidden ones.
func (r *run) parts(n *node) (parts []any) {
	if kindOf(n) == List {
		parts, _ = r.elements(n)
		return parts
	}
	names, _ := r.fields(n)
	for _, name := range append(names, hiddenFields(n)...) {
		parts = append(parts, r.field(n, name))
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
func (r *run) partial(n *node) *Problem {
	if kindOf(n) == List {
		_, problem := r.length(n)
		return problem
	}
	_, problem := r.fields(n)
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
	if problem := r.partial(n); problem != nil {
		return problem
	}
	return r.broken(n)
}

// broken returns what is wrong within a struct or a list.
func (r *run) broken(n *node) *Problem {
	r.enter()
	defer r.leave()
	fields, problem := r.fields(n)
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
		if problem := r.brokenValue(r.field(n, name)); problem != nil {
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
	value, problem := r.value(n)
	if problem != nil {
		if problem.IsIncomplete {
			return nil
		}
		return problem
	}
	if s, ok := value.(*node); ok {
		return r.broken(s)
	}
	return nil
}

// value computes a node: a scalar, a struct or a list.
func (r *run) value(n *node) (any, *Problem) {
	t, problem := r.target(n)
	if problem != nil {
		return nil, problem
	}
	n, ok := t.(*node)
	if !ok {
		return scalarOf(t), nil
	}
	if n.kinds&^Struct != 0 {
		r.yieldAll(n, func(c pending) bool { return c.scalar })
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
		return nil, &Problem{IsIncomplete: true, Path: n.path(), At: n.pos(), isOpen: true, Message: "incomplete value " + n.kinds.String()}
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

// structure computes a value that may be a struct whose constraints cannot be checked so far, or that is unified with what is
// absent: it has the fields that are known.
func (r *run) structure(value any) (any, *Problem) {
	computed, problem := r.valueOf(value)
	if n, ok := value.(*node); ok && problem != nil && problem.IsIncomplete {
		if target, _ := r.target(n); target != nil {
			if n, ok := target.(*node); ok && n.kinds&^Struct == 0 && kindOf(n) == Struct && len(n.lits)+len(n.data) > 0 {
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
func (r *run) yieldAll(n *node, which func(pending) bool) {
	i := 0
	for i < len(n.comps) {
		if which(n.comps[i]) {
			r.yield(n, i)
		}
		i++
	}
}

// yield runs one of the comprehensions of a struct. As in CUE, it adds nothing if one of its rounds waits or is wrong.
func (r *run) yield(n *node, i int) {
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
		r.add(n, conj{x: c.Body, env: r.yielded[i], group: c.group})
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
	problem = r.each(source, clause, func(key, value any) *Problem {
		isEmpty = false
		inner := r.scope()
		inner.up, inner.key, inner.value = e, key, value
		return r.comprehend(rest, inner, yield)
	})
	r.note(clause.at, clause.counts, !isEmpty)
	return problem
}

// each calls a function for the fields of a struct or the elements of a list, with their keys if the clause has a
// variable for them.
func (r *run) each(source any, clause Clause, visit func(key, value any) *Problem) *Problem {
	switch s := source.(type) {
	case []any:
		for i, value := range s {
			if problem := visit(clause.keyOf(i), value); problem != nil {
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
				if problem := visit(clause.keyOf(i), r.element(s, i)); problem != nil {
					return problem
				}
			}
			return nil
		}
		names, problem := r.fields(s)
		if problem != nil {
			return problem
		}
		for _, name := range names {
			if problem := visit(shown(name), r.field(s, name)); problem != nil {
				return problem
			}
		}
		return nil
	}
	return wrong(clause.X, "cannot range over %s (type %s): it must be a struct or a list", textOf(source), kindOf(source))
}

// keyOf returns the key of an element of a list; nil if nothing refers to it, so that it takes no memory.
func (c Clause) keyOf(i int) any {
	if c.Key == "" {
		return nil
	}
	return int64(i)
}

// field returns a field of a struct that exists: a value or a node; nil if it does not exist.
func (r *run) field(n *node, name string) any {
	if a := r.arc(n, name); a != nil {
		return a
	}
	return nil
}

// arc returns the node of a field, or nil if it does not exist.
func (r *run) arc(n *node, name string) *node {
	for i := range n.arcs {
		if n.arcs[i].label == name {
			return n.arcs[i].node
		}
	}
	r.spend(1 + (len(n.arcs)+len(n.lits))/partsPerStep)
	r.expand(n)
	r.yieldAll(n, func(c pending) bool { return c.all || c.names[name] })
	field := r.declared(n, name)
	if n.state == expanding {
		return field // there may be more of it
	}
	for _, c := range n.comps {
		if c.state == expanding && (c.all || c.names[name]) {
			return field
		}
	}
	n.arcs = append(n.arcs, arc{name, field})
	return field
}

// declared returns the node of a field from all that declares it.
func (r *run) declared(n *node, name string) *node {
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
		r.nameDynamic(n, i)
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
		r.addPatterns(n, field, name)
		if g := r.rejects(n, field.conjs); g != nil {
			field.fail(cmp.Or(n.problemOf(name), g.notAllowed(field)))
		}
	}
	return field
}

// addPatterns adds what patterns say of a field.
func (r *run) addPatterns(n, field *node, name string) {
	for i := range n.lits {
		l := &n.lits[i]
		for _, pattern := range l.Patterns {
			matches, problem := r.matches(pattern.Name, l.env, shown(name))
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
func (r *run) matches(pattern Expr, e *env, name string) (bool, *Problem) {
	if t, ok := pattern.(*Type); ok && t.Min == nil {
		return t.Kinds&String != 0, nil
	}
	n := &node{conjs: []conj{{x: pattern, env: e}, {value: name}}}
	_, problem := r.value(n)
	if problem != nil && problem.IsIncomplete {
		return false, problem
	}
	return problem == nil, nil
}

// nameDynamic computes the names of dynamic fields.
func (r *run) nameDynamic(n *node, i int) {
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
			n.comps = append(n.comps, pending{Comprehension: &Comprehension{at: d.at, all: true}, state: expanded, problem: problem})
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
func (r *run) fields(n *node) (names []string, problem *Problem) {
	r.expand(n)
	r.yieldAll(n, func(pending) bool { return true })
	for i := range n.lits {
		r.nameDynamic(n, i)
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
				if decl.Mode == Regular && (all || r.arc(n, decl.Name) != nil) {
					note(decl.Name)
				}
			case *Comprehension:
				if body, ok := decl.Body.(*StructLit); ok {
					static(body.order, false)
				}
			}
		}
	}
	for _, l := range n.lits {
		static(l.order, true)
	}
	for _, l := range n.lits {
		for j, d := range l.Dynamic {
			if d.Mode == Regular && l.dynamic[j] != "\x00" {
				note(l.dynamic[j])
			}
		}
	}
	for _, data := range n.data {
		for _, name := range sortedKeys(data.fields) {
			note(dataLabel(name))
		}
	}
	for _, c := range n.comps {
		problem = worse(problem, c.problem)
	}
	return names, problem
}

// missing returns the required fields that a struct does not have.
func (r *run) missing(n *node) *Problem {
	for _, l := range n.lits {
		for _, f := range l.Fields {
			if f.Mode == Required && r.arc(n, f.Name) == nil {
				return &Problem{IsIncomplete: true, Path: strings.TrimPrefix(n.path()+"."+shown(f.Name), "."), At: f.Pos(), Message: "field is required but not present"}
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
