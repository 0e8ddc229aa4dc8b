package facts

import (
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/infer"
)

// IsReentered reports whether an object may enter a phase that it was in before.
func (b *Source) IsReentered(phase string) bool {
	k := b.kind
	targets, _ := b.targets(b.Definition.Peek("phases").Peek(phase))
	return k.OnDelete == phase && k.Phases[phase].Lives ||
		slices.ContainsFunc(targets, func(to string) bool { return slices.Contains(b.WaysFrom(to), phase) })
}

// WaysFrom returns the phases that an object may be in after it has entered one, which is the first of
// them. A transition whose target is computed may lead to any.
func (b *Source) WaysFrom(first string) []string {
	phases := b.Definition.Peek("phases")
	reached := []string{first}
	for i := 0; i < len(reached); i++ {
		targets, known := b.targets(phases.Peek(reached[i]))
		if !known || phases.MayHaveMore() {
			targets = slices.Sorted(maps.Keys(b.kind.Phases))
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
func (b *Source) targets(phase *infer.Structure) (targets []string, known bool) {
	next := phase.Fields["next"]
	if next == nil {
		return nil, !phase.MayHaveMore()
	}
	for _, p := range next.Parts {
		if _, ok := p.Expr.(*ast.ListLit); !ok && !p.Constraint {
			return nil, false
		}
	}
	for _, t := range b.transitionFacts(phase) {
		if t.To == "" {
			return nil, false
		}
		targets = append(targets, t.To)
	}
	return targets, true
}
