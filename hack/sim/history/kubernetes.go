package history

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/simulate/workloads"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// workloads has some objects get the status that Kubernetes gives them, and some Pods and Jobs end.
func (h *history) workloads(s *apiserver.Store) {
	isOver := !h.Ends && time.Since(h.began) > h.Disturbed // or what replaces Pods that end would never rest
	for _, r := range h.Served {
		if r.CRD != nil || !r.HasStatus {
			continue
		}
		for _, object := range s.List(r.GroupVersionResource) {
			if h.random.IntN(2) == 0 {
				continue
			}
			status := workloads.Status(object, time.Now())
			if status == nil && object.Object["status"] != nil && !isOver && mayEnd(object) {
				status, _ = workloads.End(object, h.random.IntN(3) > 0, time.Now())["status"].(map[string]any)
			}
			if status == nil {
				continue
			}
			changed := object.DeepCopy()
			changed.Object["status"] = status
			_, _ = s.UpdateStatus(r.GroupVersionResource, changed, "kubernetes")
		}
	}
}

// mayEnd reports whether a Pod or a Job may end. One that has ended may not, nor a Pod that is always restarted.
func mayEnd(object *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "restartPolicy")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	switch object.GetKind() {
	case "Pod":
		return policy != "" && policy != string(corev1.RestartPolicyAlways) && phase == string(corev1.PodRunning)
	case "Job":
		return !isTrue(object, string(batchv1.JobComplete), string(batchv1.JobFailed))
	}
	return false
}

// isTrue reports whether an object has a condition of one of some types that is true.
func isTrue(object *unstructured.Unstructured, types ...string) bool {
	return slices.ContainsFunc(conditionsOf(object), func(condition map[string]any) bool {
		name, _ := condition["type"].(string)
		return slices.Contains(types, name) && condition["status"] == string(metav1.ConditionTrue)
	})
}

// conditionsOf returns the conditions of an object.
func conditionsOf(object *unstructured.Unstructured) (conditions []map[string]any) {
	found, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range found {
		if condition, ok := c.(map[string]any); ok {
			conditions = append(conditions, condition)
		}
	}
	return conditions
}
