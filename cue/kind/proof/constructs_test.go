package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// constructs counts how often kinds have each construct, at each of the positions.
type constructs map[string]map[string]int

// positionsOfConstructs are where an expression can be in a kind.
var positionsOfConstructs = []string{"schema", "definition", "hidden", "let", "around", "template", "when", "ready", "replicas", "update", "next", "conditions", "status", "deadline", "reads", "inject"}

// add counts the constructs of a kind.
func (c constructs) add(t *testing.T, source string) {
	file, err := parser.ParseFile("kind.cue", source)
	if err != nil {
		t.Error(err)
		return
	}
	for _, decl := range file.Decls {
		c.walk(decl, "definition", "")
	}
}

// positionOfField returns the position of what a field holds, which is in a field of another position.
func positionOfField(f *ast.Field, within, construct string) string {
	name, _, err := ast.LabelName(f.Label)
	switch {
	case err != nil || construct != "":
		return within
	case name == "#K":
		return "schema"
	case name == "#KController", name == "children", name == "phases":
		return "around"
	case within == "around" && strings.HasPrefix(name, "_"):
		return "hidden"
	case within == "around" && strings.HasPrefix(name, "#"):
		return "definition"
	case within == "around" && slices.Contains(positionsOfConstructs, name):
		return name
	}
	return within
}

// walk counts what is at a position; construct is what holds it in an expression.
func (c constructs) walk(node ast.Node, position, construct string) {
	note := func(name string) {
		if c[name] == nil {
			c[name] = make(map[string]int)
		}
		c[name][position]++
	}
	ast.Walk(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			note("field" + map[token.Token]string{token.OPTION: "?", token.NOT: "!"}[n.Constraint])
			switch label := n.Label.(type) {
			case *ast.ListLit:
				note("pattern")
			case *ast.Alias:
				note("alias")
			case *ast.ParenExpr, *ast.Interpolation:
				note("computed name")
				c.walk(label, position, "name")
			}
			c.walk(n.Value, positionOfField(n, position, construct), construct)
			return false
		case *ast.LetClause:
			note("let")
			if position == "around" && construct == "" {
				c.walk(n.Expr, "let", construct)
				return false
			}
		case *ast.EmbedDecl:
			note("embedding")
		case *ast.ForClause:
			note("for")
		case *ast.IfClause:
			note("if")
		case *ast.UnaryExpr:
			note(n.Op.String() + "x")
		case *ast.BinaryExpr:
			note("x " + n.Op.String() + " y")
		case *ast.CallExpr:
			note(syntax.SourceOf(n.Fun) + "()")
		case *ast.Interpolation:
			note("interpolation")
		case *ast.IndexExpr:
			note("x[i]")
		case *ast.SliceExpr:
			note("x[i:j]")
		case *ast.SelectorExpr:
			note("x.y")
		case *ast.ListLit:
			note("list")
		case *ast.StructLit:
			note("struct")
		case *ast.BottomLit:
			note("_|_")
		}
		return true
	}, nil)
}

// String is a table of the constructs, by position.
func (c constructs) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-36s", "")
	for _, position := range positionsOfConstructs {
		fmt.Fprintf(&b, "%11s", position)
	}
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "\n%-36s", name)
		for _, position := range positionsOfConstructs {
			fmt.Fprintf(&b, "%11d", c[name][position])
		}
	}
	return b.String()
}
