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
	seen := make(map[*build.Instance]bool)
	var visit func(*build.Instance)
	visit = func(instance *build.Instance) {
		if seen[instance] {
			return
		}
		seen[instance] = true
		for _, file := range instance.Files {
			for _, decl := range file.Decls {
				if definition, ok := decl.(*ast.Field); ok {
					eachFieldOf(definition.Value, "phases", func(phases ast.Expr) {
						eachFieldOf(phases, "", func(phase ast.Expr) {
							eachFieldOf(phase, "next", separate)
						})
					})
				}
			}
		}
		for _, imported := range instance.Imports {
			visit(imported)
		}
	}
	visit(instance)
}

// eachFieldOf calls do with the fields of a struct that have a name, or with all if that is empty;
// those in an if as well.
func eachFieldOf(value ast.Expr, name string, do func(ast.Expr)) {
	for _, part := range conjuncts(value) {
		literal, ok := part.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, decl := range literal.Elts {
			switch decl := decl.(type) {
			case *ast.Field:
				if label, _, err := ast.LabelName(decl.Label); name == "" || err == nil && label == name {
					do(decl.Value)
				}
			case *ast.EmbedDecl:
				eachFieldOf(decl.Expr, name, do)
			case *ast.Comprehension:
				if body, ok := decl.Value.(ast.Expr); ok {
					eachFieldOf(body, name, do)
				}
			}
		}
	}
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
