package syntax

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// ConversionSuffix follows the name of a definition of objects in the name of its conversion.
const ConversionSuffix = "Conversion"

// IsConversion reports whether an expression begins with contract.#Conversion.
func IsConversion(expr ast.Expr) bool { return beginsWith(expr, "#"+ConversionSuffix) }

// BehaviourOf returns the name of the definition of a behaviour, given a name of LoadableNames.
func BehaviourOf(name string) string {
	if strings.HasSuffix(name, behaviour.DecoratorSuffix) {
		return "#" + name
	}
	return "#" + name + behaviour.ControllerSuffix
}

// DecoratorNames lists the decorators of a package by their definitions, sorted.
func DecoratorNames(definitions map[string][]*ast.Field) []string {
	var names []string
	for definition, fields := range definitions {
		name := strings.TrimPrefix(definition, "#")
		if name != definition && len(name) > len(behaviour.DecoratorSuffix) &&
			strings.HasSuffix(name, behaviour.DecoratorSuffix) && slices.ContainsFunc(fields, IsDecorator) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// IsDecorator reports whether a definition begins with contract.#Decorator.
func IsDecorator(f *ast.Field) bool { return beginsWith(f.Value, "#"+behaviour.DecoratorSuffix) }

// The packages of Fescue's own that kinds import.
const (
	ContractPackage = place.ModulePath + "/cue/contract"
	LibraryPackage  = place.ModulePath + "/cue/k8s"
)

// ReferredTo returns the names that a package refers to.
func ReferredTo(definitions map[string][]*ast.Field, instance *build.Instance) map[string]bool {
	used := make(map[string]bool)
	for _, file := range instance.Files {
		ast.Walk(file, func(node ast.Node) bool {
			if ident, ok := node.(*ast.Ident); ok {
				used[ident.Name] = used[ident.Name] || !isLabel(definitions, ident)
			}
			return true
		}, nil)
	}
	return used
}

// isLabel reports whether an identifier is the label of a top-level field.
func isLabel(definitions map[string][]*ast.Field, ident *ast.Ident) bool {
	return slices.ContainsFunc(definitions[ident.Name], func(f *ast.Field) bool { return f.Label == ident })
}

// IsController reports whether an expression begins with contract.#Controller.
func IsController(expr ast.Expr) bool { return beginsWith(expr, "#"+behaviour.ControllerSuffix) }

// beginsWith reports whether an expression is unified with a definition of the contract.
func beginsWith(expr ast.Expr, definition string) bool {
	switch e := expr.(type) {
	case *ast.BinaryExpr:
		return beginsWith(e.X, definition) || beginsWith(e.Y, definition)
	case *ast.SelectorExpr:
		path, name := binding.Selected(e)
		return path == ContractPackage && name == definition
	}
	return false
}

// LoadableNames lists the kinds and the decorators of a package by syntax, so that one that cannot be
// evaluated is still known by name. Those of decorators end in DecoratorSuffix.
func LoadableNames(definitions map[string][]*ast.Field) []string {
	return slices.Sorted(slices.Values(append(KindNames(definitions), DecoratorNames(definitions)...)))
}

// KindNames lists the kinds of a package, sorted.
func KindNames(definitions map[string][]*ast.Field) []string {
	var names []string
	for definition := range definitions {
		name, isController := strings.CutSuffix(definition, behaviour.ControllerSuffix)
		if _, hasObject := definitions[name]; isController && hasObject {
			names = append(names, strings.TrimPrefix(name, "#"))
		}
	}
	slices.Sort(names)
	return names
}
