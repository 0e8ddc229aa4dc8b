package syntax

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/token"
)

// Flatten returns the alternatives of a disjunction.
func Flatten(e ast.Expr) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.OR {
		return append(Flatten(b.X), Flatten(b.Y)...)
	}
	return []ast.Expr{e}
}

// Conjuncts returns what is unified by an expression.
func Conjuncts(e ast.Expr) []ast.Expr {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return Conjuncts(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.AND {
			return append(Conjuncts(e.X), Conjuncts(e.Y)...)
		}
	}
	return []ast.Expr{e}
}

// SourceOf returns an expression as CUE text on one line.
func SourceOf(e ast.Node) string {
	if c, ok := e.(*ast.Comprehension); ok {
		e = &ast.StructLit{Elts: []ast.Decl{c}} // alone, it cannot be formatted
	}
	text, err := format.Node(e, format.Simplify())
	if err != nil {
		return "…"
	}
	return oneLine(string(text))
}

// ValuesOf returns the values of the fields of a struct that have a name.
func ValuesOf(value ast.Expr, name string) (values []ast.Expr) {
	for _, field := range FieldsIn(value) {
		if label, _, err := ast.LabelName(field.Label); err == nil && label == name {
			values = append(values, field.Value)
		}
	}
	return values
}

// FieldsIn returns the fields of a struct, those within ifs and loops as well.
func FieldsIn(value ast.Expr) (fields []*ast.Field) {
	for _, part := range Conjuncts(value) {
		literal, ok := part.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, decl := range literal.Elts {
			switch decl := decl.(type) {
			case *ast.Field:
				fields = append(fields, decl)
			case *ast.EmbedDecl:
				fields = append(fields, FieldsIn(decl.Expr)...)
			case *ast.Comprehension:
				fields = append(fields, FieldsIn(decl.Value)...)
			}
		}
	}
	return fields
}
