package kind

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
)

// separateTransitions changes the lists next of phases so that an if that reads something absent
// concerns its own transition alone: CUE cannot tell the elements of a list apart while one is
// incomplete. [if c {to: "A"}] becomes [{if c {to: "A"}}], and an empty transition is one that was
// dropped.
func separateTransitions(instance *build.Instance) {
	eachPackage(instance, func(of *build.Instance) bool {
		for _, file := range of.Files {
			for _, decl := range file.Decls {
				if definition, ok := decl.(*ast.Field); ok {
					separateIn(definition.Value)
				}
			}
		}
		return true
	})
}

func separateIn(behaviour ast.Expr) {
	for _, phases := range valuesOf(behaviour, "phases") {
		for _, phase := range fieldsIn(phases) {
			for _, next := range valuesOf(phase.Value, "next") {
				separate(next)
			}
		}
	}
}

// valuesOf returns the values of the fields of a struct that have a name.
func valuesOf(value ast.Expr, name string) (values []ast.Expr) {
	for _, field := range fieldsIn(value) {
		if label, _, err := ast.LabelName(field.Label); err == nil && label == name {
			values = append(values, field.Value)
		}
	}
	return values
}

// fieldsIn returns the fields of a struct, those within ifs and loops as well.
func fieldsIn(value ast.Expr) (fields []*ast.Field) {
	for _, part := range conjuncts(value) {
		literal, ok := part.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, decl := range literal.Elts {
			switch decl := decl.(type) {
			case *ast.Field:
				fields = append(fields, decl)
			case *ast.EmbedDecl:
				fields = append(fields, fieldsIn(decl.Expr)...)
			case *ast.Comprehension:
				fields = append(fields, fieldsIn(decl.Value)...)
			}
		}
	}
	return fields
}

func separate(next ast.Expr) {
	for _, part := range conjuncts(next) {
		list, ok := part.(*ast.ListLit)
		if !ok {
			continue
		}
		for i, element := range list.Elts {
			if dropped, ok := element.(*ast.Comprehension); ok && !slices.ContainsFunc(dropped.Clauses, isLoop) {
				list.Elts[i] = &ast.StructLit{Lbrace: dropped.Pos(), Elts: []ast.Decl{dropped}, Rbrace: dropped.End()}
			}
		}
	}
}

func isLoop(clause ast.Clause) bool {
	_, ok := clause.(*ast.ForClause)
	return ok
}
