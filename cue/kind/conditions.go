package kind

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The types of condition that the engine sets.
const (
	// ConditionSucceeded is for kinds whose objects end, ConditionReady for all others.
	ConditionSucceeded = "Succeeded"
	ConditionReady     = "Ready"
	// ConditionStalled is true while a problem of an object requires user action.
	ConditionStalled = "Stalled"
	// ConditionReconciling exists until an object ends: kstatus, by which GitOps tools wait, does
	// not know Succeeded.
	ConditionReconciling = "Reconciling"
	// ConditionPruned exists only while children of a type that the kind no longer owns cannot
	// be deleted.
	ConditionPruned = "Pruned"
	// ConditionAltered exists only while the API server has stored other values of a child than its template has.
	ConditionAltered = "Altered"
	// ConditionDeleting exists while an object with phases for its deletion is being deleted: it is True
	// once the object has entered the first of them.
	ConditionDeleting = "Deleting"
	// ConditionInjected exists only while Pods have what an object adds to them, or request it.
	// Ready does not depend on it: Ready is about children, and other people's Pods must not keep
	// an object from being ready.
	ConditionInjected = "Injected"
)

var engineConditions = []string{ConditionSucceeded, ConditionReady, ConditionStalled, ConditionReconciling,
	ConditionPruned, ConditionAltered, ConditionDeleting, ConditionInjected}

// IsEngineCondition reports whether the engine sets a type of condition.
func IsEngineCondition(name string) bool { return slices.Contains(engineConditions, name) }

// ConditionTypeProblem returns what is wrong with the type of a kind's own condition; it is empty
// if nothing is.
func ConditionTypeProblem(name string) string {
	if IsEngineCondition(name) {
		return "is a condition of the engine: choose another type"
	}
	if problems := validation.IsQualifiedName(name); len(problems) > 0 { // metav1.Condition.Type
		return "must be in CamelCase, as the type of a condition: " + problems[0]
	}
	return ""
}

// WaitingFor describes what is absent.
func WaitingFor(absent []Absence) string {
	texts := make([]string, len(absent))
	for i, a := range absent {
		texts[i] = a.String()
	}
	return "waiting for " + strings.Join(texts, ", ")
}
