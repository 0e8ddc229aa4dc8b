package kind

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkContract returns the fields of a behaviour that the contract does not have, and words that a
// field of it does not allow. CUE reports these as well, but suggests nothing, and some only once
// their values are known.
func checkContract(k *Kind, pkg *kindsPackage) []*LoadError {
	c := newChecker(k, pkg, nil)
	if c.controller.fields["scope"] == nil {
		return nil // it is no contract.#Controller
	}
	c.mistakes, c.found = nil, make(map[string]bool) // without types, the rest cannot be told
	c.definition(c.controller, "#Controller", "")
	c.contractBehaviour(c.controller)
	c.definition(c.structureOf(c.controller, injectName), "#Injection", "inject.")
	phases := c.structureOf(c.controller, "phases")
	for _, name := range phases.order {
		path := "phases." + name + "."
		phase := c.structureOf(phases, name)
		c.definition(phase, "#Phase", path)
		c.contractChildren(phase, path)
		c.loopNames(phase, path)
		next := phase.fields["next"]
		if next == nil {
			continue
		}
		for _, p := range next.parts {
			if list, ok := p.expr.(*ast.ListLit); ok {
				c.contractTransitions(p, list, path+"next")
			}
		}
	}
	return c.mistakes
}

// contractBehaviour checks what kinds and decorators have in common.
func (c *checker) contractBehaviour(s *structure) {
	c.contractChildren(s, "")
	c.loopNames(s, "")
	reads := c.structureOf(s, readsName)
	for _, name := range reads.order {
		read, path := c.structureOf(reads, name), readsName+"."+name+"."
		c.definition(read, "#Read", path)
		c.selectorFields(read, path)
	}
}

// autoscaling advises on a scale without a selector: a HorizontalPodAutoscaler finds the Pods of an object by nothing
// else, and reports ScalingActive False with the reason InvalidSelector.
func (c *checker) autoscaling() {
	if c.kind.Scale != nil && c.kind.Scale.LabelSelectorPath == nil {
		c.advice = append(c.advice, Advice{
			Field: "scale", Position: positionOf(c.controller.fields["scale"].node),
			Text: `scale: a HorizontalPodAutoscaler cannot scale these objects: write selector: ".status.selector", and in the status the labels of the Pods as text, like selector: "app=\(object.metadata.name)"`,
		})
	}
}

// selectorFields reports labels that stand in the label selector of a structure itself, as in selectors of a Service.
func (c *checker) selectorFields(s *structure, path string) {
	selector, known := c.structureOf(s, "selector"), []string{"matchLabels", "matchExpressions"}
	for _, name := range selector.order {
		near := types.DidYouMean(name, known)
		switch at := selector.fields[name].node; {
		case slices.Contains(known, name):
		case near != "" || name == "labels":
			c.report(at, "%sselector.%s: unknown field%s", path, name, cmp.Or(near, "; did you mean matchLabels?"))
		default:
			c.report(at, `%sselector.%q: unknown field: write selector: matchLabels: %[2]q: "VALUE", or selector: matchExpressions: [{key: %[2]q, operator: "Exists"}]`, path, name)
		}
	}
}

func (c *checker) contractTransitions(p part, list *ast.ListLit, prefix string) {
	var transitions []*structure
	c.quietly(func() {
		for _, item := range c.items(p, list) {
			transitions = append(transitions, c.gather([]part{item}))
		}
	})
	for i, transition := range transitions {
		c.definition(transition, "#Transition", fmt.Sprintf("%s[%d].", prefix, i))
	}
}

func (c *checker) contractChildren(owner *structure, prefix string) {
	children := c.structureOf(owner, "children")
	for _, name := range children.order {
		path := prefix + "children." + name + "."
		child := c.structureOf(children, name)
		c.definition(child, "#Child", path)
		for _, field := range []string{"update", "strays", "onDelete"} {
			c.words(child, field, path)
		}
	}
}

// structureOf returns a field of a structure as one.
func (c *checker) structureOf(s *structure, name string) (field *structure) {
	c.quietly(func() {
		var parts []part
		if m := s.fields[name]; m != nil {
			parts = m.parts
		}
		field = c.gather(parts)
	})
	return field
}

// quietly does something of which nothing is reported.
func (c *checker) quietly(do func()) {
	mistakes, found := c.mistakes, c.found
	c.found = make(map[string]bool)
	do()
	c.mistakes, c.found = mistakes, found
}

// definition reports fields of a structure that a definition of the contract does not have.
func (c *checker) definition(s *structure, definition, path string) {
	known := c.gather(c.topLevel(part{in: c.pkg.rules.contract}, definition)).order
	for _, name := range s.order {
		if isHidden := strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#"); !isHidden && !slices.Contains(known, name) {
			hint := types.DidYouMean(name, known)
			switch {
			case definition == "#Child" && slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "data"}, name):
				hint = ": write it in template"
			case definition != "#Target" && definition != "#Read":
			case slices.Contains([]string{"label", "labels", "matchLabels"}, name):
				hint = `: write selector: matchLabels: "KEY": "VALUE", or selector: matchExpressions: [{key: "KEY", operator: "Exists"}]`
			case name == "matchExpressions":
				hint = `: write selector: matchExpressions: […]`
			}
			c.report(s.fields[name].node, "%s%s: unknown field%s", path, name, hint)
		}
	}
}

// words reports a text that is none of those that the contract lists for a field of a child.
func (c *checker) words(child *structure, name, path string) {
	field := child.fields[name]
	contract := c.gather(c.topLevel(part{in: c.pkg.rules.contract}, "#Child")).fields[name]
	if field == nil || contract == nil {
		return
	}
	var known []string
	for _, alternative := range flatten(contract.parts[0].expr) {
		if unary, ok := alternative.(*ast.UnaryExpr); ok {
			alternative = unary.X
		}
		if text, err := literalValue(alternative); err == nil {
			known = append(known, fmt.Sprint(text))
		}
	}
	for _, p := range field.parts {
		var v value
		c.quietly(func() { v = c.infer(p) })
		if text, ok := v.literal.(string); ok && !slices.Contains(known, text) {
			c.report(p.node(), "%s%s: %q must be one of %s%s", path, name, text, strings.Join(known, ", "), types.DidYouMean(text, known))
		}
	}
}
