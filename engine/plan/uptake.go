package plan

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The reasons of the condition Injected. Missed Pods come first where there are both:
// they have nothing of the object, as happens while the operator is down.
const (
	reasonInjectedIntoAll = "InjectedIntoAll"
	reasonMissedPods      = "MissedPods"
	reasonOutdatedPods    = "OutdatedPods"
)

// maxPodNames is how many Pods a condition names: enough to begin looking, and few enough
// that the message does not change with every Pod of a large Deployment.
const maxPodNames = 3

// Uptake counts what Pods have of one object that injects. Pods that have ended or are
// being deleted do not count: no one has to do anything about them.
type Uptake struct {
	// Current is how many Pods have the parts of the object's present generation.
	Current int
	// Outdated are the names of Pods that have those of another one, and Missing of those
	// that request the object and have nothing of it. Both are sorted.
	Outdated, Missing []string
}

func (u Uptake) isEmpty() bool { return u.Current == 0 && len(u.Outdated) == 0 && len(u.Missing) == 0 }

// status returns contract.#InjectionStatus' injectedPods.
func (u Uptake) status() map[string]any {
	return map[string]any{"current": int64(u.Current), "outdated": int64(len(u.Outdated)),
		"missing": int64(len(u.Missing))}
}

// condition returns the condition Injected; u must not be empty.
func (u Uptake) condition() metav1.Condition {
	c := metav1.Condition{Type: kind.ConditionInjected, Status: metav1.ConditionFalse}
	var problems []string
	if len(u.Missing) > 0 {
		c.Reason = reasonMissedPods
		problems = append(problems,
			describePods(u.Missing, "requests it and does not have it", "request it and do not have it"))
	}
	if len(u.Outdated) > 0 {
		if c.Reason == "" {
			c.Reason = reasonOutdatedPods
		}
		problems = append(problems,
			describePods(u.Outdated, "has it from an older generation", "have it from an older generation"))
	}
	if len(problems) == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, reasonInjectedIntoAll
		return c
	}
	c.Message = strings.Join(problems, "; ") +
		"; running Pods are never changed or restarted, but their replacements get it"
	return c
}

// describePods describes some Pods and names the first of them.
func describePods(names []string, one, many string) string {
	predicate, noun := many, "Pods"
	if len(names) == 1 {
		predicate, noun = one, "Pod"
	}
	listed := strings.Join(names[:min(len(names), maxPodNames)], ", ")
	if len(names) > maxPodNames {
		listed += ", …"
	}
	return fmt.Sprintf("%d %s %s: %s", len(names), noun, predicate, listed)
}
