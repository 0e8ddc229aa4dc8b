package load

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// separateTransitions changes the lists next of phases so that an if that reads something absent
// concerns its own transition alone: CUE cannot tell the elements of a list apart while one is
// incomplete. [if c {to: "A"}] becomes [{if c {to: "A"}}], and an empty transition is one that was
// dropped.
func separateTransitions(instance *build.Instance) {
	binding.EachPackage(instance, func(of *build.Instance) bool {
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
	for _, phases := range syntax.ValuesOf(behaviour, "phases") {
		for _, phase := range syntax.FieldsIn(phases) {
			for _, next := range syntax.ValuesOf(phase.Value, "next") {
				separate(next)
			}
		}
	}
}

func separate(next ast.Expr) {
	for _, part := range syntax.Conjuncts(next) {
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
