package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// plan is what one pass decided for one object.
type plan struct {
	// children are to be kept in place.
	children []kind.Child
	// prune asks for the deletion of children that are of no phase and not wanted any
	// more; what a phase has made stays when it is left.
	prune bool
	// projection is the kind's own part of the status; it is nil if what the status
	// says now is to stay.
	projection map[string]any
	// phase is the one that the object is in after transitions, and entered the time
	// when it came there.
	phase   string
	entered time.Time
	// transitions are the changes of phase, in order.
	transitions []transition
	// wakeAt is when to look again although nothing has changed; zero means never.
	wakeAt time.Time
	// again asks for another pass as soon as the status is written.
	again bool
	// states say how the children stand.
	states []childState
	// deadline is how long the object may take to become ready; 0 means any time.
	// notReadySince is when an object without phases ceased to be ready, and isLate says
	// that this is longer ago than the deadline.
	deadline      time.Duration
	notReadySince time.Time
	isLate        bool
	// trouble is why nothing came of the last tries; time may mend it.
	trouble string
	// uptake says what the Pods have of the object, if its kind injects.
	uptake uptake
	// stalled says what is wrong with the object or its kind.
	stalled *problem
}

// transition is a change of phase; from is empty for the first phase.
type transition struct{ from, to string }

// problem is something that only a person can put right.
type problem struct{ reason, message string }

// The reasons of the condition Stalled.
const (
	reasonInvalid    = "InvalidObject"
	reasonEvaluation = "EvaluationFailed"
	reasonChild      = "ChildRefused"
)

// makePlan decides what to do for an object. observed holds its children by the names
// that the kind gives them. It changes nothing and asks nothing but the kind.
func makePlan(k *kind.Kind, object map[string]any, observed map[string]any, now time.Time) *plan {
	p := &plan{phase: kind.PhaseOf(object), entered: enteredAt(object)}
	if k.Phases[p.phase].Terminal {
		return p
	}
	defaulted, errs := k.DefaultAndValidateStored(object)
	if len(errs) > 0 {
		p.stalled = &problem{reasonInvalid, errs.ToAggregate().Error()}
		return p
	}
	if p.phase == "" && k.Initial != "" {
		// The first phase is written before anything is done in it, so that everyone
		// sees it and delays count from a time that outlives this process.
		p.enter(k.Initial, now)
		p.again = true
		return p
	}
	if err := p.follow(k, defaulted, observed, now); err != nil {
		return &plan{phase: kind.PhaseOf(object), entered: enteredAt(object), stalled: &problem{reasonEvaluation, err.Error()}}
	}
	return p
}

// follow takes every transition that holds, until none does.
func (p *plan) follow(k *kind.Kind, object, observed map[string]any, now time.Time) error {
	visited := []string{p.phase}
	for {
		decision, err := k.Decide(withPhase(object, p.phase), observed)
		if err != nil {
			return err
		}
		p.projection, p.deadline = decision.Status, decision.Deadline
		if p.projection == nil {
			p.projection = map[string]any{}
		}
		if k.Phases[p.phase].Terminal {
			return nil
		}
		next, timed, wakeAt := choose(decision.Next, p.entered, now)
		// A phase is not passed through before its children are in place; one that they
		// cannot be made in is left only when its time is over.
		unmade := next != "" && !allExist(decision.Children, observed) && (len(p.transitions) > 0 || !timed)
		if next == "" || len(p.transitions) > 0 || unmade {
			p.ensure(decision.Children)
		}
		if next == "" {
			p.wakeAt = wakeAt
			p.prune = true
			return nil
		}
		if unmade {
			p.again = true
			return nil
		}
		if slices.Contains(visited, next) {
			return fmt.Errorf("phases %v lead back to %s without anything changing", visited, next)
		}
		visited = append(visited, next)
		p.enter(next, now)
	}
}

// ensure adds children of a phase, or replaces what an earlier phase of this pass
// said of them.
func (p *plan) ensure(children []kind.Child) {
	for _, child := range children {
		if i := slices.IndexFunc(p.children, func(c kind.Child) bool { return c.Name == child.Name }); i >= 0 {
			p.children[i] = child
			continue
		}
		p.children = append(p.children, child)
	}
}

func (p *plan) enter(phase string, now time.Time) {
	p.transitions = append(p.transitions, transition{p.phase, phase})
	p.phase, p.entered = phase, now
}

// choose picks the first transition that holds, and whether it is one of a time, or the time when the first of those
// that wait for one will.
func choose(next []kind.Transition, entered, now time.Time) (to string, timed bool, wakeAt time.Time) {
	for _, t := range next {
		if t.After == nil {
			if t.When {
				return t.To, false, time.Time{}
			}
			continue
		}
		due := t.After.Due(entered)
		if !due.After(now) {
			return t.To, true, time.Time{}
		}
		if wakeAt.IsZero() || due.Before(wakeAt) {
			wakeAt = due
		}
	}
	return "", false, wakeAt
}

func allExist(children []kind.Child, observed map[string]any) bool {
	return !slices.ContainsFunc(children, func(c kind.Child) bool {
		if c.Set != nil {
			members, _ := observed[c.Name].([]any)
			return len(members) < c.Set.Replicas
		}
		return observed[c.Name] == nil
	})
}

// settle adds to a plan how the children of its object stand, once everything was done
// for them that could be; refused is what nothing could be done about.
func (p *plan) settle(k *kind.Kind, object *unstructured.Unstructured, states []childState, refused error, now time.Time) error {
	p.states = states
	if refused != nil && p.stalled == nil {
		p.stalled = &problem{reasonChild, refused.Error()}
	}
	if len(k.Phases) > 0 {
		return nil
	}
	status, _ := object.Object["status"].(map[string]any)
	conditions, err := conditionsOf(status)
	if err != nil {
		return fmt.Errorf("status.conditions: %w", err)
	}
	p.notReadySince = now
	before := meta.FindStatusCondition(conditions, conditionReady)
	if before != nil && before.Status == metav1.ConditionFalse && before.ObservedGeneration == object.GetGeneration() {
		// A new spec begins a new attempt to become ready.
		p.notReadySince = before.LastTransitionTime.Time
	}
	if p.deadline > 0 && !p.isReady() {
		due := p.notReadySince.Add(p.deadline)
		if p.isLate = !now.Before(due); !p.isLate {
			p.wakeAt = due
		}
	}
	return nil
}

// withPhase is a shallow copy of an object that says it is in phase.
func withPhase(object map[string]any, phase string) map[string]any {
	if phase == "" || kind.PhaseOf(object) == phase {
		return object
	}
	old, _ := object["status"].(map[string]any)
	status := maps.Clone(old)
	if status == nil {
		status = make(map[string]any)
	}
	status["phase"] = phase
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
