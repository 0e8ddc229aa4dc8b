package behaviour

import "slices"

// maxShapes bounds how much of a behaviour is prepared when it is compiled; a definition may
// contain itself.
const (
	maxShapes     = 5000
	maxShapeDepth = 40
)

// A shape is a node that is prepared when a program is compiled: what is unified to it does not
// depend on the object. A run takes the node unchanged, and computes only what depends on the
// object.

// instance returns the node of this run for a shape; any other node is returned unchanged.
func (r *run) instance(n *node) *node {
	if n == nil || n.id == 0 || r.shaping || n.isConstant && n.isScalar {
		return n
	}
	if known := r.instances[n.id]; known != nil {
		return known
	}
	made := r.node()
	*made = *n
	made.shape, made.id = n, 0
	made.comps = slices.Clone(n.comps)
	if !n.enumerated {
		made.arcs = nil
	}
	if slices.ContainsFunc(n.lits, func(l lit) bool { return len(l.Dynamic) > 0 }) {
		made.lits = slices.Clone(n.lits)
	}
	r.instances[n.id] = made
	return made
}

// number makes a node a shape.
func (r *run) number(n *node) {
	if n.id == 0 {
		r.shapes++
		n.id = r.shapes
	}
}

// attempt evaluates something for all runs, and reports whether that is possible: nothing that is
// given was read. Otherwise the nodes are as they were.
func (r *run) attempt(evaluate func()) bool {
	r.touched, r.undo, r.steps = false, r.undo[:0], maxSteps/100
	if !r.affordable(evaluate) {
		r.touched = true
	}
	if r.touched {
		for _, undo := range slices.Backward(r.undo) {
			undo()
		}
	}
	return !r.touched
}

// affordable evaluates something within the budget, and reports whether that was enough.
func (r *run) affordable(evaluate func()) (enough bool) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exhausted:
			r.depth, enough = 0, false
		default:
			panic(p)
		}
	}()
	evaluate()
	return true
}

// note has attempt undo what is about to happen to a node.
func (r *run) note(n *node) {
	if !r.shaping {
		return
	}
	r.number(n)
	before := *n
	before.comps = slices.Clone(n.comps)
	r.undo = append(r.undo, func() { *n = before })
}

// prepare makes the shapes of a program.
func (p *Program) prepare() {
	r := &run{steps: maxSteps, shaping: true, packages: make(map[*Package]*node)}
	p.top = &node{}
	for _, f := range p.pkg.top.byName[p.name] {
		p.top.conjs = append(p.top.conjs, conj{x: f.Value, env: r.top(p.pkg).lits[0].env})
	}
	p.top.arcs = p.unknown()
	r.shape(p.top, 0)
	p.packages, p.shapes = r.packages, r.shapes
	for _, c := range p.top.lits {
		for _, f := range c.byName[observedName] {
			if isAny(f.Value) {
				continue
			}
			p.observed = append(p.observed, conj{x: f.Value, env: c.env})
		}
	}
	p.fix(p.top, make(map[*node]bool))
}

// shape prepares a node and what is in it.
func (r *run) shape(n *node, depth int) {
	if n == nil || n.fields != nil || n.shared != nil || depth > maxShapeDepth || r.shapes > maxShapes {
		return
	}
	r.number(n)
	if c, ok := n.reference(); ok {
		var target any
		if r.attempt(func() { target, _ = r.resolve(c.x, c.env) }) {
			if t, ok := target.(*node); ok && t != n {
				n.shared = t
				r.shape(t, depth+1)
				if t.id == 0 {
					r.number(t)
				}
			}
		}
		return
	}
	if !r.attempt(func() { r.expand(n) }) || n.problem != nil || len(n.open) > 0 {
		return
	}
	if len(n.lists) > 0 {
		isFixed := !slices.ContainsFunc(n.lists, func(l elements) bool {
			return l.list == nil || slices.ContainsFunc(l.list.Elements, func(x Expr) bool { _, ok := x.(*Comprehension); return ok })
		})
		if isFixed && r.attempt(func() { n.fail(r.enumerate(n)) }) && n.problem == nil {
			for i := range n.arcs {
				r.number(n.arcs[i].node)
				r.shape(n.arcs[i].node, depth+1)
			}
		}
		return
	}
	n.fields = make(map[string]*node)
	for _, l := range n.lits {
		for name := range l.byName {
			if _, done := n.fields[name]; done {
				continue
			}
			var field *node
			if !r.attempt(func() { field = r.arc(n, name) }) {
				if n.state == raw { // what it is unified from depends on what is given
					n.fields = nil
					return
				}
				continue
			}
			n.fields[name] = field
			if field != nil {
				r.number(field)
				r.shape(field, depth+1)
			}
		}
	}
	if len(n.comps) == 0 && len(n.lits) > 0 && !slices.ContainsFunc(n.lits, func(l lit) bool { return len(l.Dynamic) > 0 }) {
		r.attempt(func() {
			if names, problem := r.fields(n); problem == nil && len(names) > 0 {
				n.names, n.isComplete = names, r.missing(n) == nil
			}
		})
	}
}

// fix finds what is the same in each run.
func (p *Program) fix(n *node, seen map[*node]bool) {
	if n == nil || n.id == 0 || seen[n] {
		return
	}
	seen[n] = true
	r := p.newRun()
	r.steps = maxSteps / 100
	top := r.instance(p.top)
	top.arcs = p.unknown()
	r.affordable(func() {
		value, problem := r.value(r.instance(n))
		if problem != nil || r.touched {
			return
		}
		constant, problem := r.export(value)
		if problem != nil || r.touched {
			return
		}
		if kindOf(value)&(List|Struct) == 0 {
			n.isScalar, n.scalar, n.state = true, value, expanded
		}
		n.isConstant, n.constant = true, constant
	})
	p.fix(n.shared, seen)
	for _, field := range n.fields {
		p.fix(field, seen)
	}
	if n.enumerated {
		for _, a := range n.arcs {
			p.fix(a.node, seen)
		}
	}
}

// isAny reports whether any struct fits an expression.
func isAny(x Expr) bool {
	switch x := x.(type) {
	case *Type:
		return x.Kinds == Any
	case *StructLit:
		return len(x.order) == len(x.Patterns) && !slices.ContainsFunc(x.Patterns, func(p *Pattern) bool { return !isAny(p.Value) })
	}
	return false
}
