package load

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// checkConditionTypes rejects conditions with wrong types: those that every object has, and those
// within ifs of the behaviour's own text.
func checkConditionTypes(k Draft, controller cue.Value) error {
	for _, behaviour := range k.Source.Definitions[controller.Path().String()] {
		for _, conditions := range syntax.ValuesOf(behaviour.Value, "conditions") {
			for _, field := range syntax.FieldsIn(conditions) {
				name, _, err := ast.LabelName(field.Label)
				if problem := kind.ConditionTypeProblem(name); err == nil && problem != "" {
					return syntax.ErrorAtNode(mistake.ReservedCondition, field, "conditions: %q %s", name, problem)
				}
			}
		}
	}
	conditions := controller.LookupPath(pathConditions)
	if cue.IsIncomplete(conditions.Err()) {
		return nil
	}
	return syntax.EachField(conditions, func(name string, value cue.Value) error {
		if problem := kind.ConditionTypeProblem(name); problem != "" {
			return syntax.ErrorAt(mistake.ReservedCondition, value, "conditions", "%q %s", name, problem)
		}
		return nil
	})
}
