package history

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/simulate/workloads"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// workloads has some objects get the status that Kubernetes gives them, and some Pods and Jobs end.
func (h *history) workloads(s *apiserver.Store) {
	for _, r := range h.served {
		if r.CRD != nil || !r.HasStatus {
			continue
		}
		for _, object := range s.List(r.GroupVersionResource) {
			if h.random.IntN(2) == 0 {
				continue
			}
			status := workloads.Status(object, time.Now())
			isOver := !h.Ends && time.Since(h.began) > h.Disturbed // or what replaces Pods that end would never rest
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

// mayEnd reports whether a Pod or a Job may end: Pods that are restarted for ever do not, nor what has ended.
func mayEnd(object *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "restartPolicy")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	isComplete := slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == string(batchv1.JobComplete) || condition["type"] == string(batchv1.JobFailed)
	})
	switch object.GetKind() {
	case "Pod":
		return policy != "" && policy != string(corev1.RestartPolicyAlways) && phase == string(corev1.PodRunning)
	case "Job":
		return !isComplete
	}
	return false
}
