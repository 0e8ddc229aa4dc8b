package kind

import (
	"errors"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/budget"
)

// Budget bounds what is computed for one object in one reconcile or review, to which it belongs: all
// steps of evaluation, validation, defaults and conversion count together. It is for one goroutine.
type Budget = budget.Budget

// NewBudget returns the budget for one object of the kind.
func (k *Kind) NewBudget() *Budget { return budget.New(k.Title()) }

// exceeded returns the error of what was computed for an object, if only that its budget is exceeded: parts may
// be missing then.
func exceeded(b *Budget, err error) error {
	if err != nil || !b.IsExceeded() {
		return err
	}
	return &EvaluationError{Path: behaviour.ObjectName, Err: errors.New(b.Excess()), Rule: b.Excess()}
}
