package check

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Structure is a struct with the fields that its parts give it.
type Structure struct {
	Fields map[string]*Member
	Order  []string
	// literals are the struct literals that it consists of.
	literals []*ast.StructLit
	// dynamic are fields with computed names, and patterns.
	dynamic []dynamicField
	// others are parts that are no struct literals.
	others []Part
	// open means that there may be more fields.
	open bool
	// isStruct means that there is a struct literal.
	isStruct bool
}

// mayHaveMore reports whether it may have fields that are not known.
func (s *Structure) mayHaveMore() bool { return len(s.others) > 0 || len(s.dynamic) > 0 }

// dynamicField is a field whose name is computed.
type dynamicField struct {
	label ast.Label
	value Part
}

// Member is a field of a structure.
type Member struct {
	Parts []Part
	// Node is the place of its name, the author's if it is in a library as well.
	Node    ast.Node
	library bool
	// certain means that it exists whatever the object is.
	certain bool
	// Constraint means that it is only described.
	Constraint bool
}

// Gather collects the fields of a struct from all that it consists of. The clauses of
// comprehensions are checked on the way.
func (c *Checker) Gather(parts []Part) *Structure {
	s := &Structure{Fields: make(map[string]*Member)}
	for _, p := range parts {
		c.collect(s, p)
	}
	return s
}

func (c *Checker) collect(s *Structure, p Part) {
	if c.exhausted() {
		s.open = true
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	switch e := p.expr.(type) {
	case *ast.ParenExpr:
		c.collect(s, p.with(e.X))
		return
	case *ast.StructLit:
		c.collectLiteral(s, p, e)
		return
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			c.collect(s, p.with(e.X))
			c.collect(s, p.with(e.Y))
			return
		}
	case *ast.CallExpr: // validators of structs, close
		s.open = true
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "close" && len(e.Args) == 1 {
			c.collect(s, p.with(e.Args[0]))
			return
		}
	case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr:
		if c.following[e] {
			s.open = true
			return
		}
		c.following[e] = true
		defer delete(c.following, e)
		if v := c.infer(p); len(v.parts) > 0 && v.parts[0].expr != e {
			for _, inner := range v.parts {
				inner.conditional = inner.conditional || p.conditional
				inner.constraint = inner.constraint || p.constraint
				inner.beyond = inner.beyond || p.beyond
				inner.conditions = ifs(p.conditions, inner.conditions...)
				if inner.at == nil {
					inner.at = p.node()
				}
				c.collect(s, inner)
			}
			return
		}
	}
	s.others = append(s.others, p)
}

func (c *Checker) collectLiteral(s *Structure, p Part, literal *ast.StructLit) {
	onlyEmbeds := len(literal.Elts) > 0
	s.literals = append(s.literals, literal)
	for _, declaration := range literal.Elts {
		if _, isEmbed := declaration.(*ast.EmbedDecl); !isEmbed {
			onlyEmbeds = false
		}
		switch d := declaration.(type) {
		case *ast.Field:
			c.collectField(s, p, d)
		case *ast.EmbedDecl:
			c.collect(s, p.with(d.Expr))
		case *ast.Ellipsis:
			s.open = true
		case *ast.Comprehension:
			before := c.beyond
			c.within(p, d.Clauses, func(inner Part) { c.collect(s, inner.with(d.Value)) })
			if d.Fallback != nil {
				inner := p
				inner.conditional, inner.beyond = true, p.beyond || c.beyond > before
				c.collect(s, inner.with(d.Fallback.Body))
			}
		}
	}
	s.isStruct = s.isStruct || !onlyEmbeds
}

func (c *Checker) collectField(s *Structure, p Part, f *ast.Field) {
	label := f.Label
	if alias, ok := label.(*ast.Alias); ok {
		label, _ = alias.Expr.(ast.Label)
	}
	value := p.with(f.Value)
	if alias, ok := f.Value.(*ast.Alias); ok {
		value = p.with(alias.Expr)
	}
	value.constraint = p.constraint || f.Constraint == token.OPTION || f.Constraint == token.NOT
	name, _, err := ast.LabelName(label)
	if err != nil {
		if _, isPattern := label.(*ast.ListLit); !isPattern {
			s.dynamic = append(s.dynamic, dynamicField{label, value})
		}
		s.open = true
		return
	}
	if strings.HasPrefix(name, "#") || strings.HasPrefix(name, "_") {
		if _, isQuoted := label.(*ast.BasicLit); !isQuoted && c.Controller != nil {
			return // it is not part of the data; those of the controller itself are looked at alone
		}
	}
	m := s.Fields[name]
	if m == nil {
		m = &Member{Constraint: true}
		s.Fields[name] = m
		s.Order = append(s.Order, name)
	}
	library := place.IsLibrary(f.Pos().Filename())
	if m.Node == nil || m.library && !library || m.library == library && m.Constraint && !value.constraint {
		m.Node, m.library = Part{expr: labelExpr(label, f.Value), at: p.at}.node(), library
	}
	value.conditional = false // it is if its struct is
	m.Parts = append(m.Parts, value)
	m.certain = m.certain || !p.conditional && !value.constraint
	m.Constraint = m.Constraint && value.constraint
}

// labelExpr returns the place of a field's name.
func labelExpr(label ast.Label, value ast.Expr) ast.Expr {
	if e, ok := label.(ast.Expr); ok {
		return e
	}
	return value
}

// within checks the clauses of a comprehension, and calls do for what it yields.
func (c *Checker) within(p Part, clauses []ast.Clause, do func(Part)) {
	p.conditional = true
	before := c.beyond
	for _, clause := range clauses {
		switch clause := clause.(type) {
		case *ast.ForClause:
			key, item := c.elements(p.with(clause.Source))
			if clause.Key != nil {
				c.variables[clause.Key] = key
			}
			if clause.Value != nil {
				c.variables[clause.Value] = item
			}
		case *ast.IfClause:
			c.condition(p.with(clause.Condition))
			p.conditions = ifs(p.conditions, clause.Condition)
		case *ast.LetClause:
			c.variables[clause.Ident] = c.infer(p.with(clause.Expr))
		}
	}
	p.beyond = p.beyond || c.beyond > before
	do(p)
}

// isGuarded reports whether an if around mentions an expression, and so may make sure of it.
func (c *Checker) isGuarded(p Part, e ast.Expr) bool {
	text := syntax.SourceOf(e)
	return c.tolerant > 0 || slices.ContainsFunc(p.conditions, func(condition ast.Expr) bool {
		found := false
		ast.Walk(condition, func(n ast.Node) bool {
			if inner, ok := n.(ast.Expr); ok && syntax.SourceOf(inner) == text {
				found = true
			}
			return !found
		}, nil)
		return found
	})
}
