package behaviour

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/binding"
)

// SeparateOperands changes files so that CUE evaluates each operand to the end before it uses it, as its specification
// says: x becomes [x][0] or {x}, and a reference becomes x && true, [if x == x {x}][0] or x + 0. CUE v0.17.1 goes on
// with an operand that is a disjunction or a unification without a value: an if takes it for false, an interpolation
// for an empty text, and a slice for no bound. So it does with a reference to a field that only refers to one without a
// value, unless something else asked for that before. In a let, in what and() returns and in what is selected from a
// literal, it overlooks an if or a loop that waits, which it sees in a field. Nor does it look at the elements of a
// slice that is compared or an argument, and a loop over what list.FlattenN returns does not find elements that are
// disjunctions. The function that is returned undoes the changes.
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
	case *ast.Field:
		if computed, ok := node.Label.(*ast.ParenExpr); ok {
			s.operand(&computed.X)
		}
	case *ast.IfClause:
		s.used(&node.Condition, func(x ast.Expr) ast.Expr { return binary(x, token.LAND, ast.NewBool(true)) })
	case *ast.Interpolation:
		for i := 1; i < len(node.Elts); i += 2 {
			s.used(&node.Elts[i], func(x ast.Expr) ast.Expr {
				known := &ast.IfClause{If: x.Pos(), Condition: binary(x, token.EQL, x)}
				return elementOf(&ast.Comprehension{Clauses: []ast.Clause{known},
					Value: &ast.StructLit{Lbrace: x.Pos(), Elts: []ast.Decl{&ast.EmbedDecl{Expr: x}}}})
			})
		}
	case *ast.SliceExpr:
		s.operand(&node.X)
		for _, bound := range []*ast.Expr{&node.Low, &node.High} {
			s.used(bound, func(x ast.Expr) ast.Expr { return binary(x, token.ADD, ast.NewLit(token.INT, "0")) })
		}
	case *ast.ForClause:
		if selector, ok := called(node.Source).(*ast.SelectorExpr); ok && isNamed(selector.Sel, "FlattenN") {
			s.separate(&node.Source)
			break
		}
		s.operand(&node.Source)
	case *ast.SelectorExpr:
		if calls(node.X, "and") { // of a let or a literal, Fescue and CUE select a field beside what waits
			s.operand(&node.X)
		}
	case *ast.IndexExpr:
		s.operand(&node.X)
		s.operand(&node.Index)
	case *ast.CallExpr:
		for i := range node.Args {
			s.compared(&node.Args[i])
		}
	case *ast.UnaryExpr:
		if node.Op != token.MUL { // that marks a default
			s.operand(&node.X)
		}
	case *ast.BinaryExpr:
		switch node.Op {
		case token.AND, token.OR:
		case token.EQL, token.NEQ:
			s.compared(&node.X)
			s.compared(&node.Y)
		default:
			s.operand(&node.X)
			s.operand(&node.Y)
		}
	}
	return true
}

// used is for an operand that CUE takes for something else if it has no value, and resolve has CUE look at that of a
// reference.
func (s *separator) used(place *ast.Expr, resolve func(ast.Expr) ast.Expr) {
	operation, isBinary := unparen(*place).(*ast.BinaryExpr)
	switch {
	case isBinary && (operation.Op == token.AND || operation.Op == token.OR) || calls(*place, "or"):
		s.separate(place)
	case refersToField(unparen(*place)) || isUnfinished(*place):
		s.replace(place, resolve(*place))
	}
}

// refersToField reports whether an expression is a reference to a field, or an element, that may only refer to another
// one: not to data.
func refersToField(x ast.Expr) bool {
	if root := rootOf(x); root != nil {
		return root.Name != ObjectName && root.Name != ObservedName
	}
	_, isElement := x.(*ast.IndexExpr)
	return isElement
}

// compared is for an operand of == and !=, and for an argument.
func (s *separator) compared(place *ast.Expr) {
	if _, isSlice := unparen(*place).(*ast.SliceExpr); isSlice {
		s.separate(place)
		return
	}
	s.operand(place)
}

// operand is for any operand.
func (s *separator) operand(place *ast.Expr) {
	if isUnfinished(*place) {
		s.replace(place, &ast.StructLit{Lbrace: (*place).Pos(), Elts: []ast.Decl{&ast.EmbedDecl{Expr: *place}}})
	}
}

// isUnfinished reports whether an operand is a let, a part of a literal, or a call of and.
func isUnfinished(x ast.Expr) bool {
	switch x := unparen(x).(type) {
	case *ast.Ident:
		return binding.Of(x).Kind == binding.Let
	case *ast.SelectorExpr, *ast.IndexExpr:
		root := rootOf(x)
		return root == nil || isUnfinished(root)
	}
	return calls(x, "and")
}

func (s *separator) separate(place *ast.Expr) { s.replace(place, elementOf(*place)) }

func (s *separator) replace(place *ast.Expr, by ast.Expr) {
	was := *place
	*place = by
	s.undos = append(s.undos, func() { *place = was })
}

// elementOf returns [x][0].
func elementOf(x ast.Expr) ast.Expr {
	return &ast.IndexExpr{X: &ast.ListLit{Lbrack: x.Pos(), Elts: []ast.Expr{x}}, Index: ast.NewLit(token.INT, "0")}
}

func binary(x ast.Expr, op token.Token, y ast.Expr) ast.Expr {
	return &ast.BinaryExpr{X: x, OpPos: x.Pos(), Op: op, Y: y}
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
	return ok && ident.Name == name && binding.Of(ident).Kind == binding.Unbound
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
