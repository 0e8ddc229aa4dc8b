package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
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
	// Scheduled is the last time of a schedule that was met; Missed is one that it is too late for,
	// as long as the phase waits for the next.
	Scheduled, Missed time.Time
	// WakeAt is when to reconcile although nothing has changed; zero means never.
	WakeAt time.Time
	// Again requests another plan as soon as the status is written: there is something to do in
	// the phase.
	Again bool
	// Deadline is how long the object may take to become ready; 0 means any time.
	Deadline time.Duration
	// Waited reports that a transition waited for a time that is over now.
	Waited bool
	// Leaving reports that the object is being deleted and has entered the phase for that.
	Leaving bool
	// Stalled is the reason why nothing could be decided.
	Stalled *Problem

	created map[string]types.UID // in Phase, of children that are created once
	known   map[string]types.UID // the same in the phase that is stored
	places  kind.Places          // of the children; nil is any
	// orphaned means that the garbage collector took the owner references off the children before the object goes.
	orphaned bool
	// abandoned means that nothing more can be created for an object that is being deleted, because its namespace is as
	// well.
	abandoned bool
	passed    []passage // the phases left since anything but the phase, or time, has changed

	failure error        // that Stalled describes, if the kind cannot be evaluated
	hidden  func() *Plan // the same decision without values that are sensitive; nil if the kind sees none
}

// Transition is a change of phase, or a phase that is entered again; From is empty for the first phase.
type Transition struct{ From, To string }

// Problem is an error that requires user action.
type Problem struct{ Reason, Message string }

// The reasons of a Problem: of the condition Stalled, or of Reconciling while it may pass (retry.go). Those of other
// conditions stand in status.go and uptake.go.
const (
	reasonInvalid    = "InvalidObject"
	reasonEvaluation = "EvaluationFailed"
	reasonChild      = "ChildRejected"
	reasonGone       = "ChildGone"
	reasonEndless    = "EndlessChildren"
	reasonQuota      = "QuotaExceeded"
	reasonTooLarge   = "StatusTooLarge"
	// reasonContested and reasonReplaced are for corrections that are delayed (corrections.go).
	reasonContested = "Contested"
	reasonReplaced  = "ReplacedRepeatedly"
	// ReasonNoProgress is for a behaviour that never becomes idle (progress.go).
	ReasonNoProgress = "NoProgress"
)

// Decide returns the plan for an object. It changes nothing, and evaluates nothing but the
// kind.
func Decide(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) *Plan {
	p := decide(k, object, v, now)
	p.hide(v, func(object *unstructured.Unstructured, v *View) *Plan { return decide(k, object, v, now) })
	return p
}

func decide(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) *Plan {
	p := unmoved(k, object, now)
	p.recall(v.Seen)
	p.orphaned = wereOrphaned(k, object, v)
	if p.abandoned = v.Abandoned; p.abandoned || isLeaving(k, object) && k.OnDelete == "" {
		p.Leaving = true
		return p // nothing is left but what its children elsewhere need
	}
	if k.Phases[p.Phase].Terminal && (p.Leaving || !isLeaving(k, object)) {
		return p
	}
	if k.Target != nil && !children.Decorates(k, object) {
		p.Prune = true // it has no children, or no longer
		return p
	}
	b := v.Budget
	if b == nil {
		b = k.NewBudget()
	}
	checked := k.Check(b, object.Object).Stored()
	if len(checked.Errors) > 0 {
		p.Stalled = &Problem{reasonInvalid, checked.Errors.ToAggregate().Error()}
		return p
	}
	present := checked.Object
	if v.hidesStatus { // once it is checked: other values might not be valid
		present = hideStatus(k, present)
	}
	if err := p.follow(b, present, v); err != nil {
		return stalled(p, err)
	}
	if k.Scope == apiextensionsv1.ClusterScoped || len(k.Elsewhere) > 0 {
		// Admission asks about these namespaces, and about all if they cannot be told.
		places, err := k.PlacesOf(b, checked.Object)
		if b.IsExceeded() {
			return stalled(p, err)
		}
		p.places = places
	}
	return p
}

// unmoved returns a plan that leaves an object and its children as they are.
func unmoved(k *kind.Kind, object *unstructured.Unstructured, now time.Time) *Plan {
	if k.Target != nil { // whatever the status is, it is that of others
		return &Plan{Kind: k, Object: object, At: now}
	}
	created := children.InventoryOf(object).Created
	p := &Plan{
		Kind: k, Object: object, At: now,
		Phase: k.PhaseOf(object.Object), Entered: timeIn(object.Object, enteredField), created: created, known: created,
		Leaving: isLeaving(k, object) && hasLeft(object),
	}
	if k.RecordsSchedule {
		p.Scheduled = timeIn(object.Object, kind.LastScheduleTime)
	}
	return p
}

// unmoved returns a plan that does nothing instead, and knows the same children.
func (p *Plan) unmoved() *Plan {
	instead := unmoved(p.Kind, p.Object, p.At)
	instead.created, instead.known, instead.orphaned = p.known, p.known, p.orphaned
	return instead
}

// stalled returns a plan that reports an error of the kind's own text.
func stalled(p *Plan, err error) *Plan {
	instead := p.unmoved()
	instead.Stalled, instead.failure = &Problem{reasonEvaluation, err.Error()}, err
	return instead
}

// turn is what a plan does in a phase.
type turn string

const (
	// act brings the children to what the phase wants.
	act turn = "act"
	// store does nothing before the phase is stored.
	store turn = "store"
	// move takes the transition that holds.
	move turn = "move"
)

// turnIn returns what a plan does in a phase. A phase that has something to do is stored before anything is done in it,
// so that what is done belongs to a phase, and to a time, that outlive this process. A phase is left only when it is
// complete.
//
//	stored  transition  idle  complete
//	no      none        –     –         store
//	no      holds       no    –         store
//	no      holds       yes   yes       move: an idle phase is complete
//	yes     none        –     –         act
//	yes     holds       –     no        act
//	yes     holds       –     yes       move
func turnIn(isStored, holds, isIdle, isComplete bool) turn {
	switch {
	case !isStored && (!holds || !isIdle):
		return store
	case !holds || !isComplete:
		return act
	}
	return move
}

// follow takes the transitions that hold. It ends in the stored phase, or in the first phase after it that has
// something to do.
func (p *Plan) follow(b *kind.Budget, object map[string]any, v *View) error {
	p.passed = slices.Clone(v.Passed)
	switch {
	case isLeaving(p.Kind, p.Object) && !p.Leaving:
		p.Leaving = true
		p.enter(p.Kind.OnDelete, v.Children)
		p.passed = nil // they may be entered again: that ends, because an object is deleted once
	case p.Phase == "" && p.Kind.Initial != "":
		p.enter(p.Kind.Initial, v.Children)
	}
	if v.Found != nil && v.Found.Err != nil {
		return v.Found.Err
	}
	for {
		decision, seen, err := p.evaluate(b, p.entered(object), v)
		if err != nil {
			return err
		}
		p.Projection, p.Conditions, p.Deadline = decision.Status, decision.Conditions, decision.Deadline
		isStored := len(p.Transitions) == 0
		if isStored {
			p.see(decision.Children, v.Children)
		}
		if p.Kind.Phases[p.Phase].Terminal {
			p.Again = p.Leaving // what is left of the object goes
			return nil
		}
		next := p.choose(decision.Next)
		p.Missed = next.missed
		waited := next.since.After(p.Entered)
		isIdle := len(decision.Children) == 0 && len(decision.Undecided) == 0 && !seen.drops(p, nil, v.Children)
		// A phase whose children cannot be written is left when its time is over.
		isComplete := !next.since.IsZero() || p.isComplete(decision, seen, v)
		switch turnIn(isStored, next.to != "", isIdle, isComplete) {
		case store:
			p.WakeAt, p.Again = next.wakeAt, !isIdle
			return nil
		case act:
			p.Children, p.Undecided, p.Prune, p.WakeAt, p.Again = decision.Children, decision.Undecided,
				len(decision.Undecided) == 0, next.wakeAt, next.to != ""
			return nil
		}
		if i := p.passedAs(); !waited && (i >= 0 || next.to == p.Phase) {
			var names []string
			for _, before := range p.passed[max(i, 0):] {
				names = append(names, before.phase)
			}
			if i < 0 {
				names = append(names, p.Phase)
			}
			return fmt.Errorf("phases %v lead back to %s without anything changing", names, p.Phase)
		}
		p.Waited = p.Waited || waited
		p.Scheduled = later(p.Scheduled, next.scheduled)
		p.enter(next.to, v.Children)
		if waited {
			p.passed = nil // they may be entered again: that ends, because time has to pass
		}
	}
}

// maxObservations is how often a decision may change which objects are its children, by names that
// depend on them.
const maxObservations = 3

// evaluate asks the kind for a decision about the children that the decision itself names, and what was
// found apart from them.
func (p *Plan) evaluate(b *kind.Budget, object map[string]any, v *View) (*kind.Decision, observation, error) {
	existing := v.Children
	seen := p.observe(existing)
	for range maxObservations {
		observed, err := v.Found.addTo(seen.values(p.Kind))
		if err != nil {
			return nil, seen, err
		}
		decision, err := p.Kind.Decide(b, object, observed)
		if err != nil {
			return nil, seen, err
		}
		v.Found.explain(decision)
		exact, same := seen.of(p, decision, existing)
		if same {
			return decision, seen, nil
		}
		seen = exact
	}
	return nil, seen, errors.New("the names of the children depend on the children in a circle")
}

// isComplete reports whether the children of a decision exist as their templates are now, and those that it drops are
// gone. An object that is being deleted gets only the children of its phases, so what the ifs around others wait for
// may never exist again.
func (p *Plan) isComplete(decision *kind.Decision, seen observation, v *View) bool {
	due, isDecided := decision.Children, len(decision.Undecided) == 0
	if p.Leaving {
		due = slices.DeleteFunc(slices.Clone(due), func(c kind.Child) bool { return c.Phase == "" })
	}
	if !seen.allExist(due, p.created) {
		return false
	}
	if !isDecided || p.Leaving {
		return p.Leaving && (!isDecided || !seen.drops(p, decision.Children, v.Children))
	}
	return !seen.drops(p, decision.Children, v.Children) && !p.isDropping(decision.Children, v.Children)
}

func (p *Plan) enter(phase string, existing []children.Live) {
	p.Transitions = append(p.Transitions, Transition{p.Phase, phase})
	if p.Phase != "" {
		p.passed = append(p.passed, passage{p.Phase, p.ownStatus()})
	}
	p.Phase, p.Entered, p.created = phase, p.At, make(map[string]types.UID)
	p.distinguish(existing)
}

// passage is a phase that was left, with what the kind had in the status then.
type passage struct {
	phase  string
	status map[string]any
}

// passedAs returns which of the passed phases is the present one, with the same status; -1 is none. What the kind
// writes to the status of a phase may decide what follows when it is entered again.
func (p *Plan) passedAs() int {
	status := p.ownStatus()
	return slices.IndexFunc(p.passed, func(before passage) bool {
		return before.phase == p.Phase && equality.Semantic.DeepEqual(before.status, status)
	})
}

// ownStatus returns the stored status without the fields of the engine.
func (p *Plan) ownStatus() map[string]any {
	stored, _ := p.Object.Object["status"].(map[string]any)
	own := maps.Clone(stored)
	maps.DeleteFunc(own, func(name string, _ any) bool { return p.Kind.IsEngineStatus(name) })
	return own
}

// choice is the transition to take.
type choice struct {
	// to is the phase that it leads to; it is empty if no transition holds.
	to string
	// since is the time from which it holds, if it states one; scheduled is the same if that is a
	// time of a schedule.
	since, scheduled time.Time
	// wakeAt is the earliest time at which a transition will hold, if none does; missed is the last
	// one of a schedule that was not met in time.
	wakeAt, missed time.Time
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// choose returns the first transition that holds.
func (p *Plan) choose(next []kind.Transition) (c choice) {
	wait := func(until time.Time) {
		if c.wakeAt.IsZero() || until.Before(c.wakeAt) {
			c.wakeAt = until
		}
	}
	// A time of a schedule is met once, also if the clock is set back.
	met := later(p.Entered, p.Scheduled)
	for _, t := range next {
		switch {
		case !t.When:
		case t.Cron != nil:
			last, next := t.Cron.Around(met, p.At)
			if !last.IsZero() && !t.Missed(last, p.At) {
				return choice{to: t.To, since: last, scheduled: last}
			}
			if !last.IsZero() {
				c.missed = last
			}
			if !next.IsZero() {
				wait(next)
			}
		case t.After == nil:
			return choice{to: t.To}
		default:
			due := t.After.Due(p.Entered)
			if !due.After(p.At) {
				return choice{to: t.To, since: due}
			}
			wait(due)
		}
	}
	return c
}

// entered returns an object whose status has the phase that the plan has entered; it is a shallow copy.
func (p *Plan) entered(object map[string]any) map[string]any {
	if len(p.Transitions) == 0 {
		return object
	}
	old, _ := object["status"].(map[string]any)
	status := maps.Clone(old)
	if status == nil {
		status = make(map[string]any)
	}
	p.setPhase(status)
	result := maps.Clone(object)
	result["status"] = status
	return result
}

// setPhase sets the engine's fields of a status that belong to the phase.
func (p *Plan) setPhase(status map[string]any) {
	if p.Phase == "" {
		return
	}
	status["phase"] = p.Phase
	if !p.Entered.IsZero() {
		status[enteredField] = children.EntryOf(p.Entered)
	}
	if !p.Scheduled.IsZero() {
		status[kind.LastScheduleTime] = p.Scheduled.UTC().Format(time.RFC3339)
	}
}

// IsScheduleRecorded reports whether the stored status of an object has the time of the schedule that
// was met, so that it is not met again.
func (p *Plan) IsScheduleRecorded(stored *unstructured.Unstructured) bool {
	return p.Scheduled.IsZero() || timeIn(stored.Object, kind.LastScheduleTime).Equal(p.Scheduled)
}

// enteredField is the status field with the time when the phase was entered.
const enteredField = "lastPhaseTransitionTime"

// timeIn reads a time in the status; an absent one is the zero time.
func timeIn(object map[string]any, field string) time.Time {
	status, _ := object["status"].(map[string]any)
	text, _ := status[field].(string)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t
}
