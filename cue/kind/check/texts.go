package check

import (
	"fmt"
	"regexp"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// foreignInterpolation is how kro, scripts and Helm put a value into a text; the submatches are where it is from, and
// its name there.
var foreignInterpolation = regexp.MustCompile(
	`(?:\$\{|\$\(|\{\{-? *\.?)(schema|self|object|observed|Values)\.([\w.]+)(?: *-?\}\}|\}|\))`)

// texts advises on what looks like a value in a text, and is not one in CUE.
func (c *Checker) texts() {
	for _, definition := range c.pkg.Definitions[syntax.BehaviourOf(c.kind.LoadName())] {
		ast.Walk(definition, func(node ast.Node) bool {
			literal, ok := node.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			m := foreignInterpolation.FindStringSubmatch(literal.Value)
			if m == nil {
				return true
			}
			from, field := m[1], m[2]
			switch from {
			case "schema", "self":
				from = behaviour.ObjectName
			case "Values":
				from = behaviour.ObjectName + ".spec"
			}
			c.advice = append(c.advice, kind.Advice{
				Check: mistake.NotInterpolated, Field: m[0], Position: syntax.PositionOf(literal),
				Text: fmt.Sprintf(`CUE does not replace %s in a string: write \(%s.%s)`, m[0], from, field),
			})
			return true
		}, nil)
	}
}
