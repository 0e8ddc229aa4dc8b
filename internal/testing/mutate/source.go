// Package mutate breaks Go packages in many ways, one at a time, to ask whether their tests notice it.
package mutate

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Mutant is a mistake in the source of a package. A copy of the source holds all of them: each is switched on by its
// number.
type Mutant struct {
	Number int
	File   string
	Line   int
	// Name is that of the function, and the code; Change is what is done to it.
	Name, Change string
}

// Text says what the mistake is. It has no line, so that it stays the same when the source around it changes.
func (m Mutant) Text() string { return m.Name + " | " + m.Change }

// Source makes the mutants of some files.
type Source struct {
	// Skip are functions that are not mutated, Unseen statements that are not, and Messages functions whose arguments
	// are not: what is compared does not depend on them. All are regular expressions for the whole name, or for the
	// beginning of a statement.
	Skip, Unseen, Messages *regexp.Regexp

	Mutants []Mutant
}

// pure is an operand that can be evaluated twice.
var pure = regexp.MustCompile(`^[\w.\[\]\-]+$|^(len|int64|cap)\([\w.\[\]]+\)$|^(compareNumbers|cmp)\(\w+, [\w.()]+\)$`)

// edit is a text to insert.
type edit struct {
	at, order int
	text      string
}

// mutator makes the copy of one file.
type mutator struct {
	file     string
	source   []byte
	set      *token.FileSet
	function string
	of       *Source
	edits    []edit
	// closed are expressions that are mutated already, or negated by the operator before them.
	closed map[ast.Expr]bool
	same   map[string]int // how many mutants have a text
}

// File returns a copy of a file with all its mutants, which are added to those of other files.
func (s *Source) File(file string) ([]byte, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	m := &mutator{file: file, source: source, set: set, of: s, closed: make(map[ast.Expr]bool),
		same: make(map[string]int)}
	for _, decl := range parsed.Decls {
		m.decl(decl)
	}
	slices.SortStableFunc(m.edits, func(a, b edit) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.order - b.order
	})
	var b bytes.Buffer
	last := 0
	for _, e := range m.edits {
		b.Write(source[last:e.at])
		b.WriteString(e.text)
		last = e.at
	}
	b.Write(source[last:])
	return b.Bytes(), nil
}

func (m *mutator) decl(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		m.walk(decl.Name.Name, decl.Body)
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
				for i, value := range v.Values {
					m.walk(v.Names[min(i, len(v.Names)-1)].Name, value)
				}
			}
		}
	}
}

// walk mutates what is in a function, or in the value of a variable, that has a name.
func (m *mutator) walk(name string, node ast.Node) {
	if m.of.Skip.MatchString(name) {
		return
	}
	m.function = name
	ast.Inspect(node, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt:
			m.condition(node.Cond)
		case *ast.ForStmt:
			if node.Cond != nil {
				m.condition(node.Cond)
			}
		case *ast.SwitchStmt:
			if node.Tag == nil {
				for _, c := range node.Body.List {
					for _, x := range c.(*ast.CaseClause).List {
						m.condition(x)
					}
				}
			}
		case *ast.AssignStmt:
			return !m.of.Unseen.MatchString(m.text(node))
		case *ast.BlockStmt:
			m.statements(node.List)
		case *ast.CaseClause:
			m.statements(node.Body)
		case *ast.CallExpr:
			return !m.of.Messages.MatchString(m.text(node.Fun))
		case ast.Expr:
			if isBoolean(node) {
				m.condition(node)
			}
		}
		return true
	})
}

// isBoolean reports whether an expression is a boolean, whatever the types of its parts.
func isBoolean(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BinaryExpr:
		switch x.Op {
		case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		}
	case *ast.UnaryExpr:
		return x.Op == token.NOT
	case *ast.Ident:
		return x.Name == "true" || x.Name == "false"
	}
	return false
}

// condition negates an expression, and changes its operator.
func (m *mutator) condition(x ast.Expr) {
	if paren, ok := x.(*ast.ParenExpr); ok {
		m.condition(paren.X)
		return
	}
	if m.closed[x] {
		return
	}
	m.closed[x] = true
	m.wrap(x, "((", ") != mutated(%d))", "negated")
	if not, ok := x.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		x = ast.Unparen(not.X)
		m.closed[x] = true // it is negated with the whole
	}
	if binary, ok := x.(*ast.BinaryExpr); ok {
		m.operands(binary)
	}
}

func (m *mutator) operands(x *ast.BinaryExpr) {
	switch x.Op {
	case token.LAND, token.LOR:
		for _, operand := range []ast.Expr{x.X, x.Y} {
			after := " || mutated(%d))"
			if x.Op == token.LOR {
				after = " && !mutated(%d))"
			}
			m.wrap(operand, "(", after, "left out of "+m.text(x))
			m.condition(operand)
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		a, b := m.text(x.X), m.text(x.Y)
		if !pure.MatchString(a) || !pure.MatchString(b) {
			return
		}
		if x.Op == token.LSS || x.Op == token.GTR {
			m.wrap(x, "(", fmt.Sprintf(" || mutated(%%d) && %s == %s)", a, b), "also if equal")
			return
		}
		m.wrap(x, "(", fmt.Sprintf(" && !(mutated(%%d) && %s == %s))", a, b), "not if equal")
	}
}

// statements leaves out statements.
func (m *mutator) statements(list []ast.Stmt) {
	for _, statement := range list {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt:
		case *ast.BranchStmt:
			if s.Label != nil || s.Tok == token.FALLTHROUGH {
				continue
			}
		default:
			continue
		}
		if !m.of.Unseen.MatchString(m.text(statement)) {
			m.wrap(statement, "if !mutated(%d) { ", " }", "left out")
		}
	}
}

// wrap inserts texts around a node for one more mutant. %d is its number.
func (m *mutator) wrap(node ast.Node, before, after, change string) {
	number := len(m.of.Mutants) + 1
	insert := func(at token.Pos, order int, text string) {
		if strings.Contains(text, "%d") {
			text = fmt.Sprintf(text, number)
		}
		m.edits = append(m.edits, edit{m.set.Position(at).Offset, order, text})
	}
	insert(node.Pos(), number, before)
	insert(node.End(), -number, after)
	made := Mutant{number, m.file, m.set.Position(node.Pos()).Line, m.function + " | " + m.text(node), change}
	m.same[made.Text()]++
	if same := m.same[made.Text()]; same > 1 {
		made.Change += fmt.Sprintf(" #%d", same)
	}
	m.of.Mutants = append(m.of.Mutants, made)
}

// text is the code of a node in one line.
func (m *mutator) text(node ast.Node) string {
	code := m.source[m.set.Position(node.Pos()).Offset:m.set.Position(node.End()).Offset]
	first, _, isLong := strings.Cut(strings.Join(strings.Fields(string(code)), " "), "{ ")
	if isLong {
		first += "{…"
	}
	return first
}
