package plan

import (
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// formerRetry is when to read children again for which rights are missing: often enough for someone
// who has just granted them.
const formerRetry = 5 * time.Minute

// Outcome is the outcome of a plan.
type Outcome struct {
	// Obstacles are those that the last requests have met, and whether a child waits without any.
	Obstacles
	// States are those of the children.
	States []ChildState
	// Children are all that exist, after the writes.
	Children []children.Live
	// Foreign are the objects that look like children and were not created for the object.
	Foreign []children.Live
	// Strays are the steps that deleted unmanaged objects.
	Strays []Step
	// Passed are the phases that were left since anything but the phase has changed.
	Passed []passage
	// NotReadySince is when an object that never ends stopped being ready, and Late reports
	// that this is longer ago than the deadline.
	NotReadySince time.Time
	Late          bool
	// Uptake counts what Pods have of the object, if its kind injects.
	Uptake Uptake
	// Leaving are the children that have to be gone before others, and then the object, are. Abandoned reports that
	// nothing can be done for an object that is being deleted, because its namespace is being deleted as well.
	Leaving   []children.Live
	Abandoned bool
	// Altered are the children of which the API server has stored other values than their templates have.
	Altered error
	// WakeAt is when to reconcile although nothing has changed; zero means never. phaseEnds is when time ends the
	// phase, which may be later.
	WakeAt, phaseEnds time.Time
	// Stalled is the problem that requires user action: the plan's, or else one of carrying
	// it out. Passing is one that is expected to pass, and PassingSince when it began.
	Stalled, Passing *Problem
	PassingSince     time.Time

	// isOver means that nothing holds back the deletion of an object any longer, and lingers that one waits in a phase,
	// so that its namespace has to be asked for again.
	isOver, lingers bool
	// isUnwatched means that no event shows when a child is gone that is being deleted.
	isUnwatched bool
	// isDoubted means that the status lists places in which the caches have no child.
	isDoubted bool
	// isUnfinished means that there is more to write, or to decide, than one reconcile may, and isPending that
	// something is left, whether or not it can be done now: the object is not idle.
	isUnfinished, isPending bool
	// goesOn means that another plan may do more, and wrote that any child was written.
	goesOn, wrote bool

	undecided []kind.Absence
	inventory children.Inventory
	former    map[schema.GroupVersionKind]error
	unread    []string
}

// outcomeOf returns the outcome of a plan, given the children as they are now and the last
// writes.
func outcomeOf(p *Plan, c *Comparison, done *Changes, v *View) *Outcome {
	o := &Outcome{
		States: c.States, Children: v.Children, Foreign: c.Foreign, Obstacles: done.Obstacles,
		WakeAt: p.WakeAt, phaseEnds: p.WakeAt, Uptake: v.Uptake, Stalled: p.Stalled, undecided: p.Undecided,
		Leaving: c.Leaving, Altered: c.Altered,
	}
	o.Waiting = o.Waiting || c.Waiting || len(c.Leaving) > 0
	o.Abandoned, o.lingers, o.isUnwatched = v.Abandoned, p.lingers(), v.Unwatched
	o.isOver = p.isOver() && len(c.Leaving) == 0 && !done.IsObstructed() &&
		(v.isSure(p.Object) || !children.Reaches(p.Kind, p.Object))
	if len(p.Transitions) > 0 {
		o.Passed = p.passed
	}
	o.inventory, o.former, o.unread = takeInventory(p, v), v.Former, v.unread(p.Object)
	o.inventory.Elsewhere, o.isDoubted = takePlaces(p, v)
	if len(o.inventory.Elsewhere) > 0 {
		o.inventory.Known = takeKnown(p, v)
	}
	o.goesOn = p.Again || c.Unlisted && !o.isOver
	if o.unreadable() != "" || len(o.unread) > 0 {
		o.wake(p.At.Add(formerRetry))
	}
	if c.Altered != nil {
		o.wake(c.AlteredRetry)
	}
	if c.Gone != nil && o.Stalled == nil {
		o.Stalled = &Problem{reasonGone, joined(c.Gone.Error(), p.phaseMayEnd())}
	}
	if err := errors.Join(c.Rejected, done.Rejected); err != nil && o.Stalled == nil {
		o.noteRejection(p, err)
	}
	o.judge(p)
	if v.InjectionErr != nil && o.Stalled == nil {
		o.Stalled = &Problem{reasonEvaluation, v.InjectionErr.Error()}
	}
	return o
}

// wake makes the object be reconciled at a time, if it is not before.
func (o *Outcome) wake(at time.Time) { o.WakeAt = Earlier(o.WakeAt, at) }

// judge finds how long an object that never ends has not been ready, and whether that is
// too long.
func (o *Outcome) judge(p *Plan) {
	if p.Kind.Ends() || p.Kind.Target != nil {
		return
	}
	status, _ := p.Object.Object["status"].(map[string]any)
	o.NotReadySince = p.At
	before := meta.FindStatusCondition(conditionsOf(status), kind.ConditionReady)
	if before != nil && before.Status == metav1.ConditionFalse &&
		before.ObservedGeneration == p.Object.GetGeneration() {
		// A new spec begins a new attempt to become ready.
		o.NotReadySince = before.LastTransitionTime.Time
	}
	if p.Deadline > 0 && !p.Leaving && (o.Stalled != nil || !o.allReady()) {
		due := o.NotReadySince.Add(p.Deadline)
		if o.Late = !p.At.Before(due); !o.Late {
			o.wake(due)
		}
	}
}

func (o *Outcome) allReady() bool {
	return len(o.undecided) == 0 && !slices.ContainsFunc(o.States, func(s ChildState) bool { return !s.isReady() })
}

// isWaiting reports whether a child is not created, or not known to be wanted, because of what is
// absent or because of its when.
func (o *Outcome) isWaiting() bool {
	return len(o.undecided) > 0 || slices.ContainsFunc(o.States, func(s ChildState) bool { return s.waiting != "" })
}

// waiting describes the states of the children, and what the ifs around them wait for.
func (o *Outcome) waiting() string {
	text := describeStates(o.States)
	if len(o.undecided) == 0 {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + "an if around children: " + kind.WaitingFor(o.undecided)
}

// Problem returns what keeps an object whose status is not written from having all its children; nil
// is nothing.
func (o *Outcome) Problem() *Problem {
	switch {
	case o.Stalled != nil:
		return o.Stalled
	case o.Failed != nil:
		return &Problem{"ReconcileFailed", o.Failed.Error()}
	}
	return o.Passing
}

// isReady reports whether all children of an object are as they should be.
func (o *Outcome) isReady() bool {
	return o.Stalled == nil && o.Passing == nil && o.Failed == nil && o.allReady()
}

// IsDue reports whether a status that Report returned is to be written. The record of a child that is created once
// waits for RecordAt, or for another reason to write.
func (o *Outcome) IsDue(p *Plan, status map[string]any) bool {
	stored, _ := p.Object.Object["status"].(map[string]any)
	if equality.Semantic.DeepEqual(stored, status) {
		return false
	}
	if at := o.RecordAt(p, p.Object); !at.IsZero() && !at.After(p.At) {
		return true
	}
	return !equality.Semantic.DeepEqual(withoutCreated(stored), withoutCreated(status))
}

// withoutCreated returns a status without the record of the children that are created once.
func withoutCreated(status map[string]any) map[string]any {
	result := maps.Clone(status)
	inventory, _ := result[kind.ChildInventory].(map[string]any)
	inventory = maps.Clone(inventory)
	if delete(inventory, "created"); len(inventory) == 0 {
		delete(result, kind.ChildInventory)
	} else {
		result[kind.ChildInventory] = inventory
	}
	return result
}

// IsListed reports whether the stored status of an object has the places in which it has children, and whether these
// were orphaned.
func (o *Outcome) IsListed(stored *unstructured.Unstructured) bool {
	listed := children.InventoryOf(stored)
	return slices.Equal(listed.Elsewhere, o.inventory.Elsewhere) && listed.Orphaned == o.inventory.Orphaned
}

// stayInPhase returns what to report instead of a change of phase that has to wait because of a problem.
func stayInPhase(p *Plan, o *Outcome, problem *Problem) (*Plan, *Outcome) {
	instead := p.unmoved()
	instead.Stalled = problem
	return instead, &Outcome{
		States: o.States, Children: o.Children, NotReadySince: o.NotReadySince, Uptake: o.Uptake,
		Obstacles: Obstacles{Held: true}, Stalled: problem,
		former: o.former, inventory: heldInventory(instead, o), isUnwatched: o.isUnwatched,
	}
}

// heldInventory is the inventory of an object for which nothing is done now.
func heldInventory(p *Plan, o *Outcome) children.Inventory {
	i := takeInventory(p, &View{Children: o.Children, Former: o.former})
	stored := children.InventoryOf(p.Object)
	i.Elsewhere, i.Known = stored.Elsewhere, stored.Known
	return i
}

// Shortened returns the same without what the kind projects into the status, which is too large to be stored with it.
// The phase, and what the engine has to know, are kept, so that a deletion and the work on children continue.
func Shortened(p *Plan, o *Outcome, err error) (*Plan, *Outcome) {
	short, instead := *p, *o
	short.Projection, short.Conditions = map[string]any{}, nil
	if instead.Stalled == nil {
		instead.Stalled = &Problem{reasonTooLarge, "the status that the kind computes is too large to be stored: " +
			err.Error()}
	}
	return &short, &instead
}

// Unreportable returns what to report instead when the status of a plan is not valid: the
// kind projects what its schema does not allow.
func Unreportable(p *Plan, o *Outcome, err error) (*Plan, *Outcome) {
	instead := stalled(p, err)
	inventory := children.InventoryOf(p.Object)
	inventory.Created = instead.created
	return instead, &Outcome{Children: o.Children, NotReadySince: o.NotReadySince, Uptake: o.Uptake,
		Stalled: instead.Stalled, inventory: inventory}
}
