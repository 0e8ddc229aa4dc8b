package compile

import (
	"regexp"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// objectExpr reads an expression over the object, as a condition or a bound has it.
func (s scope) objectExpr(expr ast.Expr) (*schema.Expr, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return s.objectExpr(e.X)
	case *ast.BasicLit:
		value, err := syntax.LiteralValue(e)
		return &schema.Expr{Op: schema.OpLiteral, Value: value, Text: syntax.SourceOf(e)}, err
	case *ast.Ident, *ast.SelectorExpr:
		return s.objectReference(expr)
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return s.operation(schema.OpNot, expr, e.X)
		}
		if value, err := syntax.LiteralValue(e); err == nil {
			return &schema.Expr{Op: schema.OpLiteral, Value: value, Text: syntax.SourceOf(e)}, nil
		}
	case *ast.BinaryExpr:
		return s.binary(e)
	case *ast.CallExpr:
		if ident, ok := e.Fun.(*ast.Ident); ok && ident.Name == "len" && binding.Of(ident).Kind == binding.Unbound &&
			len(e.Args) == 1 {
			return s.operation(schema.OpLen, expr, e.Args[0])
		}
	}
	return nil, s.unsupported(expr, "the expression "+syntax.SourceOf(expr))
}

// operation reads the arguments of an operation.
func (s scope) operation(op schema.Op, whole ast.Expr, args ...ast.Expr) (*schema.Expr, error) {
	result := &schema.Expr{Op: op, Text: syntax.SourceOf(whole)}
	for _, arg := range args {
		a, err := s.objectExpr(arg)
		if err != nil {
			return nil, err
		}
		result.Args = append(result.Args, a)
	}
	return result, nil
}

func (s scope) binary(e *ast.BinaryExpr) (*schema.Expr, error) {
	switch e.Op {
	case token.EQL, token.NEQ:
		if _, ok := e.Y.(*ast.BottomLit); ok {
			present, err := s.operation(schema.OpPresent, e, e.X)
			if err != nil || e.Op == token.NEQ {
				return present, err
			}
			return &schema.Expr{Op: schema.OpNot, Args: []*schema.Expr{present}, Text: syntax.SourceOf(e)}, nil
		}
		return s.operation(schema.Op(e.Op.String()), e, e.X, e.Y)
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.LAND, token.LOR:
		return s.operation(schema.Op(e.Op.String()), e, e.X, e.Y)
	case token.MAT, token.NMAT:
		result, err := s.operation(schema.Op(e.Op.String()), e, e.X)
		if err != nil {
			return nil, err
		}
		result.Regexp, err = regularExpression(e.Y)
		return result, err
	}
	return nil, s.unsupported(e, "the operator "+e.Op.String())
}

// objectReference reads a reference to a field of the object, like mode or spec.mode.
func (s scope) objectReference(expr ast.Expr) (*schema.Expr, error) {
	var path []string
	for {
		selector, ok := expr.(*ast.SelectorExpr)
		if !ok {
			break
		}
		name, _, err := ast.LabelName(selector.Sel)
		if err != nil {
			return nil, s.unsupported(selector, "this reference")
		}
		path = append(path, name)
		expr = selector.X
	}
	ident, ok := expr.(*ast.Ident)
	if !ok {
		return nil, s.unsupported(expr, "this reference")
	}
	b := binding.Of(ident)
	if b.Kind == binding.Let && len(path) == 0 && !s.reading[b.Expr] {
		s.reading[b.Expr] = true
		defer delete(s.reading, b.Expr)
		return s.objectExpr(b.Expr)
	}
	if slices.ContainsFunc(s.frames, func(f frame) bool { return ast.Expr(f.literal) == b.Expr }) {
		return nil, syntax.ErrorAtNode(mistake.SelfReference, ident, "%s is a struct around this reference: refer to one of its fields by its name alone", ident.Name)
	}
	around, ok := s.frameOf(ident)
	if !ok || isLocal(ident.Name) {
		if value, err := s.constantOf(ident); err == nil && len(path) == 0 {
			return &schema.Expr{Op: schema.OpLiteral, Value: value, Text: ident.Name}, nil
		}
		return nil, s.unsupported(ident, "a reference to "+ident.Name)
	}
	path = append(path, ident.Name)
	slices.Reverse(path)
	return &schema.Expr{Op: schema.OpReference, Up: s.depth - around.depth, Path: path, Text: syntax.SourceOf(expr)},
		nil
}

// constantOf returns the literal that a top-level or hidden field gives a name.
func (s scope) constantOf(e *ast.Ident) (any, error) {
	if named := s.source(e); named != nil {
		return syntax.LiteralValue(named)
	}
	return nil, syntax.ErrorAtNode(mistake.UnsupportedCUE, e, "%s is not a literal", e.Name)
}

// source returns the expression that a let clause, a top-level or a hidden field gives a name.
func (s scope) source(e ast.Expr) ast.Expr {
	ident, ok := e.(*ast.Ident)
	if !ok {
		return nil
	}
	if b := binding.Of(ident); b.Expr != nil {
		return b.Expr
	}
	if fields := s.FieldsOf(s.instance)[ident.Name]; len(fields) == 1 {
		return fields[0].Value
	}
	return nil
}

// literalOf returns the value of a literal, or of a name for one.
func (s scope) literalOf(e ast.Expr) (any, error) {
	if ident, ok := e.(*ast.Ident); ok {
		return s.constantOf(ident)
	}
	return syntax.LiteralValue(e)
}

func regularExpression(e ast.Expr) (*regexp.Regexp, error) {
	text, err := syntax.StringLiteral(e)
	if err != nil {
		return nil, err
	}
	compiled, err := syntax.CompilePattern(text)
	if err != nil {
		return nil, syntax.ErrorAtNode(mistake.CUEError, e, "%v", err)
	}
	return compiled, nil
}

// ruleAt returns the rule that an expression states.
func ruleAt(e ast.Node) *schema.Rule {
	return &schema.Rule{Text: syntax.SourceOf(e), Position: syntax.PositionOf(e)}
}
