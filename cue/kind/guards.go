package kind

import (
	"cuelang.org/go/cue/ast"
)

// guardAdvice warns of ifs that read observed around children of all phases, in a behaviour's own
// text: such an if often is meant to wait, and it deletes.
func guardAdvice(behaviours []*ast.Field) (all []Advice) {
	for _, behaviour := range behaviours {
		own := fieldsIn(behaviour.Value)
		for _, children := range valuesOf(behaviour.Value, "children") {
			for _, part := range conjuncts(children) {
				ast.Walk(part, func(node ast.Node) bool {
					switch node := node.(type) {
					case *ast.Field:
						return false // a child
					case *ast.IfClause:
						if readsObserved(node.Condition, own) {
							all = append(all, Advice{"children", positionOf(node), "an if that reads observed deletes the child when it no longer holds; write when: to only wait"})
						}
					}
					return true
				}, nil)
			}
		}
	}
	return all
}

// readsObserved reports whether an expression reads observed, itself or by a field of its own
// behaviour.
func readsObserved(e ast.Node, own []*ast.Field) (found bool) {
	ast.Walk(e, func(node ast.Node) bool {
		ident, ok := node.(*ast.Ident)
		if !ok || found {
			return !found
		}
		found = ident.Name == observedName
		for i, field := range own {
			if name, _, err := ast.LabelName(field.Label); err == nil && name == ident.Name {
				found = found || readsObserved(field.Value, append(own[:i:i], own[i+1:]...))
			}
		}
		return !found
	}, nil)
	return found
}
