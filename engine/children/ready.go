package children

import (
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IsReady reports whether an object is ready by the rules of kstatus: a Pod must be ready,
// a Deployment rolled out, and an object without a status just exist.
func IsReady(object *unstructured.Unstructured) bool {
	result, err := status.Compute(object)
	return err == nil && result.Status == status.CurrentStatus
}

// IsFinished reports whether a member has ended and is to be replaced. Only Pods end, and a
// StatefulSet replaces those as well.
func IsFinished(member *unstructured.Unstructured) bool {
	if member.GroupVersionKind() != podKind {
		return false
	}
	phase, _, _ := unstructured.NestedString(member.Object, "status", "phase")
	return phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded)
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
