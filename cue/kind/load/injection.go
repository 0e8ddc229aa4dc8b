package load

import (
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

var (
	pathInject     = cue.ParsePath("inject")
	pathAnnotation = cue.ParsePath("inject.annotation")
	pathSelector   = cue.ParsePath("selector")
	pathAdd        = cue.ParsePath("add")
)

// collectInjection checks what is known of an injection without looking at any object:
// the annotation, and that what it adds can be part of a Pod.
func collectInjection(k *kind.Kind, controller cue.Value, rules syntax.Contract, definitions []*ast.Field) error {
	inject := controller.LookupPath(pathInject)
	if !inject.Exists() {
		return rejectConditionalInject(definitions)
	}
	if k.Scope != apiextensionsv1.NamespaceScoped {
		return syntax.ErrorAt(mistake.WrongScope, inject, "inject",
			"the kind must be Namespaced: an object injects into Pods of its own namespace")
	}
	annotation, err := constant(controller, pathAnnotation)
	if err != nil {
		return err
	}
	if problems := validation.IsQualifiedName(strings.ToLower(annotation)); len(problems) > 0 {
		return syntax.ErrorAt(mistake.InvalidName, controller.LookupPath(pathAnnotation), "inject.annotation",
			"%q must be the name of an annotation: %s", annotation, problems[0])
	}
	add := inject.LookupPath(pathAdd)
	if !add.Exists() {
		return syntax.ErrorAt(mistake.MissingField, inject, "inject.add", "is missing")
	}
	// Without Concrete, a missing required field is not an error: the Pod has it. UnifyAccept lets the type set its
	// defaults, which an addition, as part of a definition, has no place for.
	if err := add.UnifyAccept(rules.PodTemplate, rules.PodTemplate).Validate(); err != nil {
		return err
	}
	if selector := inject.LookupPath(pathSelector); selector.Exists() {
		if err := selector.Unify(rules.LabelSelector).Validate(); err != nil {
			return err
		}
	}
	k.InjectAnnotation = annotation
	return nil
}

// rejectConditionalInject finds an inject that stands in an if: whether the kind injects
// at all would depend on the object, and nothing would ask it.
func rejectConditionalInject(definitions []*ast.Field) error {
	var found error
	for _, definition := range definitions {
		ast.Walk(definition.Value, func(node ast.Node) bool {
			comprehension, ok := node.(*ast.Comprehension)
			if !ok {
				return found == nil
			}
			body, ok := comprehension.Value.(*ast.StructLit)
			if !ok {
				return true
			}
			for _, decl := range body.Elts {
				f, ok := decl.(*ast.Field)
				if !ok {
					continue
				}
				if name, _, err := ast.LabelName(f.Label); err == nil && name == "inject" {
					found = syntax.ErrorAtNode(mistake.ConditionalInjection, f,
						"inject cannot be in an if: write inject: {annotation: …, add: {if … {…}}}")
				}
			}
			return found == nil
		}, nil)
	}
	return found
}
