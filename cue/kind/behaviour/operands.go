package behaviour

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// SeparateOperands changes files so that CUE evaluates each operand to the end before it uses it, as its specification says:
// x becomes [x][0]. CUE v0.17.1 goes on with an operand that is a disjunction or a unification without a value: an if takes it
// for false, an interpolation for an empty text, and a slice for no bound. It does not look into what and() returns, and a loop
// over what list.FlattenN returns does not find elements that are disjunctions. The function that is returned undoes the
// changes.
func SeparateOperands(files []*ast.File) (undo func()) {
	s := &separator{}
	for _, file := range files {
		ast.Walk(file, s.visit, nil)
	}
	return func() {
		for _, undo := range slices.Backward(s.undos) {
			undo()
		}
	}
}

// separator changes operands, and notes how to undo that.
type separator struct{ undos []func() }

func (s *separator) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.IfClause:
		s.used(&node.Condition)
	case *ast.Interpolation:
		for i := 1; i < len(node.Elts); i += 2 {
			s.used(&node.Elts[i])
		}
	case *ast.SliceExpr:
		s.operand(&node.X)
		s.used(&node.Low)
		s.used(&node.High)
	case *ast.ForClause:
		if selector, ok := called(node.Source).(*ast.SelectorExpr); ok && isNamed(selector.Sel, "FlattenN") {
			s.separate(&node.Source)
			break
		}
		s.operand(&node.Source)
	case *ast.SelectorExpr:
		s.operand(&node.X)
	case *ast.IndexExpr:
		s.operand(&node.X)
		s.operand(&node.Index)
	case *ast.CallExpr:
		for i := range node.Args {
			s.operand(&node.Args[i])
		}
	case *ast.UnaryExpr:
		if node.Op != token.MUL { // that marks a default
			s.operand(&node.X)
		}
	case *ast.BinaryExpr:
		if node.Op != token.AND && node.Op != token.OR {
			s.operand(&node.X)
			s.operand(&node.Y)
		}
	}
	return true
}

// used is for an operand that CUE takes for something else if it has no value.
func (s *separator) used(place *ast.Expr) {
	binary, isBinary := unparen(*place).(*ast.BinaryExpr)
	if isBinary && (binary.Op == token.AND || binary.Op == token.OR) || calls(*place, "or") {
		s.separate(place)
		return
	}
	s.operand(place)
}

// operand is for any operand.
func (s *separator) operand(place *ast.Expr) {
	if calls(*place, "and") {
		s.separate(place)
	}
}

func (s *separator) separate(place *ast.Expr) {
	was := *place
	*place = &ast.IndexExpr{X: &ast.ListLit{Lbrack: was.Pos(), Elts: []ast.Expr{was}}, Index: ast.NewLit(token.INT, "0")}
	s.undos = append(s.undos, func() { *place = was })
}

func unparen(x ast.Expr) ast.Expr {
	for {
		paren, ok := x.(*ast.ParenExpr)
		if !ok {
			return x
		}
		x = paren.X
	}
}

// calls reports whether an expression is the call of a builtin that belongs to no package.
func calls(x ast.Expr, name string) bool {
	ident, ok := called(x).(*ast.Ident)
	return ok && ident.Name == name && ident.Node == nil
}

// called returns the function that an expression calls; nil if it is no call.
func called(x ast.Expr) ast.Expr {
	call, ok := unparen(x).(*ast.CallExpr)
	if !ok {
		return nil
	}
	return call.Fun
}

func isNamed(label ast.Label, name string) bool {
	ident, ok := label.(*ast.Ident)
	return ok && ident.Name == name
}
