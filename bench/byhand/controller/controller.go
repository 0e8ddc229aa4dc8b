// Package controller reconciles the kinds that Fescue ships, written by hand with
// controller-runtime. It is what Fescue is measured against, so it does what a careful author would
// do: typed objects from caches that have seen the last write, predicates for what no decision reads,
// one status patch for each change, and Pods that are created and deleted once.
package controller

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/bench/byhand/api"
)

// ManagedBy is the value of the label app.kubernetes.io/managed-by of all children.
const ManagedBy = "by-hand"

const managedByLabel = "app.kubernetes.io/managed-by"

// PodSecurity is what the level restricted of Pod Security asks of a Pod.
func PodSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(65532)),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// ContainerSecurity is what it asks of each container.
func ContainerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Reporting is what an operator reports about its work. Both are optional, so that it can be
// compared with operators that report as little.
type Reporting struct {
	// Recorder records Events; there are none without it.
	Recorder events.EventRecorder
	// Conditions sets status.conditions and status.observedGeneration.
	Conditions bool
}

// event records an Event about an object.
func (r *Reporting) event(object runtime.Object, reason, note string, args ...any) {
	if r.Recorder != nil {
		r.Recorder.Eventf(object, nil, corev1.EventTypeNormal, reason, "Reconcile", note, args...)
	}
}

// condition sets a condition in a status.
func (r *Reporting) condition(status *api.Status, generation int64, c metav1.Condition) {
	if !r.Conditions {
		return
	}
	status.ObservedGeneration = generation
	c.ObservedGeneration = generation
	meta.SetStatusCondition(&status.Conditions, c)
}

// readyCondition returns the condition Ready.
func readyCondition(ready bool, message string) metav1.Condition {
	if ready {
		return metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Reconciled", Message: message}
	}
	return metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Progressing", Message: message}
}
