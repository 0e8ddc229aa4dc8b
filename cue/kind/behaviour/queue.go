package behaviour

import "slices"

// queued is what a node is unified with after other things. The order is that of CUE: fields have it, and defaults of
// disjunctions depend on it.
type queued struct {
	conj
	within int32 // the disjunction in whose alternative it is, as for a choice
	turn   turn
}

// turn is when a node is unified with something.
type turn int8

const (
	atOnce    turn = iota
	reference      // from the first to the last, as all but those that read fields of the struct itself
	disjunction
	known   // found with fields of the struct that are known
	itself  // a field of the struct itself, to which something else may add more
	unknown // found with fields that are not known so far
)

// turnOf returns when a node is unified with something. For what reads fields of the struct itself, it is known later.
func turnOf(n *node, c conj) turn {
	if c.env != nil && c.env.node == n && readsFieldOf(n, c.x, c.env) {
		return known
	}
	if isReference(c.x) {
		return reference
	}
	if _, ok := c.x.(*Disjunction); ok {
		return disjunction
	}
	return atOnce
}

// readsFieldOf reports whether what a struct embeds is found with a field of the struct, which something else may
// declare as well, as in {#of: string, _templates[#of]}. The results of operators that are left out are no structs.
func readsFieldOf(n *node, x Expr, e *env) bool {
	switch x.(type) {
	case *Reference, *LetReference, *Selector, *Index, *Call, *Unary:
		return names(x, e, n)
	}
	return false
}

// names reports whether an expression names a field, or a let clause, of a struct.
func names(x Expr, e *env, n *node) bool {
	switch x := x.(type) {
	case *Reference:
		return e.at(x.Up).node == n
	case *LetReference:
		return e.at(x.Up).node == n
	case *Selector:
		return names(x.X, e, n)
	case *StructLit, *Comprehension:
		return true // some of their parts may
	}
	return slices.ContainsFunc(partsOf(x), func(part Expr) bool { return names(part, e, n) })
}

// addQueued unifies a node with what is in its queue. While a disjunction is open, fields may be unknown: what reads
// them stays in the queue, and the alternatives try again. Disjunctions that this adds count as parts of the
// alternative that was taken last.
func (n *node) addQueued(r *run) {
	for n.addNext(r, reference) || n.addDisjunction(r) || len(n.open) == 0 && n.addNext(r, soonest(r, n)) {
	}
}

// addDisjunction unifies a node with the next disjunction, and with those in the alternative that it takes.
func (n *node) addDisjunction(r *run) (found bool) {
	others := n.queue
	i := slices.IndexFunc(others, func(q queued) bool { return q.turn == disjunction })
	if i < 0 {
		return false
	}
	q := others[i]
	n.queue = nil
	n.within = q.within
	n.unify(r, q.conj)
	for n.addNext(r, reference) || n.addDisjunction(r) {
	}
	n.queue = append(slices.Delete(others, i, i+1), n.queue...)
	return true
}

// addNext unifies a node with the next of the queue that has a turn. What reads fields of the struct itself comes from
// the last to the first, and all else from the first to the last.
func (n *node) addNext(r *run, of turn) (found bool) {
	i := -1
	for j, q := range n.queue {
		if q.turn == of {
			i = j
			if of < known {
				break
			}
		}
	}
	if i < 0 {
		return false
	}
	q := n.queue[i]
	n.queue = slices.Delete(n.queue, i, i+1)
	n.within = q.within
	if of >= known {
		n.within = n.met
	}
	n.unify(r, q.conj)
	return true
}

// soonest computes the turns of what reads fields of the struct itself, and returns the first one.
func soonest(r *run, n *node) (first turn) {
	first = unknown
	parts := len(n.queue) + partsOfStruct(n)
	for i := range n.queue {
		if n.queue[i].turn >= known {
			n.queue[i].turn = turnNow(r, n, n.queue[i].conj)
		}
		first = min(first, n.queue[i].turn)
	}
	if len(n.queue)+partsOfStruct(n) > parts { // a field that was read has an if, which added something
		return soonest(r, n)
	}
	return first
}

// turnNow returns the turn of something that reads fields of the struct itself.
func turnNow(r *run, n *node, c conj) turn {
	if r.operands(c.x, c.env) != nil {
		return unknown
	}
	if field, ok := origin(c.x).(*Reference); ok && names(field, c.env, n) {
		return itself
	}
	return known
}

// operands returns why what an expression is computed from is not known.
func (r *run) operands(x Expr, e *env) (problem *Problem) {
	switch x.(type) {
	case *Call, *Unary:
		for _, part := range partsOf(x) {
			_, p := r.eval(part, e)
			problem = worse(problem, p)
		}
	default:
		_, problem = r.resolve(x, e)
	}
	return problem
}
