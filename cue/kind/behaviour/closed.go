package behaviour

import (
	"slices"
	"strings"
)

// group is a part of what a node is unified from: what a definition adds, or a struct that embeds others, or what it
// embeds. A node has no fields but those that each closed group admits. CUE calls the group that declares a field the
// evidence for it.
type group struct {
	up   *group // the group of which it is a part; nil is none
	kind groupKind
	node *node // to which the reference or close() is unified
	// target is that of a reference to a definition. close() has none, and says nothing about what is within the
	// struct.
	target *node
}

type groupKind int8

const (
	// A reference, or close(), adds all others.
	_ groupKind = iota
	// structure is a struct that embeds others.
	structure
	// embedding is what a struct embeds.
	embedding
	// embedded is the group above, for what is embedded itself: not for what is within that.
	embedded
)

// isDefinition reports whether a label is that of a definition.
func isDefinition(label string) bool {
	return strings.HasPrefix(label, "#") || strings.HasPrefix(label, "_#")
}

// closes reports whether an expression is a reference to a definition, or to something within one.
func closes(x Expr) bool {
	switch x := x.(type) {
	case *Reference:
		return isDefinition(x.Name)
	case *PackageReference:
		return isDefinition(x.Name) && !x.isRoot // what a behaviour may declare is checked when it loads
	case *Selector:
		return isDefinition(x.Name) || closes(x.X)
	case *Index:
		return closes(x.X)
	}
	return false
}

// closing returns the group of what a reference, or close(), adds to a node.
func (g *group) closing(n, target *node) *group {
	around := g.within()
	added := &group{up: around, node: n, target: target}
	if around != g {
		return &group{up: added, kind: embedded}
	}
	return added
}

// ofStruct returns the group of a struct that embeds others. One that is embedded itself is a part of the struct around
// it.
func (g *group) ofStruct() *group {
	if around := g.within(); around != g {
		return around
	}
	return &group{up: g, kind: structure}
}

// embeds returns the group of something that a struct embeds.
func (g *group) embeds() *group {
	return &group{up: &group{up: g, kind: embedding}, kind: embedded}
}

// within returns the group of the fields of a struct, or of the elements of a list.
func (g *group) within() *group {
	if g != nil && g.kind == embedded {
		return g.up
	}
	return g
}

// above returns the innermost group of a kind of which this is a part; nil if there is none.
func (g *group) above(kind groupKind) *group {
	for ; g != nil && g.kind != kind; g = g.up {
	}
	return g
}

// depth returns how many groups a group is a part of, itself included.
func (g *group) depth() (n int) {
	for ; g != nil; g = g.up {
		n++
	}
	return n
}

// contains reports whether a group is a part of this one, or the same.
func (g *group) contains(part *group) bool {
	for ; part != nil; part = part.up {
		if part == g {
			return true
		}
	}
	return false
}

// isAgain reports whether a group is a part of what another reference to the same node adds.
func (g *group) isAgain(target *node) bool {
	references := 0
	for ; g != nil; g = g.up {
		if g.target == target {
			references++
		}
	}
	return references > 1
}

// closings are the groups of a node that are closed, and those of which a part has an ellipsis.
type closings struct{ closed, open []*group }

// addGroup adds a group, and those of which it is a part, to the closings of a node, to which it adds a struct.
func (n *node) addGroup(r *run, g *group, isOpen bool) {
	if g == nil {
		return
	}
	if n.closings == nil {
		n.closings = &closings{}
	}
	c := n.closings
	r.spend((len(c.closed) + len(c.open)) * g.depth() / partsPerStep)
	for ; g != nil; g = g.up {
		isClosed := g.target != nil || g.node == n
		if isClosed && !slices.Contains(c.closed, g) {
			c.closed = append(c.closed, g)
		}
		if isOpen && !slices.Contains(c.open, g) {
			c.open = append(c.open, g)
		}
	}
}

// rejects returns a closed group that does not admit a field, which is unified from some expressions; nil if all do.
func (c *closings) rejects(r *run, field []conj) *group {
	if c == nil {
		return nil
	}
	r.spend(len(c.closed) * len(field) / partsPerStep)
	for _, g := range c.closed {
		if !slices.Contains(c.open, g) &&
			!slices.ContainsFunc(field, func(part conj) bool { return c.admit(g, part.group) }) {
			return g
		}
	}
	return nil
}

// admit reports whether a group admits a field of which this is a part: one of the group, or of the struct that embeds
// it.
func (c *closings) admit(g, part *group) bool {
	if g.contains(part) {
		return true
	}
	e := g.above(embedding)
	s := e.above(structure)
	return !e.contains(part) && (s.contains(part) || slices.Contains(c.open, s))
}

// notAllowed is the problem of a field that a group does not admit.
func (g *group) notAllowed(field *node) *Problem {
	by := "the definition, or close(), in its struct"
	if g.target != nil && isDefinition(g.target.label) {
		by = shown(g.target.label)
	}
	return problemAt(field.pos(), "field not allowed by %s", source(by))
}
