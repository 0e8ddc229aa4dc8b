package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Plan is the decision for one object. Nothing changes it after Decide.
type Plan struct {
	// Kind and Object are those of the decision; At is the time that counted as now.
	Kind   *kind.Kind
	Object *unstructured.Unstructured
	At     time.Time

	// Children are the objects that should exist.
	Children []kind.Child
	// Undecided is what the ifs around children read that is absent.
	Undecided []kind.Absence
	// Prune requests the deletion of children that belong to no phase and are no longer
	// wanted; children of a phase stay when it is left.
	Prune bool
	// Projection is the kind's own part of the status; nil keeps the present one.
	Projection map[string]any
	// Conditions are the kind's own, as far as Projection is not nil.
	Conditions []kind.Condition
	// Phase is the one that the object is in after Transitions, and Entered the time when
	// it entered it.
	Phase       string
	Entered     time.Time
	Transitions []Transition
	// WakeAt is when to reconcile although nothing has changed; zero means never.
	WakeAt time.Time
	// Again requests another plan as soon as the status is written: there is something to do in
	// the phase.
	Again bool
	// Deadline is how long the object may take to become ready; 0 means any time.
	Deadline time.Duration
	// Waited reports that a transition waited for a time that is over now.
	Waited bool
	// Stalled is the reason why nothing could be decided.
	Stalled *Problem

	created map[string]types.UID // in Phase, of children that are created once
}

// Transition is a change of phase; From is empty for the first phase.
type Transition struct{ From, To string }

// Problem is an error that requires user action.
type Problem struct{ Reason, Message string }

// The reasons of the condition Stalled.
const (
	reasonInvalid    = "InvalidObject"
	reasonEvaluation = "EvaluationFailed"
	reasonChild      = "ChildRejected"
	reasonGone       = "ChildGone"
)

// Decide returns the plan for an object. It changes nothing, and evaluates nothing but the
// kind.
func Decide(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) *Plan {
	p := unmoved(k, object, now)
	if k.Phases[p.Phase].Terminal {
		return p
	}
	checked := k.Check(object.Object).Stored()
	if len(checked.Errors) > 0 {
		p.Stalled = &Problem{reasonInvalid, checked.Errors.ToAggregate().Error()}
		return p
	}
	if err := p.follow(checked.Object, v); err != nil {
		return stalled(p, err)
	}
	return p
}

// unmoved returns a plan that leaves an object and its children as they are.
func unmoved(k *kind.Kind, object *unstructured.Unstructured, now time.Time) *Plan {
	return &Plan{
		Kind: k, Object: object, At: now,
		Phase: kind.PhaseOf(object.Object), Entered: enteredAt(object.Object), created: inventoryOf(object).created,
	}
}

// stalled returns a plan that reports an error of the kind's own text.
func stalled(p *Plan, err error) *Plan {
	instead := unmoved(p.Kind, p.Object, p.At)
	instead.Stalled = &Problem{reasonEvaluation, err.Error()}
	return instead
}

// follow takes the transitions that hold. It ends in the stored phase, or in the first phase after it
// that has something to do: such a phase is stored before anything is done in it, so that what is
// done belongs to a phase, and to a time, that outlive this process.
func (p *Plan) follow(object map[string]any, v *View) error {
	visited := append(slices.Clone(v.Passed), p.Phase)
	if p.Phase == "" && p.Kind.Initial != "" {
		visited[len(visited)-1] = p.Kind.Initial
		p.enter(p.Kind.Initial)
	}
	for {
		decision, seen, err := p.evaluate(withPhase(object, p.Phase, p.Entered), v.Children)
		if err != nil {
			return err
		}
		p.Projection, p.Conditions, p.Deadline = decision.Status, decision.Conditions, decision.Deadline
		if p.Projection == nil {
			p.Projection = map[string]any{}
		}
		if p.Kind.Phases[p.Phase].Terminal {
			return nil
		}
		next, timed, wakeAt := choose(decision.Next, p.Entered, p.At)
		waited := timed.After(p.Entered)
		isStored := len(p.Transitions) == 0
		isIdle := len(decision.Children) == 0 && len(decision.Undecided) == 0 && !seen.drops(nil, p.Object, v.Children)
		// A phase is left only when its children exist and those that it drops do not. If they
		// cannot be written, it is left when its time is over.
		isComplete := !timed.IsZero() || len(decision.Undecided) == 0 && seen.allExist(decision.Children, p.created) && !seen.drops(decision.Children, p.Object, v.Children)
		switch {
		case !isStored && (next == "" || !isIdle):
			p.WakeAt, p.Again = wakeAt, !isIdle
			return nil
		case next == "" || !isComplete:
			p.Children, p.Undecided, p.Prune, p.WakeAt, p.Again = decision.Children, decision.Undecided, len(decision.Undecided) == 0, wakeAt, next != ""
			return nil
		case slices.Contains(visited, next):
			return fmt.Errorf("phases %v lead back to %s without anything changing", visited, next)
		}
		visited = append(visited, next)
		p.Waited = p.Waited || waited
		p.enter(next)
	}
}

// maxObservations is how often a decision may change which objects are its children, by names that
// depend on them.
const maxObservations = 3

// evaluate asks the kind for a decision about the children that the decision itself names.
func (p *Plan) evaluate(object map[string]any, children []LiveChild) (*kind.Decision, observation, error) {
	seen := observe(p.Kind, p.Object, children)
	for range maxObservations {
		decision, err := p.Kind.Decide(object, seen.values(p.Kind))
		if err != nil {
			return nil, seen, err
		}
		exact, same := seen.of(decision, p.Object, children)
		if same {
			return decision, seen, nil
		}
		seen = exact
	}
	return nil, seen, errors.New("the names of the children depend on the children in a circle")
}

func (p *Plan) enter(phase string) {
	p.Transitions = append(p.Transitions, Transition{p.Phase, phase})
	p.Phase, p.Entered, p.created = phase, p.At, make(map[string]types.UID)
}

// choose returns the first transition that holds, and the time from which it does if it states
// one. If none holds, it returns the earliest time at which one will.
func choose(next []kind.Transition, entered, now time.Time) (to string, since, wakeAt time.Time) {
	for _, t := range next {
		switch {
		case !t.When:
			continue
		case t.After == nil:
			return t.To, time.Time{}, time.Time{}
		}
		due := t.After.Due(entered)
		if !due.After(now) {
			return t.To, due, time.Time{}
		}
		if wakeAt.IsZero() || due.Before(wakeAt) {
			wakeAt = due
		}
	}
	return "", time.Time{}, wakeAt
}

// withPhase returns a shallow copy of an object whose status has a phase that it has just entered.
func withPhase(object map[string]any, phase string, entered time.Time) map[string]any {
	if phase == "" || kind.PhaseOf(object) == phase {
		return object
	}
	old, _ := object["status"].(map[string]any)
	status := maps.Clone(old)
	if status == nil {
		status = make(map[string]any)
	}
	status["phase"] = phase
	status["lastPhaseTransitionTime"] = entered.UTC().Format(timeFormat)
	result := maps.Clone(object)
	result["status"] = status
	return result
}

// timeFormat is RFC 3339 to the millisecond, the precision of delays in a phase.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// enteredAt reads status.lastPhaseTransitionTime; an absent one is the zero time.
func enteredAt(object map[string]any) time.Time {
	status, _ := object["status"].(map[string]any)
	text, _ := status["lastPhaseTransitionTime"].(string)
	entered, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return entered
}
