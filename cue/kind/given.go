package kind

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// openData returns data as syntax in which each struct ends in "...". What is filled into a
// definition is closed otherwise, and CUE counts a reference to an absent field of a closed struct
// as wrong, not as incomplete. The context does not keep such an expression.
func openData(value any) ast.Expr {
	switch value := value.(type) {
	case nil:
		return ast.NewNull()
	case bool:
		return ast.NewBool(value)
	case string:
		return ast.NewString(value)
	case float64:
		text := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // 3 is an int
		}
		return ast.NewLit(token.FLOAT, text)
	case map[string]any:
		open := &ast.StructLit{Elts: make([]ast.Decl, 0, len(value)+1)}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			open.Elts = append(open.Elts, &ast.Field{Label: ast.NewString(name), Value: openData(value[name])})
		}
		open.Elts = append(open.Elts, &ast.Ellipsis{})
		return open
	case []any:
		list := &ast.ListLit{Elts: make([]ast.Expr, len(value))}
		for i, element := range value {
			list.Elts[i] = openData(element)
		}
		return list
	}
	return ast.NewLit(token.INT, fmt.Sprint(value))
}
