package kind

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/json"
)

func stringLiteral(e ast.Expr) (string, error) {
	value, err := literalValue(e)
	if err != nil {
		return "", err
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	return "", errorAtNode(e, "must be a string")
}

// literalValue is the value of a literal scalar, or of an empty list or struct.
func literalValue(expr ast.Expr) (any, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return literalValue(e.X)
	case *ast.ListLit:
		if len(e.Elts) == 0 {
			return []any{}, nil
		}
	case *ast.StructLit:
		if len(e.Elts) == 0 {
			return map[string]any{}, nil
		}
	case *ast.UnaryExpr:
		value, err := literalValue(e.X)
		if err != nil {
			return nil, err
		}
		switch n := value.(type) {
		case int64:
			if e.Op == token.SUB {
				return -n, nil
			}
		case float64:
			if e.Op == token.SUB {
				return -n, nil
			}
		}
	case *ast.BasicLit:
		switch e.Kind {
		case token.NULL:
			return nil, nil
		case token.TRUE, token.FALSE:
			return e.Kind == token.TRUE, nil
		case token.STRING:
			if text, err := literal.Unquote(e.Value); err == nil {
				return text, nil
			}
		case token.INT, token.FLOAT:
			var info literal.NumInfo
			if err := literal.ParseNum(e.Value, &info); err == nil {
				var n any
				if err := json.Unmarshal([]byte(info.String()), &n); err == nil {
					return n, nil
				}
			}
		}
	}
	return nil, errorAtNode(expr, "the CRD can carry only a literal value here")
}
