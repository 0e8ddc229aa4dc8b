package plan

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
)

// joined returns the parts of a message that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

// conditionsOf reads the conditions of a status. What is none, and was stored while nothing checked it, is left out, so
// that the next write of the status repairs it.
func conditionsOf(status map[string]any) (conditions []metav1.Condition) {
	stored, _ := status["conditions"].([]any)
	for _, item := range stored {
		var c metav1.Condition
		if object, ok := item.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(object,
			&c) == nil {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// unlessReported returns a problem that the status of an object does not show yet; nil if it does, or there is none.
func (p *Problem) unlessReported(object map[string]any) *Problem {
	if p == nil || p.isReportedBy(object) {
		return nil
	}
	return p
}

// isReportedBy reports whether the status of an object already shows exactly this problem.
func (p *Problem) isReportedBy(object map[string]any) bool {
	status, _ := object["status"].(map[string]any)
	return slices.ContainsFunc(conditionsOf(status), func(c metav1.Condition) bool {
		return (c.Type == kind.ConditionStalled || c.Type == kind.ConditionReconciling) && c.Reason == p.Reason &&
			c.Message == p.Message
	})
}
