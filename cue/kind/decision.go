package kind

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/cue/kind/place"
)

// Decision states what a kind wants for one object in its present phase.
type Decision struct {
	// Children are the objects to keep in place, sorted by name.
	Children []Child
	// Undecided is what the ifs around children read that is absent: whether the kind wants the
	// children that they guard is not known. While there is any, no child may be deleted for not
	// being one of Children.
	Undecided []Absence
	// Next are the transitions out of the phase; the first that holds is to be taken.
	Next []Transition
	// Status is the kind's own part of the status, without the fields that read something absent.
	Status map[string]any
	// Conditions are the kind's own, sorted by type.
	Conditions []Condition
	// Deadline is how long the object may take to become ready; 0 means any time.
	Deadline time.Duration
}

// Child is an object, or a set of objects, that the controller keeps in place.
type Child struct {
	// Name is the name in the kind, not that of the object.
	Name string
	// Phase is the phase that the child belongs to; it is empty for a child of all phases.
	Phase string
	// Template is the object as far as the kind specifies it; of an ordered set, the first member. It
	// is nil while the child reads something absent: then the child is neither created, nor changed,
	// nor deleted.
	Template map[string]any
	// Update is the action for a child that differs from its template.
	Update UpdatePolicy
	// OnDelete is what becomes of the child when its object is deleted.
	OnDelete DeletePolicy `json:",omitempty"`
	// Set is nil for a single object.
	Set *Set `json:",omitempty"`
	// Delayed means that the child is not created, because its when does not hold. A child that
	// exists is kept in place.
	Delayed bool `json:",omitempty"`
	// Absent is what the template or when reads that is absent.
	Absent []Absence `json:",omitempty"`
	// Ready is whether the child is ready; nil leaves that to kstatus.
	Ready *bool `json:",omitempty"`
}

// Set states what a kind wants of the members of a set.
type Set struct {
	// Replicas is the desired number of members.
	Replicas int
	// MaxUnavailable is how many members may be unavailable while they are replaced, 1 or
	// more.
	MaxUnavailable int
	// DeleteStrays asks for the deletion of unmanaged objects with the template's labels.
	DeleteStrays bool
	// Ordered asks for members that are numbered from 0 on, and for one change at a time.
	Ordered bool `json:",omitempty"`
	// Members are the templates of the members of an ordered set, by their numbers. One that reads
	// something absent is nil.
	Members []map[string]any `json:",omitempty"`
	// Absent is what the templates of members read that is absent.
	Absent []Absence `json:",omitempty"`
}

// UpdatePolicy is the action for a child that differs from its template.
type UpdatePolicy string

const (
	// Apply corrects the child by server-side apply.
	Apply UpdatePolicy = "Apply"
	// Recreate deletes the child, and creates it again once it is gone.
	Recreate UpdatePolicy = "Recreate"
	// Never leaves the child unchanged.
	Never UpdatePolicy = "Never"
)

// DeletePolicy is what becomes of a child when its object is deleted.
type DeletePolicy string

const (
	// Delete deletes the child as well.
	Delete DeletePolicy = "Delete"
	// Orphan leaves it.
	Orphan DeletePolicy = "Orphan"
)

// Condition is one of the kind's own. Its status is Unknown, with ReasonWaiting, while the
// condition reads something absent.
type Condition struct {
	Type            string
	Status          metav1.ConditionStatus
	Reason, Message string
}

// ReasonWaiting is the reason of a condition that waits for something absent.
const ReasonWaiting = "Waiting"

// Absence is something that an expression reads and that does not exist: a part of observed, or an
// optional field of the object.
type Absence struct {
	// Path is the expression as it is written, up to the part that is absent, as in
	// observed.db.status.address.
	Path string
	// Position is where it is written.
	Position place.Position
	// Reason is why it is absent; it is empty if that is not known.
	Reason string `json:",omitempty"`
}

// String returns the path, the place and the reason.
func (a Absence) String() string {
	text := a.Path + suffix(a.Position)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

// suffix returns a place as the end of a sentence.
func suffix(at place.Position) string {
	if at.File == "" {
		return ""
	}
	return " (" + at.String() + ")"
}
