// Package binding says what a name in CUE refers to: within its file, as CUE's parser has bound it, at the top of its
// package, or in a package that its file imports. It knows syntax, and not what any of it means.
package binding

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
)

// Kind is a kind of what a name can refer to.
type Kind int

// The kinds. Until it is known what the package has, a name that its file does not have is Unbound.
const (
	Unbound  Kind = iota // the top of another file, something of CUE's own, or nothing
	Import               // a package
	Let                  // let x = …, in a struct or at the top of a file
	Alias                // of a value or a field, as in x: X={…} and X=x: …
	Field                // x: …, in a struct
	Top                  // x: …, at the top of a file
	Variable             // of a comprehension, or of the name in a pattern
)

// Binding is what a name refers to.
type Binding struct {
	Kind Kind
	// Expr is the value of a Let, an Alias, a Field or a Top; the last one, if fields of a name are in one struct. That
	// of an Alias may have another alias. For a Variable, it is what declares it.
	Expr ast.Expr
	// Struct declares a Field.
	Struct *ast.StructLit
	// Path is the path of an Import, without the name of its package.
	Path string
}

// Of returns what a name refers to, as far as its file shows. The table at the top of cue/ast/astutil/resolve.go says
// what CUE's parser has written into the name.
func Of(e *ast.Ident) Binding {
	switch node := e.Node.(type) {
	case *ast.ImportSpec:
		path, err := strconv.Unquote(node.Path.Value)
		if err != nil {
			return Binding{}
		}
		path, _, _ = strings.Cut(path, ":")
		return Binding{Kind: Import, Path: path}
	case *ast.LetClause:
		return Binding{Kind: Let, Expr: node.Expr}
	case *ast.Alias:
		return Binding{Kind: Alias, Expr: node.Expr}
	case *ast.Field:
		return Binding{Kind: Alias, Expr: node.Value}
	case ast.Expr:
		switch scope := e.Scope.(type) {
		case *ast.File:
			return Binding{Kind: Top, Expr: node}
		case *ast.StructLit:
			return Binding{Kind: Field, Expr: node, Struct: scope}
		}
		return Binding{Kind: Variable, Expr: node}
	}
	return Binding{}
}

// Fields returns the fields of a name in the struct that declares it, given the Binding of a Field.
func (b Binding) Fields(name string) (fields []*ast.Field) {
	for _, declaration := range b.Struct.Elts {
		if f, ok := declaration.(*ast.Field); ok {
			if label, _, err := ast.LabelName(f.Label); err == nil && label == name {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

// Selected returns what a selector selects from a package: the path of an import, and the name there. The path is empty
// if it selects from anything else, and the name if it cannot be told.
func Selected(e *ast.SelectorExpr) (path, name string) {
	name, _, err := ast.LabelName(e.Sel)
	ident, ok := e.X.(*ast.Ident)
	if err != nil || !ok {
		return "", name
	}
	return Of(ident).Path, name
}
