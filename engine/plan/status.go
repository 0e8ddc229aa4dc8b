package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The types of condition that the engine sets. Succeeded is for kinds that come to an
// end, Ready for all others; Stalled is there only while something is wrong, and
// conditionInjected while there are Pods that it is about.
const (
	conditionSucceeded = "Succeeded"
	conditionReady     = "Ready"
	conditionStalled   = "Stalled"
	// conditionReconciling is there while an object is on its way to its end: kstatus, by
	// which GitOps tools wait, does not know Succeeded.
	conditionReconciling = "Reconciling"
)

// report makes the status that an object is to have: the kind's projection and the
// engine's own fields over it. A time in it changes only with what it belongs to, so
// that a status says the same until something happens.
func report(k *kind.Kind, object map[string]any, generation int64, p *plan, now time.Time) (map[string]any, error) {
	old, _ := object["status"].(map[string]any)
	status := maps.Clone(p.projection)
	if status == nil {
		status = maps.Clone(old)
	}
	if status == nil {
		status = make(map[string]any)
	}
	if p.phase != "" {
		status["phase"] = p.phase
		if !p.entered.IsZero() {
			status["lastPhaseTransitionTime"] = p.entered.UTC().Format(timeFormat)
		}
	}
	status["observedGeneration"] = generation

	if k.CountsPods() {
		delete(status, kind.InjectedPods)
		if !p.uptake.isEmpty() {
			status[kind.InjectedPods] = p.uptake.status()
		}
	}

	conditions, err := conditionsOf(old)
	if err != nil {
		return nil, err
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&conditions, c)
	}
	if len(k.Phases) > 0 {
		set(p.succeeded(k))
	} else if set(p.ready()); !p.isReady() {
		meta.FindStatusCondition(conditions, conditionReady).LastTransitionTime = metav1.NewTime(p.notReadySince)
	}
	if p.stalled != nil {
		set(metav1.Condition{Type: conditionStalled, Status: metav1.ConditionTrue, Reason: p.stalled.reason, Message: p.stalled.message})
	} else {
		meta.RemoveStatusCondition(&conditions, conditionStalled)
	}
	if facts := k.Phases[p.phase]; len(k.Phases) > 0 && !facts.Terminal && p.stalled == nil {
		set(metav1.Condition{Type: conditionReconciling, Status: metav1.ConditionTrue, Reason: cmp.Or(p.phase, "NotStarted")})
	} else {
		meta.RemoveStatusCondition(&conditions, conditionReconciling)
	}
	if p.uptake.isEmpty() {
		meta.RemoveStatusCondition(&conditions, conditionInjected)
	} else {
		set(p.uptake.condition())
	}
	list := make([]any, len(conditions))
	for i := range conditions {
		if list[i], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&conditions[i]); err != nil {
			return nil, err
		}
	}
	status["conditions"] = list
	return status, nil
}

// ready says in one condition how an object without phases stands.
func (p *plan) ready() metav1.Condition {
	c := metav1.Condition{Type: conditionReady, Status: metav1.ConditionFalse, Reason: "Progressing", Message: describeStates(p.states)}
	switch {
	case p.stalled != nil:
		c.Reason, c.Message = p.stalled.reason, p.stalled.message
	case p.isReady():
		c.Status, c.Reason = metav1.ConditionTrue, "Reconciled"
	case p.isLate:
		c.Reason = "ProgressDeadlineExceeded"
		c.Message = fmt.Sprintf("not ready within %s: %s", p.deadline, c.Message)
	}
	if p.trouble != "" {
		c.Message = p.trouble
	}
	return c
}

// isReady tells whether all children of an object are as they should be.
func (p *plan) isReady() bool {
	return p.stalled == nil && p.trouble == "" && !slices.ContainsFunc(p.states, func(s childState) bool { return !s.isReady() })
}

// succeeded says in one condition how an object with phases stands.
func (p *plan) succeeded(k *kind.Kind) metav1.Condition {
	facts, hasPhase := k.Phases[p.phase]
	c := metav1.Condition{Type: conditionSucceeded, Status: metav1.ConditionUnknown, Reason: p.phase}
	switch {
	case facts.Terminal && facts.Failed:
		c.Status = metav1.ConditionFalse
	case facts.Terminal:
		c.Status = metav1.ConditionTrue
	case !hasPhase:
		c.Reason = "NotStarted"
	case p.trouble != "":
		c.Message = p.trouble
	case !p.wakeAt.IsZero():
		c.Message = "waiting until " + p.wakeAt.UTC().Format(time.RFC3339)
	}
	return c
}

// conditionsOf reads the conditions of a status.
func conditionsOf(status map[string]any) ([]metav1.Condition, error) {
	var typed struct {
		Conditions []metav1.Condition `json:"conditions"`
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": status["conditions"]}, &typed)
	return typed.Conditions, err
}

// stalledBefore tells whether a status already reports exactly this problem.
func stalledBefore(object map[string]any, p *problem) bool {
	status, _ := object["status"].(map[string]any)
	conditions, err := conditionsOf(status)
	return err == nil && slices.ContainsFunc(conditions, func(c metav1.Condition) bool {
		return c.Type == conditionStalled && c.Reason == p.reason && c.Message == p.message
	})
}
