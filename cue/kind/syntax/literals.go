package syntax

import (
	"math"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// StringLiteral returns the text of a literal.
func StringLiteral(e ast.Expr) (string, error) {
	value, err := LiteralValue(e)
	if err != nil {
		return "", err
	}
	if text, ok := value.(string); ok {
		return text, nil
	}
	return "", ErrorAtNode(mistake.UnsupportedCUE, e, "must be a string")
}

// LiteralValue returns the value of a literal scalar, of a list of them, or of an empty struct.
func LiteralValue(expr ast.Expr) (any, error) {
	switch e := expr.(type) {
	case *ast.ParenExpr:
		return LiteralValue(e.X)
	case *ast.ListLit:
		return literalList(e)
	case *ast.StructLit:
		if len(e.Elts) == 0 {
			return map[string]any{}, nil
		}
	case *ast.UnaryExpr:
		value, err := LiteralValue(e.X)
		if err != nil {
			return nil, err
		}
		switch n := value.(type) {
		case int64:
			if e.Op == token.SUB {
				return -n, nil
			}
		case float64:
			if e.Op == token.SUB && n == 1<<63 {
				return int64(math.MinInt64), nil // the one integer whose opposite does not fit
			}
			if e.Op == token.SUB {
				return -n, nil
			}
		}
	case *ast.BasicLit:
		switch e.Kind {
		case token.TRUE, token.FALSE:
			return e.Kind == token.TRUE, nil
		case token.NULL:
			return nil, nil //nolint:nilnil // null is a value
		case token.STRING:
			if IsBytes(e) {
				return nil, ErrorAtNode(mistake.UnsupportedCUE, expr, "%s", NoBytes)
			}
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
	return nil, ErrorAtNode(mistake.UnsupportedCUE, expr, "%s cannot be compiled: write a literal value here",
		SourceOf(expr))
}

func literalList(e *ast.ListLit) (any, error) {
	list := make([]any, 0, len(e.Elts))
	for _, element := range e.Elts {
		value, err := LiteralValue(element)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return list, nil
}

// NoBytes explains what to write instead of CUE's bytes.
const NoBytes = "bytes cannot be compiled because JSON has none: write text in double quotes, and string with " +
	"@kube(format=byte) for base64"

// IsBytes reports whether a literal, or the first piece of an interpolation, is of CUE's bytes, in single quotes.
func IsBytes(e *ast.BasicLit) bool {
	return strings.HasPrefix(strings.TrimLeft(e.Value, "#"), "'")
}
