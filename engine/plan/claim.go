package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Claim reports whether an object is a child of an owner: one that was created for it, or one
// written by hand that has only the label of the engine that names the child. It adds to such an
// object what else the engine gives children.
func Claim(k *kind.Kind, owner, object *unstructured.Unstructured) bool {
	_, hasOwner := entry(object, "labels", LabelOwnerUID)
	_, hasName := entry(object, "annotations", AnnotationOwner)
	isByHand := IsKeptBy(k, object) && ChildName(object) != "" && !hasOwner && !hasName && (CanOwn(owner, object) || len(k.Elsewhere) > 0)
	if !isByHand && !IsChildOf(object, owner, k) {
		return false
	}
	object.SetLabels(merged(object.GetLabels(), map[string]string{labelManagedBy: managedBy, LabelOwnerUID: string(owner.GetUID())}))
	object.SetAnnotations(merged(map[string]string{AnnotationOwner: OwnerName(k, owner, object)}, object.GetAnnotations()))
	if !IsCopy(object) {
		origin{child: ChildName(object), phase: Label(object, labelPhase), isElsewhere: isElsewhere(owner, object)}.record(object)
	}
	if o, _ := originOf(object); metav1.GetControllerOfNoCopy(object) == nil && !o.outlives && !isDetached(owner, object) {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), ownerReference(k, owner)))
	}
	return true
}
