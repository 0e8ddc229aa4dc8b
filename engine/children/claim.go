package children

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Claim gives an object all marks of a child if it is one of the owner's, or was written by hand with only the label
// that names the child. It reports whether it is.
func Claim(k *kind.Kind, owner, object *unstructured.Unstructured) bool {
	_, hasOwner := entry(object, "labels", LabelOwnerUID)
	_, hasName := entry(object, "annotations", AnnotationOwner)
	isByHand := MayBelongTo(k, object) && NameInKind(object) != "" && !hasOwner && !hasName &&
		(CanOwn(owner, object) || len(k.Elsewhere) > 0)
	if !isByHand && !IsChildOf(object, owner, k) {
		return false
	}
	object.SetLabels(
		merged(object.GetLabels(), map[string]string{LabelManagedBy: ManagedBy, LabelOwnerUID: string(owner.GetUID())}))
	object.SetAnnotations(merged(map[string]string{AnnotationOwner: OwnerName(k, owner, object)},
		object.GetAnnotations()))
	if !IsCopy(object) {
		Origin{Child: NameInKind(object), Phase: Label(object, LabelPhase),
			IsElsewhere: IsElsewhere(owner, object)}.Record(object)
	}
	if o, _ := OriginOf(object); metav1.GetControllerOfNoCopy(object) == nil && !o.Outlives &&
		!IsDetached(owner, object) {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), ownerReference(k, owner)))
	}
	return true
}

// ControlledBy is the error of an object, seen from an owner, that another controls.
func ControlledBy(
	resource schema.GroupVersionResource, live, owner *unstructured.Unstructured, holder *metav1.OwnerReference,
) error {
	if decorator := decoratorOf(live); decorator != "" {
		return fmt.Errorf("%s %q exists and was created by the decorator %s for %s %q", resource.Resource,
			Called(live, owner), decorator, holder.Kind, holder.Name)
	}
	return fmt.Errorf("%s %q exists and is controlled by %s %q", resource.Resource, Called(live, owner), holder.Kind,
		holder.Name)
}

// NotCreatedFor is the error of an object, seen from an owner, that no one controls and that has the name of a child.
// An annotation may say for whom it was created instead.
func NotCreatedFor(k *kind.Kind, resource schema.GroupVersionResource, live, owner *unstructured.Unstructured) error {
	name := Called(live, owner)
	if other, hasOwner := entry(live, "annotations", AnnotationOwner); hasOwner && other != OwnerName(k, owner, live) {
		return fmt.Errorf(
			"%s %q exists and was created for %s, as its annotation %s says; rename the child of one of the two",
			resource.Resource, name, other, AnnotationOwner)
	}
	return fmt.Errorf("%s %q exists and was not created for this object; rename or delete it", resource.Resource, name)
}
