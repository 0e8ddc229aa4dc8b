package behaviour

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/token"
)

// dependencies says to which fields and lets each of them refers, as far as the names alone tell it.
type dependencies struct {
	nodes []*dependent // in the order of the source
	of    map[Expr]*dependent
	way   []step // to the field that is looked at
}

// dependent is a field or a let with what it refers to.
type dependent struct {
	references []dependency
	isDone     bool
}

// dependency is a reference in the value of a field, and what it names: a field can be declared more than once.
type dependency struct {
	at    token.Pos
	text  string
	to    []Expr
	hides bool // the value of the field that it names begins with it, by its name alone
}

// literals are the scopes of an expression; that of a clause has no struct.
type literals struct {
	up *literals
	*StructLit
}

// Cycle returns an error for the first field of the program's package that refers to itself, as far as names alone tell
// it; an if around a field is not a part of it. CUE gives some of them a value, in some orders. nil is none.
func (p *Program) Cycle() *Error {
	d := &dependencies{of: make(map[Expr]*dependent)}
	for _, f := range p.pkg.top.Fields {
		d.field(f, nil, nil)
	}
	for _, n := range d.nodes {
		if e := d.cycle(n); e != nil {
			return e
		}
	}
	return nil
}

// cycle returns an error if a field refers to one of those on the way to it.
func (d *dependencies) cycle(n *dependent) *Error {
	if i := slices.IndexFunc(d.way, func(s step) bool { return s.of == n }); i >= 0 {
		first := d.way[i]
		if first.hides {
			return &Error{first.at,
				fmt.Sprintf(
					"%s refers to this field itself, which hides the other %[1]s: quote the field, as in %[1]q: %[1]s, or rename the other", first.text)}
		}
		var texts []string
		for _, s := range append(slices.Clip(d.way[i:]), first) {
			texts = append(texts, s.text)
		}
		return &Error{first.at, first.text + " refers to itself: " + strings.Join(texts, " → ")}
	}
	if n.isDone {
		return nil
	}
	n.isDone = true
	for _, reference := range n.references {
		for _, to := range reference.to {
			next := d.of[to]
			if next == nil {
				continue
			}
			d.way = append(d.way, step{n, reference})
			if e := d.cycle(next); e != nil {
				return e
			}
			d.way = d.way[:len(d.way)-1]
		}
	}
	return nil
}

// step is a reference that a field has, on the way to a field.
type step struct {
	of *dependent
	dependency
}

// add adds a field or a let.
func (d *dependencies) add(x Expr) *dependent {
	n := &dependent{}
	d.nodes = append(d.nodes, n)
	d.of[x] = n
	return n
}

// field visits a field. Those around are the fields whose values need its value.
func (d *dependencies) field(f *Field, up *literals, around []*dependent) {
	if f.Mode != Regular {
		return
	}
	n := d.add(f)
	d.value(f.Value, up, around, append(slices.Clip(around), n))
	for i, reference := range n.references {
		n.references[i].hides = reference.at == f.Value.Pos() && slices.Contains(reference.to, Expr(f)) &&
			reference.text == f.Name
	}
}

// value visits the value of a field: what is outside of structs is its own, and the fields of these are for themselves.
func (d *dependencies) value(x Expr, up *literals, around, own []*dependent) {
	switch x := x.(type) {
	case *StructLit:
		d.structLit(x, up, around, own)
	case *Binary:
		if x.Op == token.AND {
			d.value(x.X, up, around, own)
			d.value(x.Y, up, around, own)
			return
		}
		d.visit(x, up, own)
	default:
		d.visit(x, up, own)
	}
}

func (d *dependencies) structLit(x *StructLit, up *literals, around, own []*dependent) {
	up = &literals{up, x}
	for _, f := range x.Fields {
		d.field(f, up, around)
	}
	for _, f := range x.Dynamic {
		d.visit(f.Name, up, own)
		d.value(f.Value, up, around, around)
	}
	for _, p := range x.Patterns {
		d.visit(p.Name, up, own)
	}
	for _, e := range x.Embeds {
		d.value(e, up, around, own)
	}
	for _, c := range x.Comprehensions {
		inner := d.clauses(c, up, own)
		d.value(c.Body, inner, around, own)
	}
}

// clauses visits those of a comprehension, and returns the scope of its body.
func (d *dependencies) clauses(c *Comprehension, up *literals, own []*dependent) *literals {
	for _, clause := range c.Clauses {
		d.visit(clause.X, up, own)
		if clause.Kind != token.IF {
			up = &literals{up: up}
		}
	}
	return up
}

// visit notes the references in an expression for the fields that need its value.
func (d *dependencies) visit(x Expr, up *literals, around []*dependent) {
	switch x := x.(type) {
	case *StructLit:
		d.structLit(x, up, around, around)
	case *Comprehension:
		inner := d.clauses(x, up, around)
		d.visit(x.Body, inner, around)
	case *Reference:
		note(around, x.pos, x.Text, targets(x, up))
	case *PackageReference:
		note(around, x.pos, x.Text, targets(x, up))
	case *LetReference:
		if d.of[x.Let] == nil {
			d.visit(x.Let.Value, up.out(x.Up), []*dependent{d.add(x.Let)})
		}
		note(around, x.pos, x.Let.Name, []Expr{x.Let})
	case *Selector:
		switch origin(x).(type) {
		case *Reference, *PackageReference:
			note(around, x.pos, x.Text, targets(x, up))
		default:
			d.visit(x.X, up, around)
		}
	default:
		for _, part := range partsOf(x) {
			d.visit(part, up, around)
		}
	}
}

// out returns the scope that is some further out.
func (l *literals) out(levels int) *literals {
	for ; levels > 0; levels-- {
		l = l.up
	}
	return l
}

func note(around []*dependent, at token.Pos, text string, to []Expr) {
	for _, n := range around {
		n.references = append(n.references, dependency{at: at, text: text, to: to})
	}
}

// targets returns the fields that a reference names; none if names do not tell it.
func targets(x Expr, up *literals) (fields []Expr) {
	switch x := x.(type) {
	case *Reference:
		return up.out(x.Up).named(x.Name)
	case *PackageReference:
		return x.Package.top.named(x.Name)
	case *Selector:
		for _, f := range targets(x.X, up) {
			for _, literal := range unified(f.(*Field).Value) {
				fields = append(fields, literal.named(x.Name)...)
			}
		}
	}
	return fields
}

// origin returns what a selector selects from.
func origin(x Expr) Expr {
	for {
		s, ok := x.(*Selector)
		if !ok {
			return x
		}
		x = s.X
	}
}

// named returns the fields of a literal with a name.
func (s *StructLit) named(name string) (fields []Expr) {
	for _, f := range s.byName[name] {
		fields = append(fields, f)
	}
	return fields
}

// unified returns the literals among the operands of &.
func unified(x Expr) []*StructLit {
	switch x := x.(type) {
	case *StructLit:
		return []*StructLit{x}
	case *Binary:
		if x.Op == token.AND {
			return append(unified(x.X), unified(x.Y)...)
		}
	}
	return nil
}

// partsOf returns the expressions in one that is neither a name nor a struct.
func partsOf(x Expr) []Expr {
	switch x := x.(type) {
	case *Index:
		return []Expr{x.X, x.Index}
	case *Slice:
		return []Expr{x.X, x.Low, x.High}
	case *Call:
		return x.Args
	case *Unary:
		return []Expr{x.X}
	case *Binary:
		return []Expr{x.X, x.Y}
	case *Disjunction:
		parts := make([]Expr, len(x.Alternatives))
		for i, a := range x.Alternatives {
			parts[i] = a.X
		}
		return parts
	case *Interpolation:
		return x.Parts
	case *ListLit:
		return append(slices.Clip(x.Elements), x.Rest)
	}
	return nil
}
