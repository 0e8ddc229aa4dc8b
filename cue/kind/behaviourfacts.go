package kind

import (
	"slices"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// BehaviourFacts describe a behaviour to people, as far as its source shows.
type BehaviourFacts struct {
	// Children are those of all phases, and then those of each phase.
	Children []ChildFacts
	// Phases are in the order of the source.
	Phases []PhaseDetails
	// Status are the fields of the status that it writes, and Conditions the conditions.
	Status, Conditions []ValueFacts
	// Reads are what it reads of the object and of its children, as in object.spec.image and
	// observed.pods[*].status, sorted.
	Reads []string
}

// ChildFacts describe a child.
type ChildFacts struct {
	// Name is empty if it is computed, and Phase for a child of all phases.
	Name, Phase string
	// APIVersion and Kind are empty if they are not constant.
	APIVersion, Kind string
	Update           UpdatePolicy
	// OnDelete is what becomes of it when its object is deleted.
	OnDelete DeletePolicy
	// ObjectName and Namespace are the sources of its name and its namespace; empty if its template states none.
	ObjectName, Namespace string
	// Replicas is the source of the number of members; empty for a single object.
	Replicas string
	// Ordered means that the members are numbered.
	Ordered bool
	// When is the source of the condition to create it, and Ready that of whether it counts as ready; empty if there is
	// none.
	When, Ready string
	// Conditional means that it exists only if some condition holds.
	Conditional bool
	Position    place.Position
}

// PhaseDetails describe a phase.
type PhaseDetails struct {
	Name string
	PhaseFacts
	Next []TransitionFacts
}

// TransitionFacts describe a transition.
type TransitionFacts struct {
	To string
	// When, After, Cron, TimeZone and StartingDeadline are the sources of its fields; empty for
	// those that it has not.
	When, After, Cron, TimeZone, StartingDeadline string
	// Conditional means that an if can drop it.
	Conditional bool
}

// ValueFacts describe a field that a behaviour writes: its name, and its source.
type ValueFacts struct{ Name, Source string }

// NamesChildren reports whether names of children may follow from what the behaviour reads.
func (b *BehaviourFacts) NamesChildren() bool {
	return slices.ContainsFunc(b.Children, func(c ChildFacts) bool { return c.Name == "" })
}
