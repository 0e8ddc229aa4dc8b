package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// deadlocks advises on children that wait for each other, or for themselves.
func (c *Checker) deadlocks() {
	for i, first := range c.kept {
		var follow func(child *checkedChild, path []string, seen map[*checkedChild]bool) []string
		follow = func(child *checkedChild, path []string, seen map[*checkedChild]bool) []string {
			for _, name := range child.waits {
				next := c.waitedFor(child, name)
				switch at := slices.Index(c.kept, next); {
				case next == first:
					return path
				case next == nil || at < i || seen[next]:
					continue
				}
				seen[next] = true
				if cycle := follow(next, append(slices.Clip(path), next.path), seen); cycle != nil {
					return cycle
				}
			}
			return nil
		}
		cycle := follow(first, []string{first.path}, make(map[*checkedChild]bool))
		if cycle == nil {
			continue
		}
		text := fmt.Sprintf("%s wait for each other, so none of them is ever created", strings.Join(cycle, ", "))
		if len(cycle) == 1 {
			text = fmt.Sprintf("%s waits for itself, so it is never created: observed.%s does not exist before",
				first.path, first.name)
		}
		c.advice = append(c.advice,
			kind.Advice{Check: mistake.WaitingCycle, Field: first.path, Position: syntax.PositionOf(first.node),
				Text: text})
	}
}

// waitedFor returns the child of a name that has to exist for another; nil if it is not known which.
func (c *Checker) waitedFor(child *checkedChild, name string) (found *checkedChild) {
	for _, other := range c.kept {
		switch {
		case other.name != name:
		case found != nil || other.phase != "" && child.phase != other.phase:
			return nil // it may be there from another phase
		default:
			found = other
		}
	}
	return found
}
