package children

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Live is a child as the API server had it last.
type Live struct {
	// Name is its name in the kind; it is empty for an object without a record and a label.
	Name     string
	Resource schema.GroupVersionResource
	Object   *unstructured.Unstructured
}

// Of returns an object as the child that it was created as.
func Of(resource schema.GroupVersionResource, object *unstructured.Unstructured) Live {
	return Live{Name: NameInKind(object), Resource: resource, Object: object}
}

// NameInKind returns the name of a child in the kind: the recorded one, or else that of its label.
func NameInKind(child *unstructured.Unstructured) string {
	if o, ok := OriginOf(child); ok {
		return o.Child
	}
	return Label(child, LabelChild)
}

// Find returns the object of a wanted child, which may be being deleted; nil if there is none.
func Find(
	k *kind.Kind, children []Live, owner *unstructured.Unstructured, wanted kind.Child,
) *unstructured.Unstructured {
	name, namespace, gvk := ObjectName(owner, wanted), NamespaceOf(k, owner, wanted), TypeOf(wanted)
	for _, child := range children {
		if child.Object.GetName() == name && child.Object.GetNamespace() == namespace &&
			child.Object.GroupVersionKind() == gvk && child.IsOf(owner) {
			return child.Object
		}
	}
	return nil
}

// IsOf reports whether a child belongs to an owner, or lost its controller reference, which is restored. What is
// decided before that is as if it still had it: a behaviour that does not see the child would go on without it. So it
// is with the children that an object orphans: what its phases read of them is there until it is gone.
func (c Live) IsOf(owner *unstructured.Unstructured) bool {
	o, isOriginal := OriginOf(c.Object)
	isOrphan := isOriginal && !o.Outlives && metav1.GetControllerOfNoCopy(c.Object) == nil &&
		(owner.GetDeletionTimestamp() == nil && c.Object.GetDeletionTimestamp() == nil ||
			IsOrphanOf(c.Object, owner)) &&
		(!IsElsewhere(owner, c.Object) || !IsDetached(owner, c.Object) && IsListed(owner, c.Object))
	return isOrphan || IsOwnedBy(c.Object, owner)
}

// IsOriginal reports whether the engine created a child under the name that it has.
func (c Live) IsOriginal() bool {
	_, ok := OriginOf(c.Object)
	return ok
}

// IsOfPhase reports whether a child belongs to a phase.
func (c Live) IsOfPhase() bool {
	if o, ok := OriginOf(c.Object); ok {
		return o.Phase != ""
	}
	_, ok := entry(c.Object, "labels", LabelPhase)
	return ok
}

// Living counts the children that exist and are not being deleted.
func Living(children []Live) (n int) {
	for _, child := range children {
		if child.IsOriginal() && child.Object.GetDeletionTimestamp() == nil {
			n++
		}
	}
	return n
}

// IsMember reports whether a child is a controlled member of a set: one that was created for it,
// or one that has a member's name and no other record.
func (c Live) IsMember(owner *unstructured.Unstructured, set kind.Child, prefix string) bool {
	if !c.IsOf(owner) {
		return false
	}
	_, isNamed := MemberNumber(set.Set, prefix, c.Object.GetName())
	return c.IsOriginal() && c.Name == set.Name || isNamed && !IsCopy(c.Object)
}

// IsMemberOrOrphan reports whether a child is a member of a set, or has the name of one and lost its
// controller.
func (c Live) IsMemberOrOrphan(owner *unstructured.Unstructured, set kind.Child, prefix string) bool {
	_, isNamed := MemberNumber(set.Set, prefix, c.Object.GetName())
	isOrphan := metav1.GetControllerOfNoCopy(c.Object) == nil && isNamed && !IsCopy(c.Object)
	return isOrphan || c.IsMember(owner, set, prefix)
}
