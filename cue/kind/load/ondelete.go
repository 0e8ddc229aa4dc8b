package load

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"

	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// collectOnDelete reads the phase that objects enter when they are deleted, and finds the phases that
// they may be in before.
func collectOnDelete(k Draft, controller cue.Value) error {
	source := facts.Of(k.Kind, k.Source)
	if onDelete := controller.LookupPath(pathOnDelete); onDelete.Exists() {
		var err error
		if k.OnDelete, err = constant(controller, pathOnDelete); err != nil {
			return err
		}
		phase, ok := k.Phases[k.OnDelete]
		known := slices.Sorted(maps.Keys(k.Phases))
		switch ways := source.WaysFrom(k.OnDelete); {
		case !ok && len(known) == 0:
			return syntax.ErrorAt(mistake.UnknownPhase, onDelete, "onDelete", "%q: the kind has no phases", k.OnDelete)
		case !ok:
			return syntax.ErrorAt(mistake.UnknownPhase, onDelete, "onDelete", "%q must be one of the phases: %s%s",
				k.OnDelete, strings.Join(known, ", "), types.DidYouMean(k.OnDelete, known))
		case phase.Terminal:
			return syntax.ErrorAt(mistake.EndlessDeletion, onDelete, "onDelete",
				"the phase %s is terminal, so nothing would be done in it: name a phase that leads to a terminal one",
				k.OnDelete)
		case !slices.ContainsFunc(ways, func(name string) bool { return k.Phases[name].Terminal }):
			return syntax.ErrorAt(mistake.EndlessDeletion, onDelete, "onDelete",
				"no terminal phase can be reached from %s, so a deleted object would never be gone", k.OnDelete)
		}
	}
	if k.Initial == "" {
		return nil
	}
	for _, name := range source.WaysFrom(k.Initial) {
		phase := k.Phases[name]
		phase.Lives = true
		k.Phases[name] = phase
	}
	return nil
}
