package behaviour

import (
	"slices"

	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/internal/parts"
)

// Reads returns which parts of the object, and of what is observed, any run can read; whatever has one of these names
// counts as it. The walk follows selections, lets and loops: what is used in another way is read as a whole.
func (p *Program) Reads() (object, observed *parts.Set) {
	r := &readers{object: &parts.Set{}, observed: &parts.Set{}, seen: make(map[Expr]bool),
		resolving: make(map[*Let]bool), roots: make(map[root]bool)}
	r.definition(p.pkg, p.name)
	return r.object, r.observed
}

// readers collects what is read.
type readers struct {
	object, observed *parts.Set
	seen             map[Expr]bool // fields at the top of a package, and lets
	resolving        map[*Let]bool
	roots            map[root]bool // definitions that are unified with the one that is run
}

// names are the scopes of an expression: a struct, a clause, or the name in a pattern.
type names struct {
	up      *names
	element *parts.Set // that the variable of a clause is; nil for anything else
}

func (n *names) out(levels int) *names {
	for ; levels > 0; levels-- {
		n = n.up
	}
	return n
}

// definition visits a definition that is unified with the one that is run.
func (r *readers) definition(pkg *Package, name string) {
	if r.roots[root{pkg, name}] {
		return
	}
	r.roots[root{pkg, name}] = true
	for _, f := range pkg.top.byName[name] {
		r.unified(f.Value, nil)
	}
}

// unified visits what is unified with the definition that is run.
func (r *readers) unified(x Expr, up *names) {
	switch x := x.(type) {
	case *PackageReference:
		r.definition(x.Package, x.Name)
	case *Binary:
		if x.Op == token.AND {
			r.unified(x.X, up)
			r.unified(x.Y, up)
			return
		}
		r.visit(x, up)
	case *StructLit:
		r.structLit(x, up, r.unified)
	default:
		r.visit(x, up)
	}
}

// visit finds what is read by an expression.
func (r *readers) visit(x Expr, up *names) {
	if read := r.resolve(x, up); read != nil {
		read.Whole = true
		return
	}
	switch x := x.(type) {
	case *StructLit:
		r.structLit(x, up, r.visit)
		return
	case *Comprehension:
		r.comprehension(x, up)
		return
	case *PackageReference:
		r.all(r.mayBeRun(x))
		for _, f := range x.Package.top.byName[x.Name] {
			r.once(f, f.Value, nil)
		}
		return
	case *LetReference:
		r.once(x.Let, x.Let.Value, up.out(x.Up))
		return
	case *Self:
		r.all(true)
		return
	case *Selector:
		if !r.mayBeRun(x.X) {
			r.visit(x.X, up)
		}
		return
	case *Index:
		if _, isLiteral := x.Index.(*Literal); isLiteral && r.mayBeRun(x.X) {
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

// once visits the value of a field or a let that several expressions can refer to.
func (r *readers) once(of, value Expr, up *names) {
	if !r.seen[of] {
		r.seen[of] = true
		r.visit(value, up)
	}
}

// all notes that everything is read, if so.
func (r *readers) all(isRead bool) {
	r.object.Whole, r.observed.Whole = r.object.Whole || isRead, r.observed.Whole || isRead
}

// mayBeRun reports whether an expression can be the definition that is run, so that it has the object. Its other fields
// are visited in any case.
func (r *readers) mayBeRun(x Expr) bool {
	switch x := x.(type) {
	case *PackageReference:
		return r.roots[root{x.Package, x.Name}]
	case *Self: // what it stands for may be embedded
		return true
	}
	return false
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

// named returns what has a name; nil if it is neither the object nor what is observed.
func (r *readers) named(name string) *parts.Set {
	switch name {
	case ObjectName:
		return r.object
	case ObservedName:
		return r.observed
	}
	return nil
}

// part returns what resolve does, without the object itself and all that is observed.
func (r *readers) part(x Expr, up *names) *parts.Set {
	if read := r.resolve(x, up); read != r.object && read != r.observed {
		return read
	}
	return nil
}

// resolve returns the part of the object, or of what is observed, that an expression is; nil if it is something else.
func (r *readers) resolve(x Expr, up *names) *parts.Set {
	switch x := x.(type) {
	case *Reference:
		return r.named(x.Name)
	case *PackageReference:
		return r.named(x.Name)
	case *Variable:
		if !x.IsKey {
			return up.out(x.Up).element
		}
	case *LetReference:
		if !r.resolving[x.Let] {
			r.resolving[x.Let] = true
			defer delete(r.resolving, x.Let)
			return r.resolve(x.Let.Value, up.out(x.Up))
		}
	case *Selector:
		if of := r.resolve(x.X, up); of != nil {
			return of.Field(shown(x.Name))
		}
		return r.named(x.Name)
	case *Index:
		literal, ok := x.Index.(*Literal)
		if !ok {
			return nil
		}
		of := r.resolve(x.X, up)
		name, isName := literal.Value.(string)
		switch {
		case isName && of == nil: // as in self["observed"]
			return r.named(name)
		case isName:
			return of.Field(name)
		case of != nil:
			return of.Element()
		}
	}
	return nil
}

// structLit visits a struct, and what it embeds as it is visited itself.
func (r *readers) structLit(x *StructLit, up *names, embedded func(Expr, *names)) {
	in := &names{up: up}
	for _, f := range x.Fields {
		if f.Name == ObservedName {
			r.declared(f.Value, r.observed)
		}
		r.visit(f.Value, in)
	}
	for _, f := range x.Dynamic {
		r.visit(f.Name, in)
		r.visit(f.Value, in)
	}
	for _, p := range x.Patterns {
		r.visit(p.Name, in)
		within := in
		if p.HasAlias {
			within = &names{up: in}
		}
		r.visit(p.Value, within)
	}
	for _, e := range x.Embeds {
		embedded(e, in)
	}
	for _, c := range x.Comprehensions {
		r.comprehension(c, in)
	}
}

// comprehension visits a comprehension. The variable of a loop over a part is each of its elements.
func (r *readers) comprehension(x *Comprehension, up *names) {
	for _, clause := range x.Clauses {
		element := r.resolve(clause.X, up)
		if clause.Kind == token.FOR && element != nil && element != r.object {
			element = element.Element()
		} else if clause.Kind != token.LET || element == nil {
			element = nil
			r.visit(clause.X, up)
		}
		if clause.Kind != token.IF {
			up = &names{up: up, element: element}
		}
	}
	r.visit(x.Body, up)
}

// declared notes the fields in a declaration of the children, which are compared with it.
func (r *readers) declared(x Expr, read *parts.Set) {
	switch x := x.(type) {
	case *Type:
		if x.Kinds == Any {
			return
		}
	case *Binary:
		if x.Op == token.AND {
			r.declared(x.X, read)
			r.declared(x.Y, read)
			return
		}
	case *ListLit:
		if len(x.Elements) == 0 && x.Rest != nil {
			r.declared(x.Rest, read.Element())
			return
		}
	case *StructLit:
		isKnown := len(x.Dynamic)+len(x.Embeds)+len(x.Comprehensions) == 0
		isAny := func(p *Pattern) bool { t, ok := p.Value.(*Type); return ok && t.Kinds == Any }
		if isKnown && !slices.ContainsFunc(x.Patterns, func(p *Pattern) bool { return !isAny(p) }) {
			for _, f := range x.Fields {
				if t, ok := f.Value.(*Type); !ok || t.Kinds != Any {
					r.declared(f.Value, read.Field(shown(f.Name)))
				}
			}
			return
		}
	}
	read.Whole = true
}
