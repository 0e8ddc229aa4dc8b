package kind

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
)

// EvaluationError means that a kind's controller cannot be evaluated for an object. Either
// the kind is wrong, or its schema should have rejected the object.
type EvaluationError struct {
	// Path is where in the #XController the failure is.
	Path string
	// Err is the failure.
	Err error
	// Rule is the failure without the values that it is about. It is empty if that is not known.
	Rule string
	// Position is the place in CUE; it may be unknown.
	Position place.Position
	// Value is the wrong value, if there is one.
	Value any
}

func (e *EvaluationError) Error() string {
	return e.Path + ": " + e.Err.Error() + suffix(e.Position)
}

// WithoutValues describes the failure without any value, for a behaviour that reads what must not be shown. Of the
// path, it has the field of the contract; other names may follow from what is read.
func (e *EvaluationError) WithoutValues() string {
	field, _, _ := strings.Cut(e.Path, ".")
	if !slices.Contains(behaviourFields, field) {
		field = "the behaviour"
	}
	return field + ": " + cmp.Or(e.Rule, "a value is not valid") + suffix(e.Position)
}

// behaviourFields are those of a behaviour in which an evaluation can fail.
var behaviourFields = []string{"children", "status", "conditions", "deadline", "phases", "next", ReadsName,
	behaviour.ObjectName, behaviour.ObservedName, behaviour.InjectName}

func (e *EvaluationError) Unwrap() error { return e.Err }
