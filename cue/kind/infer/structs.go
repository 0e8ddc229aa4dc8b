package infer

import (
	"cmp"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Structure is a struct with the fields that its parts give it.
type Structure struct {
	reader *Reader
	Fields map[string]*Member
	Order  []string
	// Literals are the struct literals that it consists of.
	Literals []*ast.StructLit
	// Dynamic are fields with computed names, and patterns.
	Dynamic []DynamicField
	// Others are parts that are no struct literals.
	Others []Part
	// Open means that there may be more fields.
	Open bool
	// IsStruct means that there is a struct literal.
	IsStruct bool
	// Referred means that some of it is written elsewhere. What that refers to in turn may be more than is known: that
	// depends on what it is unified with here.
	Referred bool
}

// MayHaveMore reports whether it may have fields that are not known.
func (s *Structure) MayHaveMore() bool { return len(s.Others) > 0 || len(s.Dynamic) > 0 }

// IsOpen reports whether a structure may have fields that are not known.
func (s *Structure) IsOpen() bool { return s.Open || s.MayHaveMore() }

// DynamicField is a field whose name is computed.
type DynamicField struct {
	Label ast.Label
	Value Part
}

// Member is a field of a structure.
type Member struct {
	Parts []Part
	// Node is the place of its name, the author's if it is in a library as well.
	Node    ast.Node
	library bool
	// Certain means that it exists whatever the object is.
	Certain bool
	// Constraint means that it is only described.
	Constraint bool
}

// Together returns the parts of a field for when it exists. What is in an if that is not around all of them is
// conditional.
func (m *Member) Together() []Part {
	parts := slices.Clone(m.Parts)
	if len(parts) == 1 {
		return parts
	}
	around := make(map[string]int) // how many parts require it
	for _, p := range parts {
		for _, source := range p.requires() {
			around[source]++
		}
	}
	for i, p := range parts {
		isApart := func(source string) bool { return around[source] < len(parts) }
		parts[i].Conditional = p.Conditional || slices.ContainsFunc(p.requires(), isApart)
	}
	return parts
}

// Gather collects the fields of a struct from all that it consists of. The clauses of
// comprehensions are checked on the way.
func (r *Reader) Gather(parts []Part) *Structure {
	g := gathering{Reader: r, to: &Structure{reader: r, Fields: make(map[string]*Member)}}
	for _, p := range parts {
		g.collect(p)
	}
	for _, m := range g.to.Fields {
		for i := range m.Parts {
			m.Parts[i].Partial = m.Parts[i].Partial || g.patterned
		}
	}
	return g.to
}

// gathering collects the fields of one structure.
type gathering struct {
	*Reader
	to *Structure
	// patterned means that a pattern of the author may add to each field.
	patterned bool
}

func (g *gathering) collect(p Part) {
	if !g.Enter() {
		g.to.Open = true
		return
	}
	defer g.Leave()
	switch e := p.Expr.(type) {
	case *ast.ParenExpr:
		g.collect(p.With(e.X))
		return
	case *ast.StructLit:
		g.collectLiteral(p, e)
		return
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			g.collect(p.With(e.X))
			g.collect(p.With(e.Y))
			return
		}
	case *ast.CallExpr: // validators of structs, close
		g.to.Open, g.to.Referred = true, true
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "close" && len(e.Args) == 1 {
			g.collect(p.With(e.Args[0]))
			return
		}
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		g.to.Referred = true
		if g.following[e] {
			g.to.Open = true
			return
		}
		g.following[e] = true
		defer delete(g.following, e)
		if v := g.Infer(p); len(v.Parts) > 0 && v.Parts[0].Expr != e {
			for _, inner := range v.Parts {
				inner.Conditional = inner.Conditional || p.Conditional
				inner.Constraint = inner.Constraint || p.Constraint
				inner.Beyond = inner.Beyond || p.Beyond
				inner = inner.within(p)
				if inner.At == nil {
					inner.At = p.Node()
				}
				g.collect(inner)
			}
			return
		}
	}
	g.to.Others = append(g.to.Others, p)
}

func (g *gathering) collectLiteral(p Part, literal *ast.StructLit) {
	onlyEmbeds := len(literal.Elts) > 0
	g.to.Literals = append(g.to.Literals, literal)
	for _, declaration := range literal.Elts {
		if _, isEmbed := declaration.(*ast.EmbedDecl); !isEmbed {
			onlyEmbeds = false
		}
		switch d := declaration.(type) {
		case *ast.Field:
			g.collectField(p, d)
		case *ast.EmbedDecl:
			g.collect(p.With(d.Expr))
		case *ast.Ellipsis:
			g.to.Open = true
		case *ast.Comprehension:
			before := g.Beyond
			g.within(p, d.Clauses, func(inner Part) { g.collect(inner.With(d.Value)) })
			if d.Fallback != nil {
				inner := p
				inner.Conditional, inner.Beyond = true, p.Beyond || g.Beyond > before
				g.collect(inner.With(d.Fallback.Body))
			}
		}
	}
	g.to.IsStruct = g.to.IsStruct || !onlyEmbeds
}

func (g *gathering) collectField(p Part, f *ast.Field) {
	label := f.Label
	if alias, ok := label.(*ast.Alias); ok {
		label, _ = alias.Expr.(ast.Label)
	}
	value := p.With(f.Value)
	if alias, ok := f.Value.(*ast.Alias); ok {
		value = p.With(alias.Expr)
	}
	value.Constraint = p.Constraint || f.Constraint == token.OPTION || f.Constraint == token.NOT
	name, _, err := ast.LabelName(label)
	if err != nil {
		if _, isPattern := label.(*ast.ListLit); !isPattern {
			g.to.Dynamic = append(g.to.Dynamic, DynamicField{label, value})
		} else if !p.Constraint && !place.IsLibrary(f.Pos().Filename()) {
			g.patterned = true
		}
		g.to.Open = true
		return
	}
	if strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") {
		if _, isQuoted := label.(*ast.BasicLit); !isQuoted && g.Definition != nil {
			return // it is not part of the data; those of the definition itself are looked at alone
		}
	}
	m := g.to.Fields[name]
	if m == nil {
		m = &Member{Constraint: true}
		g.to.Fields[name] = m
		g.to.Order = append(g.to.Order, name)
	}
	library := place.IsLibrary(f.Pos().Filename())
	if m.Node == nil || m.library && !library || m.library == library && m.Constraint && !value.Constraint {
		m.Node, m.library = Part{Expr: labelExpr(label, f.Value), At: p.At}.Node(), library
	}
	value.Conditional = false // it is if its struct is
	m.Parts = append(m.Parts, value)
	m.Certain = m.Certain || !p.Conditional && !value.Constraint
	m.Constraint = m.Constraint && value.Constraint
}

// labelExpr returns the place of a field's name.
func labelExpr(label ast.Label, value ast.Expr) ast.Expr {
	if e, ok := label.(ast.Expr); ok {
		return e
	}
	return value
}

// within checks the clauses of a comprehension, and calls do for what it yields.
func (r *Reader) within(p Part, clauses []ast.Clause, do func(Part)) {
	p.Conditional = true
	before := r.Beyond
	for _, clause := range clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			key, item := r.elements(p.With(clause.Source), clause.Key == nil)
			if clause.Key != nil {
				r.variables[clause.Key] = key
			}
			if clause.Value != nil {
				r.variables[clause.Value] = item
			}
			p.Loops = ifs(p.Loops, clause.Source)
		case *ast.IfClause:
			r.Condition(p.With(clause.Condition))
			p.Conditions = ifs(p.Conditions, clause.Condition)
		case *ast.LetClause:
			r.variables[clause.Ident] = r.Infer(p.With(clause.Expr))
		}
	}
	p.Beyond = p.Beyond || r.Beyond > before
	do(p)
}

// Label checks a computed name.
func (r *Reader) Label(d DynamicField) {
	if e, ok := d.Label.(*ast.ParenExpr); ok {
		p := d.Value.With(e.X)
		r.must(p, r.Infer(p), types.String, "the name of a field")
		return
	}
	if e, ok := d.Label.(ast.Expr); ok {
		r.Infer(d.Value.With(e))
	}
}

// Report adds a mistake at a place.
func (s *Structure) Report(check mistake.Check, at ast.Node, format string, args ...any) {
	s.reader.Report(check, at, format, args...)
}

// Text returns a field that is the same text for all objects.
func (s *Structure) Text(name string) (string, bool) {
	text, ok := s.Literal(name).(string)
	return text, ok
}

// Literal returns the value of a field that is the same for all objects: a string, an int64, a float64 or a bool; nil
// for any other.
func (s *Structure) Literal(name string) (value any) {
	m := s.Fields[name]
	if m == nil {
		return nil
	}
	for _, p := range m.Parts {
		literal := s.reader.Resolved(p).Literal
		if value != nil && literal != nil && literal != value {
			return nil // each in an if of its own
		}
		value = cmp.Or(value, literal)
	}
	return value
}

// Within gathers the fields of a part of the structure.
func (s *Structure) Within(parts []Part) *Structure {
	inner := s.reader.Gather(parts)
	inner.Referred = inner.Referred || s.Referred || len(s.Others) > 0
	return inner
}

// Has reports whether it has a field whatever the object is; null is none.
func (s *Structure) Has(name string) bool {
	m := s.Fields[name]
	return m != nil && m.Certain && s.reader.Unified(slices.Clone(m.Parts)).Kinds()&types.Null == 0
}

// OnlyText returns a field that is the same text for all objects, whichever ifs hold.
func (s *Structure) OnlyText(name string) (text string, ok bool) {
	m := s.Fields[name]
	if m == nil {
		return "", false
	}
	for i, p := range m.Parts {
		one, isText := s.reader.Infer(p).Literal.(string)
		if !isText || i > 0 && one != text {
			return "", false
		}
		text = one
	}
	return text, true
}

// In returns the field at a path as a structure, which is empty if there is none.
func (s *Structure) In(path ...string) *Structure {
	for _, name := range path {
		var parts []Part
		if m := s.Fields[name]; m != nil {
			parts = m.Together()
		}
		s = s.Within(parts)
	}
	return s
}

// Peek is In of one field, and reports nothing.
func (s *Structure) Peek(name string) (field *Structure) {
	s.reader.Quietly(func() { field = s.In(name) })
	return field
}

// ValueNode returns the place of the value of a field: of several parts that of the one that is known, else that of its
// name.
func (s *Structure) ValueNode(name string) ast.Node {
	m := s.Fields[name]
	for _, p := range m.Parts {
		if len(m.Parts) == 1 || s.reader.Resolved(p).Literal != nil {
			return p.Node()
		}
	}
	return m.Node
}

// Source returns the source of a field, on one line; empty if there is none.
func (s *Structure) Source(name string) string {
	m := s.Fields[name]
	if m == nil {
		return ""
	}
	return syntax.SourceOf(m.Parts[0].Expr)
}
