package behaviour

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// addTo unifies a node with the alternative that it has chosen, or leaves the disjunction open.
func (x *Disjunction) addTo(r *run, n *node, e *env, g *group) {
	if int(n.met) == len(n.choices) {
		n.open = append(n.open, choice{x, e, n.within})
		return
	}
	n.met++
	outer := n.within
	n.within = n.met
	n.add(r, conj{x: x.Alternatives[n.choices[n.met-1]].X, env: e, group: g})
	n.within = outer
}

// choose takes the alternative that is the only one that fits, or the default.
func (n *node) choose(r *run) (*node, *Problem) {
	if n.several != nil {
		return nil, n.several
	}
	p := product{run: r}
	problem := p.branches(branch{node: n})
	if len(p.found) == 0 {
		if n.isScalar && !problem.IsIncomplete {
			problem = wrong(n.open[0], "invalid value %s (does not fit %s)", textOf(n.scalar), source(n.open[0].Text))
		}
		n.fail(problem)
		return nil, n.problem
	}
	if chosen := p.only(); chosen != nil {
		n.isDefault = len(p.found) > 1
		return r.took(n, chosen), nil
	}
	n.several = &Problem{IsIncomplete: true, Path: n.path(), At: n.open[0].Pos(), isOpen: true,
		Message: "unresolved disjunction: more than one alternative fits"}
	return nil, n.several
}

// only returns the node of the only default, or of the only branch; nil if there are several.
func (p *product) only() (only *node) {
	if len(p.found) == 1 {
		return p.found[0].node
	}
	for _, b := range p.found {
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

// product are the branches of a node that are left while alternatives of its disjunctions are taken.
type product struct {
	*run
	found []branch
}

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
func (p *product) branches(from branch) *Problem {
	start, within := len(p.found), from.node.open[0].within
	isOpen := func(b branch) bool { return b.isOpen(within) }
	p.found = append(p.found, from)
	for slices.ContainsFunc(p.found[start:], isOpen) {
		if problem := p.cross(start, within); len(p.found) == start {
			return problem
		}
	}
	return nil
}

// isOpen reports whether the next disjunction of a branch is a part of the alternative of another, or of none if that
// is 0.
func (b branch) isOpen(within int32) bool {
	return len(b.node.open) > 0 && b.node.open[0].within == within
}

// cross replaces the branches from start on by those that take the alternatives of their next disjunctions. If no
// default of a disjunction fits, it counts as one without default. This is CUE's crossProduct.
func (p *product) cross(start int, within int32) (problem *Problem) {
	end := len(p.found)
	leftFits, rightFits := false, false
	for i := start; i < end; i++ {
		from := p.found[i]
		if !from.isOpen(within) { // it does not have the disjunction that others have
			p.found = append(p.found, from)
			continue
		}
		d := from.node.open[0].Disjunction
		for j, alternative := range d.Alternatives {
			first, mark := len(p.found), d.mark(alternative)
			if why := p.take(from, j, mark); len(p.found) == first {
				if problem == nil ||
					why.IsIncomplete && (why.Absent != "" || problem.Absent == "") { // it may fit later
					problem = why
				}
				continue
			}
			taken := p.found[first:]
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
	isMarked, crossed := false, p.found[end:]
	p.found = p.found[:start]
	for _, b := range crossed {
		if b.isOneOfSeveral {
			b.standing = max(b.from.where(leftFits), b.fromMark, b.standing)
			isMarked = isMarked || b.standing != unmarked
		} else {
			b.standing = max(b.standing.where(leftFits), b.mark.where(rightFits))
		}
		same := slices.IndexFunc(p.found[start:], func(f branch) bool { return f.same(p.run, b) })
		switch {
		case same < 0:
			p.found = append(p.found, b)
		case b.standing == isDefault:
			p.found[start+same].standing = isDefault
		}
	}
	for i := start; i < len(p.found) && isMarked; i++ {
		if p.found[i].standing == unmarked {
			p.found[i].standing = notDefault
		}
	}
	return problem
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
func (p *product) take(from branch, alternative int, mark standing) *Problem {
	was := from.node
	n := &node{up: was.up, label: was.label, conjs: was.conjs, choices: append(slices.Clip(was.choices), alternative)}
	b := branch{node: n, standing: from.standing, mark: mark}
	n.expand(p.run)
	if problem := b.dead(p.run); problem != nil {
		return problem
	}
	if b.isOpen(int32(len(n.choices))) {
		return p.branches(b)
	}
	p.found = append(p.found, b)
	return nil
}

// same reports whether two branches have the same value.
func (b branch) same(r *run, other branch) bool {
	m, n := b.node, other.node
	if m.isScalar && n.isScalar {
		return sameScalar(m.scalar, n.scalar)
	}
	if len(m.open)+len(n.open) > 0 {
		return false // so far
	}
	if m.isType() && n.isType() && len(m.checks)+len(n.checks) == 0 {
		return m.kinds == n.kinds
	}
	return r.samePart(m, n)
}

// samePart reports whether two fields or elements have the same value, which none of them has as a default.
func (r *run) samePart(a, b any) bool {
	r.step()
	x, problem := r.valueOf(a)
	y, problem2 := r.valueOf(b)
	if problem != nil || problem2 != nil || takesDefault(a) != takesDefault(b) {
		return false
	}
	m, isNode := x.(*node)
	n, isNode2 := y.(*node)
	if !isNode || !isNode2 || kindOf(m) != kindOf(n) {
		equal, problem := r.equal(x, y)
		return problem == nil && equal
	}
	if kindOf(m) == Struct {
		names, problem := m.fields(r)
		names2, problem2 := n.fields(r)
		isClosed, isClosed2 := m.closings.rejects(r, nil) != nil, n.closings.rejects(r, nil) != nil
		if problem != nil || problem2 != nil || isClosed != isClosed2 ||
			!sets.New(names...).Equal(sets.New(names2...)) || !m.undefined(r).Equal(n.undefined(r)) {
			return false
		}
		return !slices.ContainsFunc(append(names, hiddenFields(m)...),
			func(name string) bool { return !r.samePart(m.field(r, name), n.field(r, name)) })
	}
	return slices.EqualFunc(m.parts(r), n.parts(r), r.samePart)
}

// takesDefault reports whether the value of a field is the default of a disjunction.
func takesDefault(part any) bool {
	field, _ := part.(*node)
	return field != nil && field.isDefault
}

// undefined returns the names of the fields of a struct that are optional, and of those that are no data.
func (n *node) undefined(r *run) sets.Set[string] {
	names := sets.New(hiddenFields(n)...)
	for _, l := range n.lits {
		for _, f := range l.Fields {
			if f.Mode != Regular && n.arc(r, f.Name) == nil {
				names.Insert(f.Name)
			}
		}
	}
	return names
}

// dead returns why an alternative does not fit, as far as that is known while others are to be taken.
func (b branch) dead(r *run) *Problem {
	n := b.node
	if n.isType() {
		return nil
	}
	if len(n.open) > 0 {
		return n.problem
	}
	value, problem := n.value(r)
	if problem != nil {
		if problem.IsIncomplete && n.problem == nil {
			return nil // it is a type so far
		}
		return problem
	}
	switch v := value.(type) {
	case *node:
		problem = worse(v.broken(r), v.lacking(r))
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
func (n *node) lacking(r *run) *Problem {
	if problem := n.partial(r); problem != nil {
		return problem
	}
	for _, part := range n.parts(r) {
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
	value, problem := field.value(r)
	if s, ok := value.(*node); ok && problem == nil {
		problem = s.partial(r)
	}
	if problem != nil && problem.isOpen {
		return nil
	}
	return problem
}
