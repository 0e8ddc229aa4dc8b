package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Report returns the desired status of an object: the kind's projection and the engine's own
// fields over it. A time in it changes only together with the fact that it dates, so that the
// status stays the same until something happens.
func Report(p *Plan, o *Outcome) (map[string]any, error) {
	old, _ := p.Object.Object["status"].(map[string]any)
	status := maps.Clone(p.Projection)
	if status == nil {
		status = maps.Clone(old)
	}
	if status == nil {
		status = make(map[string]any)
	}
	p.setPhase(status)
	status["observedGeneration"] = p.Object.GetGeneration()
	delete(status, kind.ChildInventory)
	if stored := o.inventory.Status(); stored != nil && p.Kind.RecordsChildren() {
		status[kind.ChildInventory] = stored
	}
	if p.Kind.CountsPods() {
		delete(status, kind.InjectedPods)
		if !o.Uptake.isEmpty() {
			status[kind.InjectedPods] = o.Uptake.status()
		}
	}
	conditions := report(p, o, p.ownConditions(conditionsOf(old)))
	list := make([]any, len(conditions))
	for i := range conditions {
		var err error
		if list[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i]); err != nil {
			return nil, err
		}
	}
	status["conditions"] = list
	return status, nil
}

// ownConditions sets the kind's own conditions among those of the present status, and removes those
// that the kind no longer has. A plan that is stalled keeps the present ones.
func (p *Plan) ownConditions(conditions []metav1.Condition) []metav1.Condition {
	if p.Projection == nil {
		return conditions
	}
	conditions = slices.DeleteFunc(conditions, func(c metav1.Condition) bool {
		return !kind.IsEngineCondition(c.Type) &&
			!slices.ContainsFunc(p.Conditions, func(own kind.Condition) bool { return own.Type == c.Type })
	})
	for _, own := range p.Conditions {
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: own.Type, Status: own.Status, Reason: own.Reason, Message: own.Message,
			ObservedGeneration: p.Object.GetGeneration(), LastTransitionTime: metav1.NewTime(p.At),
		})
	}
	return conditions
}

// report sets and removes the engine's conditions among those of the present status.
func report(p *Plan, o *Outcome, conditions []metav1.Condition) []metav1.Condition {
	set := func(c metav1.Condition) {
		c.ObservedGeneration = p.Object.GetGeneration()
		c.LastTransitionTime = metav1.NewTime(p.At)
		meta.SetStatusCondition(&conditions, c)
	}
	leaving := isLeaving(p.Kind, p.Object)
	if leaving {
		set(deleting(p, o))
	} else {
		meta.RemoveStatusCondition(&conditions, kind.ConditionDeleting)
	}
	switch {
	case p.Kind.Ends() && leaving: // how it has ended stays
	case p.Kind.Ends():
		set(succeeded(p, o))
		meta.RemoveStatusCondition(&conditions, kind.ConditionReady) // of an older version of the kind
	default:
		c := ready(p, o)
		set(c)
		meta.RemoveStatusCondition(&conditions, kind.ConditionSucceeded)
		if c.Status == metav1.ConditionFalse {
			meta.FindStatusCondition(conditions, kind.ConditionReady).LastTransitionTime = metav1.NewTime(
				o.NotReadySince)
		}
	}
	if o.Stalled != nil {
		set(metav1.Condition{Type: kind.ConditionStalled, Status: metav1.ConditionTrue, Reason: o.Stalled.Reason,
			Message: o.Stalled.Message})
	} else {
		meta.RemoveStatusCondition(&conditions, kind.ConditionStalled)
	}
	switch {
	case o.Passing != nil:
		set(metav1.Condition{Type: kind.ConditionReconciling, Status: metav1.ConditionTrue, Reason: o.Passing.Reason,
			Message: o.Passing.Message})
		meta.FindStatusCondition(conditions, kind.ConditionReconciling).LastTransitionTime = metav1.NewTime(
			o.PassingSince)
	case p.Kind.Ends() && !p.Kind.Phases[p.Phase].Terminal && o.Stalled == nil && !leaving:
		set(metav1.Condition{Type: kind.ConditionReconciling, Status: metav1.ConditionTrue,
			Reason: cmp.Or(p.Phase, "NotStarted")})
	default:
		meta.RemoveStatusCondition(&conditions, kind.ConditionReconciling)
	}
	if o.Altered != nil {
		set(metav1.Condition{Type: kind.ConditionAltered, Status: metav1.ConditionTrue, Reason: "StoredOtherwise",
			Message: o.Altered.Error()})
	} else {
		meta.RemoveStatusCondition(&conditions, kind.ConditionAltered)
	}
	if former := o.unreadable(); former != "" {
		set(metav1.Condition{Type: kind.ConditionPruned, Status: metav1.ConditionFalse, Reason: "Forbidden",
			Message: former})
	} else {
		meta.RemoveStatusCondition(&conditions, kind.ConditionPruned)
	}
	if o.Uptake.isEmpty() {
		meta.RemoveStatusCondition(&conditions, kind.ConditionInjected)
	} else {
		set(o.Uptake.condition())
	}
	return conditions
}

// unreadable describes the types that the kind no longer owns and whose objects cannot be read; it
// is empty if there are none.
func (o *Outcome) unreadable() string {
	var texts []string
	for gvk, err := range o.former {
		if err != nil {
			texts = append(texts, fmt.Sprintf("children of type %s may be left from an earlier version of the kind: %s",
				gvk.GroupKind(), err))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

// Ready returns the condition that an object would have whose status is not written.
func Ready(p *Plan, o *Outcome) metav1.Condition { return ready(p, o) }

// ready returns the condition Ready of an object that never ends.
func ready(p *Plan, o *Outcome) metav1.Condition {
	c := metav1.Condition{Type: kind.ConditionReady, Status: metav1.ConditionFalse, Reason: "Progressing",
		Message: describeStates(o.States)}
	switch {
	case o.Stalled != nil:
		c.Reason, c.Message = o.Stalled.Reason, o.Stalled.Message
	case o.Passing != nil:
		c.Reason, c.Message = o.Passing.Reason, o.Passing.Message
	case isLeaving(p.Kind, p.Object):
		c.Reason = kind.ConditionDeleting
	case o.isReady() && !p.Again: // otherwise, the children of the phase are not known yet
		c.Status, c.Reason = metav1.ConditionTrue, "Reconciled"
	case o.Late && o.isWaiting():
		c.Reason = reasonDeadline
		c.Message = fmt.Sprintf("not ready within %s: %s", p.Deadline, o.waiting())
	case o.isWaiting():
		c.Reason, c.Message = kind.ReasonWaiting, o.waiting()
	case o.Late:
		c.Reason = reasonDeadline
		c.Message = fmt.Sprintf("not ready within %s: %s", p.Deadline, c.Message)
	}
	if o.Failed != nil {
		c.Message = o.Failed.Error()
	}
	if len(p.Kind.Phases) > 0 {
		c.Message = joined(p.missed(), c.Message, o.until())
	}
	return c
}

// reasonDeadline is the reason of the condition Ready, and of an Event, for an object that was not
// ready in time.
const reasonDeadline = "ProgressDeadlineExceeded"

// JustLate returns the problem of an object that has exceeded its deadline and does not show that
// yet; it is nil for others.
func JustLate(p *Plan, o *Outcome) *Problem {
	if p.Kind.Initial != "" {
		return nil
	}
	status, _ := p.Object.Object["status"].(map[string]any)
	before := meta.FindStatusCondition(conditionsOf(status), kind.ConditionReady)
	c := ready(p, o)
	if c.Reason != reasonDeadline || before != nil && before.Reason == reasonDeadline &&
		before.ObservedGeneration == p.Object.GetGeneration() {
		return nil
	}
	return &Problem{c.Reason, c.Message}
}

// succeeded returns the condition Succeeded of an object that can end.
func succeeded(p *Plan, o *Outcome) metav1.Condition {
	facts, hasPhase := p.Kind.Phases[p.Phase]
	c := metav1.Condition{Type: kind.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: p.Phase}
	switch {
	case facts.Terminal && facts.Failed:
		c.Status = metav1.ConditionFalse
	case facts.Terminal:
		c.Status = metav1.ConditionTrue
	case !hasPhase:
		c.Reason = "NotStarted"
	case o.Failed != nil:
		c.Message = o.Failed.Error()
	case o.Passing != nil:
		c.Message = o.Passing.Message
	case o.isWaiting():
		c.Message = o.waiting()
	default:
		c.Message = o.until()
	}
	c.Message = joined(p.missed(), c.Message)
	return c
}

// until describes the time that an object waits for; it is empty if there is none.
func (o *Outcome) until() string {
	if o.phaseEnds.IsZero() {
		return ""
	}
	return "waiting until " + o.phaseEnds.UTC().Format(time.RFC3339)
}

// phaseMayEnd describes the time at which an object that is stalled may leave its phase nevertheless; it is
// empty if there is none.
func (p *Plan) phaseMayEnd() string {
	if p.WakeAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("phase %s may still end at %s", p.Phase, p.WakeAt.UTC().Format(time.RFC3339))
}

// missed describes a time of a schedule that it is too late for; it is empty if there is none.
func (p *Plan) missed() string {
	if p.Missed.IsZero() {
		return ""
	}
	return "too late for the schedule of " + p.Missed.UTC().Format(time.RFC3339)
}

// JustMissed returns the problem of an object that has missed a time of its schedule and does not
// show that yet; it is nil for others.
func JustMissed(p *Plan) *Problem {
	if p.Missed.IsZero() {
		return nil
	}
	status, _ := p.Object.Object["status"].(map[string]any)
	if slices.ContainsFunc(conditionsOf(status),
		func(c metav1.Condition) bool { return strings.HasPrefix(c.Message, p.missed()) }) {
		return nil
	}
	return &Problem{"MissedSchedule", p.missed()}
}

// JustStalled returns the problem of an outcome that the status of its object does not show yet; it
// is nil if there is none.
func JustStalled(p *Plan, o *Outcome) *Problem {
	return o.Stalled.unlessReported(p.Object.Object)
}

// deleting returns the condition Deleting. It is False as long as the object could not enter the phase
// for its deletion.
func deleting(p *Plan, o *Outcome) metav1.Condition {
	c := metav1.Condition{Type: kind.ConditionDeleting, Status: metav1.ConditionFalse, Reason: p.Kind.OnDelete}
	if p.Leaving {
		c.Status, c.Reason = metav1.ConditionTrue, cmp.Or(p.Phase, kind.ConditionDeleting)
	}
	switch {
	case o.Stalled != nil:
		c.Reason = o.Stalled.Reason
		c.Message = fmt.Sprintf("%s; the object stays until this is resolved or its finalizer %s is removed",
			o.Stalled.Message, Finalizer)
	case o.Failed != nil:
		c.Message = o.Failed.Error()
	case o.Passing != nil:
		c.Reason, c.Message = o.Passing.Reason, o.Passing.Message
	case len(o.unread) > 0:
		c.Message = fmt.Sprintf("%s; the object stays until they can be, or its finalizer %s is removed",
			strings.Join(o.unread, "; "), Finalizer)
	case len(o.Leaving) > 0:
		first := children.Called(o.Leaving[0].Object, p.Object)
		c.Message = fmt.Sprintf("waiting until %s %q is gone", o.Leaving[0].Object.GetKind(), first)
		if more := len(o.Leaving) - 1; more > 0 {
			c.Message = fmt.Sprintf("waiting until %s %q and %d more are gone", o.Leaving[0].Object.GetKind(), first,
				more)
		}
	default:
		c.Message = joined(o.waiting(), o.until())
	}
	return c
}
