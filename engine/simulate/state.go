package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/simulate/workloads"
)

// State is what people look at in an object of a kind.
type State struct {
	// Status is the phase and what the kind projects.
	Status map[string]any `json:"status,omitempty"`
	// Conditions are "STATUS REASON" or "STATUS REASON: MESSAGE", by type.
	Conditions map[string]string `json:"conditions,omitempty"`
	// Children are the objects that it controls, by Kind/name, or Kind/namespace/name in another namespace:
	// the word of kstatus, and before it the phase, as in "Running (Current)".
	Children map[string]string `json:"children,omitempty"`
}

// bookkeeping are the fields of the status that tell nothing that Events and conditions do not.
var bookkeeping = []string{"conditions", "observedGeneration", "lastPhaseTransitionTime", kind.ChildInventory}

// StateOf returns the state of an object, given the objects that may be its children.
func StateOf(object *unstructured.Unstructured, others []*unstructured.Unstructured) State {
	s := State{Conditions: make(map[string]string), Children: make(map[string]string)}
	reported, _ := object.Object["status"].(map[string]any)
	if s.Status = maps.Clone(reported); s.Status != nil {
		maps.DeleteFunc(s.Status, func(name string, _ any) bool { return slices.Contains(bookkeeping, name) })
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		fields, _ := c.(map[string]any)
		text := fmt.Sprint(fields["status"], " ", fields["reason"])
		if message, _ := fields["message"].(string); message != "" {
			text += ": " + message
		}
		s.Conditions[fmt.Sprint(fields["type"])] = text
	}
	for _, other := range others {
		if children.IsOwnedBy(other, object) {
			s.Children[nameFrom(object.GetNamespace(), other)] = conditionOf(other)
		}
	}
	return s
}

// conditionOf describes the state of a child.
func conditionOf(child *unstructured.Unstructured) string {
	word := status.UnknownStatus
	if result, err := status.Compute(child); err == nil {
		word = result.Status
	}
	if phase, _, _ := unstructured.NestedString(child.Object, "status", "phase"); phase != "" {
		return fmt.Sprintf("%s (%s)", phase, word)
	}
	return string(word)
}

// Manifest returns an object as its author wrote it: without what the engine and the API server add
// to the metadata, and without a status that is that of any healthy object of the type.
func (c *Cluster) Manifest(object *unstructured.Unstructured) map[string]any {
	shown := object.DeepCopy()
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "ownerReferences"} {
		unstructured.RemoveNestedField(shown.Object, "metadata", name)
	}
	if left := plan.WithFinalizer(shown, false); len(left) < len(shown.GetFinalizers()) {
		shown.SetFinalizers(left)
		if len(left) == 0 {
			unstructured.RemoveNestedField(shown.Object, "metadata", "finalizers")
		}
	}
	if workloads.Reports(shown.GroupVersionKind()) && !c.claimed[object.GetUID()] {
		unstructured.RemoveNestedField(shown.Object, "status")
	}
	for _, field := range []string{"labels", "annotations"} {
		texts, _, _ := unstructured.NestedStringMap(shown.Object, "metadata", field)
		maps.DeleteFunc(texts, func(name, _ string) bool {
			return strings.HasPrefix(name, "fescue.dev/") || name == "app.kubernetes.io/managed-by"
		})
		if len(texts) == 0 {
			unstructured.RemoveNestedField(shown.Object, "metadata", field)
			continue
		}
		_ = unstructured.SetNestedStringMap(shown.Object, texts, "metadata", field) // it was there
	}
	return shown.Object
}
