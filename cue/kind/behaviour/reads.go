package behaviour

import (
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/internal/parts"
)

// Reads returns which parts of the object, and of what is observed, any run can read. The walk follows selections, lets
// and loops: what is used in another way is read as a whole.
func (p *Program) Reads() (object, observed *parts.Set) {
	r := &readers{object: &parts.Set{}, observed: &parts.Set{}, seen: make(map[seenIn]bool),
		unified: make(map[unifiedAs]bool), lets: make(map[seenIn]*parts.Set), embedded: make(map[string]bool)}
	r.definition(p.pkg, p.name, false)
	return r.object, r.observed
}

// readers collects what is read.
type readers struct {
	object, observed *parts.Set
	// seen are fields at the top of a package and lets, whose values are visited once, and unified the fields whose
	// values are unified with the definition that is run.
	seen    map[seenIn]bool
	unified map[unifiedAs]bool
	lets    map[seenIn]*parts.Set // what they stand for
	// runs are the structs that are unified with the definition that is run, and embedded the names of its fields that
	// one of them embeds, and whether that closes them: each struct may add to such a field.
	runs     []*readScope
	embedded map[string]bool
}

// seenIn is a field or a let of a struct: it may be visited as a part of what is declared of the given, and as none.
type seenIn struct {
	of Expr
	in *readScope
}

// unifiedAs is a field whose value is unified with the definition that is run, and whether that closes it.
type unifiedAs struct {
	field  Expr
	closes bool
}

// readScope is what an expression can name: a struct, a clause, or the name in a pattern.
type readScope struct {
	up *readScope
	// literal is a struct; nil for others. isRun means that it is unified with the definition that is run, and part is
	// what it declares of the object, or of what is observed; nil for others.
	literal *StructLit
	isRun   bool
	closes  bool // a definition closes what it declares
	part    *parts.Set
	// element is what the variable of a clause stands for.
	element *parts.Set
}

func (s *readScope) out(levels int) *readScope {
	for ; levels > 0; levels-- {
		s = s.up
	}
	return s
}

// definition visits a definition that is unified with the one that is run.
func (r *readers) definition(pkg *Package, name string, closes bool) {
	for _, f := range pkg.top.byName[name] {
		r.unify(f, f.Value, nil, closes)
	}
}

// unify visits the value of a field that is unified with the definition that is run.
func (r *readers) unify(field, x Expr, up *readScope, closes bool) {
	if key := (unifiedAs{field, closes}); !r.unified[key] {
		r.unified[key] = true
		r.run(x, up, closes)
	}
}

// run visits what is unified with the definition that is run. What it is may not be known: then anything may be read,
// since it can say what the object has to be.
func (r *readers) run(x Expr, up *readScope, isClosed bool) {
	isClosed = isClosed || closes(x)
	switch x := x.(type) {
	case *Type:
	case *PackageReference:
		r.definition(x.Package, x.Name, isClosed)
	case *Reference:
		if given := r.given(x.Name); given != nil {
			given.Whole = true
			return
		}
		if in := up.out(x.Up); !in.isRun {
			r.all(true)
			return
		}
		r.embedded[x.Name] = r.embedded[x.Name] || isClosed
		for _, in := range r.runs {
			for _, f := range in.literal.named(x.Name) {
				r.unify(f, f.(*Field).Value, in, isClosed)
			}
		}
	case *Binary:
		r.all(x.Op != token.AND)
		r.run(x.X, up, isClosed)
		r.run(x.Y, up, isClosed)
	case *StructLit:
		in := &readScope{up: up, literal: x, isRun: true, closes: isClosed}
		r.runs = append(r.runs, in)
		for _, f := range x.Fields {
			if closes, isEmbedded := r.embedded[f.Name]; isEmbedded {
				r.unify(f, f.Value, in, closes)
			}
		}
		r.structLit(x, in)
	default:
		r.all(true)
	}
}

// all notes that everything is read, if so.
func (r *readers) all(isRead bool) {
	r.object.Whole, r.observed.Whole = r.object.Whole || isRead, r.observed.Whole || isRead
}

// visit finds what is read by an expression.
func (r *readers) visit(x Expr, up *readScope) {
	if read := r.resolve(x, up); read != nil {
		read.Whole = true
		return
	}
	switch x := x.(type) {
	case *StructLit:
		r.structLit(x, &readScope{up: up, literal: x})
		return
	case *Comprehension:
		r.visit(x.Body, r.clauses(x, up))
		return
	case *PackageReference:
		for _, f := range x.Package.top.byName[x.Name] {
			r.once(f, f.Value, nil)
		}
		return
	case *LetReference:
		r.once(x.Let, x.Let.Value, up.out(x.Up))
		return
	case *Self:
		r.all(true) // it may be embedded in the definition that is run
		return
	case *Selector:
		r.selected(x.X, up)
		return
	case *Index:
		if _, isText := literalText(x.Index); isText {
			r.selected(x.X, up)
			return
		}
	case *Call:
		if x.Function == functions["len"] {
			if read := r.part(x.Args[0], up); read != nil {
				read.Element() // only the number is read
				return
			}
		}
	case *Binary:
		if tested := presenceTest(x); tested != nil && r.part(tested, up) != nil {
			return // nothing of it is read
		}
	}
	for _, part := range partsOf(x) {
		r.visit(part, up)
	}
}

// selected visits what a field is selected from. The fields of a struct are visited with it.
func (r *readers) selected(x Expr, up *readScope) {
	if _, isSelf := x.(*Self); !isSelf {
		r.visit(x, up)
	}
}

// once visits the value of a field or a let that several expressions can refer to.
func (r *readers) once(of, value Expr, up *readScope) {
	if key := (seenIn{of, up}); !r.seen[key] {
		r.seen[key] = true
		r.visit(value, up)
	}
}

// presenceTest returns the expression that a comparison with _|_ tests; nil for others.
func presenceTest(x *Binary) Expr {
	if x.Op != token.EQL && x.Op != token.NEQ {
		return nil
	}
	if _, ok := x.X.(*Bottom); ok {
		return x.Y
	}
	if _, ok := x.Y.(*Bottom); ok {
		return x.X
	}
	return nil
}

// given returns what is given under a name; nil if nothing is.
func (r *readers) given(name string) *parts.Set {
	switch name {
	case ObjectName:
		return r.object
	case ObservedName:
		return r.observed
	}
	return nil
}

// part returns what resolve does, without the object itself and all that is observed.
func (r *readers) part(x Expr, up *readScope) *parts.Set {
	if read := r.resolve(x, up); read != r.object && read != r.observed {
		return read
	}
	return nil
}

// resolve returns the part of the object, or of what is observed, that an expression is; nil if it is something else.
func (r *readers) resolve(x Expr, up *readScope) *parts.Set {
	switch x := x.(type) {
	case *Reference:
		if in := up.out(x.Up); in.part != nil {
			return in.part.Field(shown(x.Name))
		}
		return r.given(x.Name)
	case *Variable:
		if !x.IsKey {
			return up.out(x.Up).element
		}
	case *Self:
		return up.out(x.Up).part
	case *LetReference:
		key := seenIn{x.Let, up.out(x.Up)}
		stands, isKnown := r.lets[key]
		if !isKnown {
			r.lets[key] = nil // if it refers to itself
			stands = r.resolve(x.Let.Value, key.in)
			r.lets[key] = stands
		}
		return stands
	case *Selector:
		return r.field(x.X, shown(x.Name), up)
	case *Index:
		if name, isText := literalText(x.Index); isText {
			return r.field(x.X, name, up)
		}
		if of := r.resolve(x.X, up); of != nil {
			r.visit(x.Index, up)
			return of.Element() // whichever it is
		}
	case *Slice:
		if of := r.resolve(x.X, up); of != nil {
			r.visit(x.Low, up)
			r.visit(x.High, up)
			return of // its elements are some of those
		}
	}
	return nil
}

// literalText returns the text of a literal.
func literalText(x Expr) (text string, ok bool) {
	if literal, isLiteral := x.(*Literal); isLiteral {
		text, ok = literal.Value.(string)
	}
	return text, ok
}

// field resolves a field of what an expression is.
func (r *readers) field(x Expr, name string, up *readScope) *parts.Set {
	if of := r.resolve(x, up); of != nil {
		return of.Field(name)
	}
	if _, isSelf := x.(*Self); isSelf {
		return r.given(name) // it may be embedded in the definition that is run
	}
	return nil
}

// structLit visits what is in a struct. One that is unified with the definition that is run may say what the object has
// to be, or what is observed.
func (r *readers) structLit(x *StructLit, in *readScope) {
	for _, f := range x.Fields {
		if given := r.given(f.Name); in.isRun && given != nil {
			r.declared(f.Value, given, in, in.closes)
			continue
		}
		r.visit(f.Value, in)
	}
	r.all(in.isRun && len(x.Dynamic)+len(x.Patterns) > 0) // what they are for is not known
	r.computed(x, in)
	for _, e := range x.Embeds {
		if in.isRun {
			r.run(e, in, in.closes)
			continue
		}
		r.visit(e, in)
	}
	for _, c := range x.Comprehensions {
		if within := r.clauses(c, in); in.isRun {
			r.run(c.Body, within, in.closes)
		} else {
			r.visit(c.Body, within)
		}
	}
}

// computed visits the fields of a struct whose names are computed, and its patterns.
func (r *readers) computed(x *StructLit, in *readScope) {
	for _, f := range x.Dynamic {
		r.visit(f.Name, in)
		r.visit(f.Value, in)
	}
	for _, p := range x.Patterns {
		r.visit(p.Name, in)
		within := in
		if p.HasAlias {
			within = &readScope{up: in}
		}
		r.visit(p.Value, within)
	}
}

// clauses visits those of a comprehension, and returns the scope of its body. The variable of a loop over a part is
// each of its elements.
func (r *readers) clauses(x *Comprehension, up *readScope) *readScope {
	for _, clause := range x.Clauses {
		element := r.resolve(clause.X, up)
		if clause.Kind == token.FOR && element != nil && element != r.object {
			element = element.Element()
		} else if clause.Kind != token.LET || element == nil {
			element = nil
			r.visit(clause.X, up)
		}
		if clause.Kind != token.IF {
			up = &readScope{up: up, element: element}
		}
	}
	return up
}

// declared visits a declaration of a part, which the part is compared with: its fields are read.
func (r *readers) declared(x Expr, part *parts.Set, up *readScope, isClosed bool) {
	switch x := x.(type) {
	case *Binary:
		if x.Op == token.AND {
			r.declared(x.X, part, up, isClosed)
			r.declared(x.Y, part, up, isClosed)
			return
		}
	case *ListLit:
		if len(x.Elements) == 0 && x.Rest != nil {
			if !isAny(x.Rest) {
				r.declared(x.Rest, part.Element(), up, isClosed)
			}
			return
		}
	case *StructLit:
		in := &readScope{up: up, literal: x, part: part}
		if isClosed && !x.IsOpen {
			part.Element() // it has no other fields
		}
		for _, f := range x.Fields {
			if !isAny(f.Value) {
				r.declared(f.Value, part.Field(shown(f.Name)), in, isClosed)
			}
		}
		part.Whole = part.Whole || len(x.Dynamic)+len(x.Embeds)+len(x.Comprehensions) > 0
		for _, p := range x.Patterns {
			part.Whole = part.Whole || !isAny(p.Value)
		}
		r.computed(x, in)
		for _, e := range x.Embeds {
			r.visit(e, in)
		}
		for _, c := range x.Comprehensions {
			r.visit(c, in)
		}
		return
	}
	part.Whole = part.Whole || !isAny(x)
	r.visit(x, up)
}

// isAny reports whether an expression is _, which any value fits.
func isAny(x Expr) bool {
	t, ok := x.(*Type)
	return ok && t.Kinds == Any
}
