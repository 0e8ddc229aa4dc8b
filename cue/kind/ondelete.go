package kind

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// collectOnDelete reads the phase that objects enter when they are deleted, and finds the phases that
// they may be in before.
func collectOnDelete(k *Kind, pkg *kindsPackage, controller cue.Value) error {
	c := newChecker(k, pkg, nil)
	if onDelete := controller.LookupPath(pathOnDelete); onDelete.Exists() {
		var err error
		if k.OnDelete, err = constant(controller, pathOnDelete); err != nil {
			return err
		}
		facts, ok := k.Phases[k.OnDelete]
		known := slices.Sorted(maps.Keys(k.Phases))
		switch ways := c.waysFrom(k.OnDelete); {
		case !ok:
			return errorAt(onDelete, "onDelete", "%q must be one of the phases: %s%s", k.OnDelete, strings.Join(known, ", "), types.DidYouMean(k.OnDelete, known))
		case facts.Terminal:
			return errorAt(onDelete, "onDelete", "the phase %s is terminal, so nothing would be done in it: name a phase that leads to a terminal one", k.OnDelete)
		case !slices.ContainsFunc(ways, func(name string) bool { return k.Phases[name].Terminal }):
			return errorAt(onDelete, "onDelete", "no terminal phase can be reached from %s, so a deleted object would never be gone", k.OnDelete)
		}
	}
	if k.Initial == "" {
		return nil
	}
	for _, name := range c.waysFrom(k.Initial) {
		facts := k.Phases[name]
		facts.Lives = true
		k.Phases[name] = facts
	}
	return nil
}

// isReentered reports whether an object may enter a phase that it was in before.
func (c *checker) isReentered(phase string) bool {
	k := c.kind
	c = newChecker(k, c.pkg, nil)
	targets, _ := c.targets(c.structureOf(c.structureOf(c.controller, "phases"), phase))
	return k.OnDelete == phase && k.Phases[phase].Lives ||
		slices.ContainsFunc(targets, func(to string) bool { return slices.Contains(c.waysFrom(to), phase) })
}

// waysFrom returns the phases that an object may be in after it has entered one, which is the first of
// them. A transition whose target is computed may lead to any.
func (c *checker) waysFrom(first string) []string {
	phases := c.structureOf(c.controller, "phases")
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
func (c *checker) targets(phase *structure) (targets []string, known bool) {
	next := phase.fields["next"]
	if next == nil {
		return nil, !phase.mayHaveMore()
	}
	for _, p := range next.parts {
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
