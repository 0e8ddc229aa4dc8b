package load

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"

	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// collectOnDelete reads the phase that objects enter when they are deleted, and finds the phases that
// they may be in before.
func collectOnDelete(k Draft, controller cue.Value) error {
	c := check.New(k.Kind, k.Source, nil)
	if onDelete := controller.LookupPath(pathOnDelete); onDelete.Exists() {
		var err error
		if k.OnDelete, err = constant(controller, pathOnDelete); err != nil {
			return err
		}
		facts, ok := k.Phases[k.OnDelete]
		known := slices.Sorted(maps.Keys(k.Phases))
		switch ways := c.WaysFrom(k.OnDelete); {
		case !ok:
			return syntax.ErrorAt(onDelete, "onDelete", "%q must be one of the phases: %s%s", k.OnDelete, strings.Join(known, ", "), types.DidYouMean(k.OnDelete, known))
		case facts.Terminal:
			return syntax.ErrorAt(onDelete, "onDelete", "the phase %s is terminal, so nothing would be done in it: name a phase that leads to a terminal one", k.OnDelete)
		case !slices.ContainsFunc(ways, func(name string) bool { return k.Phases[name].Terminal }):
			return syntax.ErrorAt(onDelete, "onDelete", "no terminal phase can be reached from %s, so a deleted object would never be gone", k.OnDelete)
		}
	}
	if k.Initial == "" {
		return nil
	}
	for _, name := range c.WaysFrom(k.Initial) {
		facts := k.Phases[name]
		facts.Lives = true
		k.Phases[name] = facts
	}
	return nil
}
