package plan

import (
	"fmt"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind"
)

// ChildState counts the objects of a child: a single object is a set of one.
type ChildState struct {
	name string
	// set reports that it has members, and ordered that they change one at a time.
	set, ordered bool
	// wanted is the desired number of objects, ready the number of those that are ready, and
	// outdated the number of those with an older template.
	wanted, ready, outdated int
	// waiting describes what the child waits for; it is empty if it waits for nothing.
	waiting string
}

func (s ChildState) isReady() bool {
	return s.waiting == "" && s.ready == s.wanted && s.outdated == 0
}

// String returns the state as conditions show it.
func (s ChildState) String() string {
	if s.waiting != "" {
		return s.name + ": " + s.waiting
	}
	if !s.set {
		if s.isReady() {
			return s.name + ": ready"
		}
		return s.name + ": not ready"
	}
	text := fmt.Sprintf("%s: %d of %d ready", s.name, s.ready, s.wanted)
	if s.outdated > 0 {
		text += fmt.Sprintf(", %d of an older template", s.outdated)
	}
	return text
}

// delayed describes what a child waits for that is not created yet.
func delayed(child kind.Child) string {
	if len(child.Absent) > 0 {
		return kind.WaitingFor(child.Absent)
	}
	return "waiting until its when holds"
}

func describeStates(states []ChildState) string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = s.String()
	}
	return strings.Join(all, "; ")
}
