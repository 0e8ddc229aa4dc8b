package engine

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// childState is how a child stands, or a set: a single object is a set of one.
type childState struct {
	name string
	// set says that it has members.
	set bool
	// wanted is how many objects there are to be, ready how many of them do what they
	// are for, and outdated how many are still of an older template.
	wanted, ready, outdated int
}

func (s childState) isReady() bool { return s.ready == s.wanted && s.outdated == 0 }

// String says it as a person reads it in a condition.
func (s childState) String() string {
	if !s.set {
		if s.isReady() {
			return s.name + ": ready"
		}
		return s.name + ": not ready"
	}
	text := fmt.Sprintf("%s: %d of %d ready", s.name, s.ready, s.wanted)
	if s.outdated > 0 {
		text += fmt.Sprintf(", %d of an older template", s.outdated)
	}
	return text
}

func describeStates(states []childState) string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = s.String()
	}
	return strings.Join(all, "; ")
}

// isReady tells whether an object does what it is for, by the rules of kstatus: a Pod
// has to be ready, a Deployment rolled out, and one that has no status just exists.
func isReady(object *unstructured.Unstructured) bool {
	result, err := status.Compute(object)
	return err == nil && result.Status == status.CurrentStatus
}

// isFinished tells whether a member has come to its end and is to be replaced. Only Pods
// do, of which a StatefulSet replaces those that have ended as well.
func isFinished(member *unstructured.Unstructured) bool {
	if member.GroupVersionKind() != podKind {
		return false
	}
	phase, _, _ := unstructured.NestedString(member.Object, "status", "phase")
	return phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded)
}

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
