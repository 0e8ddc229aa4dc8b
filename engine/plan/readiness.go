package plan

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// ChildState counts the objects of a child: a single object is a set of one.
type ChildState struct {
	name string
	// set reports that it has members, and ordered that they change one at a time.
	set, ordered bool
	// wanted is the desired number of objects, ready the number of those that are ready, and
	// outdated the number of those with an older template.
	wanted, ready, outdated int
	// waiting describes what the child waits for; it is empty if it waits for nothing.
	waiting string
}

func (s ChildState) isReady() bool {
	return s.waiting == "" && s.ready == s.wanted && s.outdated == 0
}

// String returns the state as conditions show it.
func (s ChildState) String() string {
	if s.waiting != "" {
		return s.name + ": " + s.waiting
	}
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

// delayed describes what a child waits for that is not created yet.
func delayed(child kind.Child) string {
	if len(child.Absent) > 0 {
		return kind.WaitingFor(child.Absent)
	}
	return "waiting until its when holds"
}

func describeStates(states []ChildState) string {
	all := make([]string, len(states))
	for i, s := range states {
		all[i] = s.String()
	}
	return strings.Join(all, "; ")
}

// isReady reports whether an object is ready by the rules of kstatus: a Pod must be ready,
// a Deployment rolled out, and an object without a status just exist.
func isReady(object *unstructured.Unstructured) bool {
	result, err := status.Compute(object)
	return err == nil && result.Status == status.CurrentStatus
}

// isFinished reports whether a member has ended and is to be replaced. Only Pods end, and a
// StatefulSet replaces those as well.
func isFinished(member *unstructured.Unstructured) bool {
	if member.GroupVersionKind() != podKind {
		return false
	}
	phase, _, _ := unstructured.NestedString(member.Object, "status", "phase")
	return phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded)
}

var (
	podKind       = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)
