package check

import (
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"
)

// isReentered reports whether an object may enter a phase that it was in before.
func (c *Checker) isReentered(phase string) bool {
	k := c.kind
	c = New(k, c.pkg, nil)
	targets, _ := c.targets(c.structureOf(c.structureOf(c.Controller, "phases"), phase))
	return k.OnDelete == phase && k.Phases[phase].Lives ||
		slices.ContainsFunc(targets, func(to string) bool { return slices.Contains(c.WaysFrom(to), phase) })
}

// WaysFrom returns the phases that an object may be in after it has entered one, which is the first of
// them. A transition whose target is computed may lead to any.
func (c *Checker) WaysFrom(first string) []string {
	phases := c.structureOf(c.Controller, "phases")
	reached := []string{first}
	for i := 0; i < len(reached); i++ {
		targets, known := c.targets(c.structureOf(phases, reached[i]))
		if !known || phases.mayHaveMore() {
			targets = slices.Sorted(maps.Keys(c.kind.Phases))
		}
		for _, to := range targets {
			if !slices.Contains(reached, to) {
				reached = append(reached, to)
			}
		}
	}
	return reached
}

// targets returns the phases that the transitions out of a phase lead to; known is false if they may
// lead elsewhere.
func (c *Checker) targets(phase *Structure) (targets []string, known bool) {
	next := phase.Fields["next"]
	if next == nil {
		return nil, !phase.mayHaveMore()
	}
	for _, p := range next.Parts {
		if _, ok := p.expr.(*ast.ListLit); !ok && !p.constraint {
			return nil, false
		}
	}
	for _, t := range c.transitionFacts(phase) {
		if t.To == "" {
			return nil, false
		}
		targets = append(targets, t.To)
	}
	return targets, true
}
