package plan

import (
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
)

// origin is what a child was created as: the child of a kind and, of a child that belongs to a
// phase, the phase. It is recorded in annotationCreatedAs together with the type and the name of
// the object, as in ConfigMap/w-config/config or Pod/a-pod/pod/RUNNING, and with the namespace if that is not
// its owner's, as in ConfigMap/w-config@team-a/config. So a child keeps its role when it loses its labels, and
// a copy under another name, or in another namespace where the owner could have it, has none. A child that
// outlives its object has no controller reference, which would have it deleted, and its record ends in Orphan. Nor
// has a child outside of the namespace of its object, for the same reason.
type origin struct {
	child, phase string
	outlives     bool
	// isElsewhere means that it is not in the namespace of its owner.
	isElsewhere bool
}

// isElsewhere reports whether an object is not in the namespace of its owner.
func isElsewhere(owner, object metav1.Object) bool {
	return object.GetNamespace() != owner.GetNamespace()
}

// isDetached reports whether an object is where the garbage collector would not find its owner, and delete it: an
// owner reference is about the own namespace or the cluster.
func isDetached(owner, object metav1.Object) bool {
	return owner.GetNamespace() != "" && isElsewhere(owner, object)
}

// recordOf returns how annotationCreatedAs of an object begins if the object is no copy.
func recordOf(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String() + "/" + object.GetName()
}

// originOf returns what an object was created as. It reports false for an object that the engine
// did not create under its name. The labels of one that has no record say the same, as far as an object controls it: a
// mark that is missing decides nothing, and one that names something else makes an object a copy.
func originOf(object *unstructured.Unstructured) (o origin, ok bool) {
	record, isRecorded := entry(object, "annotations", annotationCreatedAs)
	if !isRecorded {
		o = origin{child: Label(object, labelChild), phase: Label(object, labelPhase)}
		return o, o.child != "" && metav1.GetControllerOfNoCopy(object) != nil
	}
	rest, ok := strings.CutPrefix(record, recordOf(object))
	if !ok {
		return origin{}, false
	}
	rest, o.isElsewhere = strings.CutPrefix(rest, "@"+object.GetNamespace()+"/")
	if !o.isElsewhere {
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return origin{}, false
		}
	}
	o.child, rest, _ = strings.Cut(rest, "/")
	child, err := url.PathUnescape(o.child)
	if err != nil {
		return origin{}, false
	}
	o.child = child
	o.phase, rest, _ = strings.Cut(rest, "/")
	o.outlives = rest == string(kind.Orphan)
	return o, true
}

// IsCopy reports whether an object has the record of a child that was created under another name
// or with another type.
func IsCopy(object *unstructured.Unstructured) bool {
	_, isRecorded := entry(object, "annotations", annotationCreatedAs)
	_, isOriginal := originOf(object)
	return isRecorded && !isOriginal
}

// record sets annotationCreatedAs for the name and the namespace that an object has.
func (o origin) record(object *unstructured.Unstructured) {
	text := recordOf(object)
	if o.isElsewhere {
		text += "@" + object.GetNamespace()
	}
	text += "/" + url.PathEscape(o.child)
	switch {
	case o.outlives:
		text += "/" + o.phase + "/" + string(kind.Orphan)
	case o.phase != "":
		text += "/" + o.phase
	}
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{annotationCreatedAs: text}))
}

// labelOf returns the value of labelChild for the name of a child. That may come from the object, and a label takes
// less.
func labelOf(child string) string {
	if len(validation.IsValidLabelValue(child)) == 0 {
		return child
	}
	return digest([]byte(child), 16)
}

// mark gives a child everything by which it is found and recognized as that of its owner.
func (o origin) mark(k *kind.Kind, owner, object *unstructured.Unstructured) {
	labels := map[string]string{labelManagedBy: managedBy, LabelOwnerUID: string(owner.GetUID()), labelChild: labelOf(o.child)}
	if o.phase != "" {
		labels[labelPhase] = o.phase
	}
	if k.Target != nil {
		labels[labelDecorator] = k.Target.Decorator
	}
	object.SetLabels(merged(object.GetLabels(), labels))
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{AnnotationOwner: OwnerName(k, owner, object)}))
	o.isElsewhere = isElsewhere(owner, object)
	o.record(object)
	if o.outlives || isDetached(owner, object) {
		object.SetOwnerReferences(nil)
		return
	}
	object.SetOwnerReferences([]metav1.OwnerReference{ownerReference(k, owner)})
}

// IsOwnedBy reports whether an object is a child that belongs to an owner: the owner controls it, or nothing does
// and the engine created it for the owner as a child that outlives it or is detached. Outside of the namespace of
// the owner, the status of the owner has to list the place: so nobody who can write in another namespace adds
// children to the owner. One whose UID the status records as well needs only some mark.
func IsOwnedBy(child *unstructured.Unstructured, owner *unstructured.Unstructured) bool {
	o, isOriginal := originOf(child)
	if decoratorOf(child) == "" && isElsewhere(owner, child) { // a decorator has no status to list anything in
		switch {
		case knows(owner, child) && !IsCopy(child) && isMarked(child, owner):
			holder := metav1.GetControllerOfNoCopy(child)
			return holder == nil || holder.UID == owner.GetUID() && !isDetached(owner, child)
		case !isOriginal || !o.isElsewhere || !Lists(owner, child):
			return false
		}
	}
	if metav1.IsControlledBy(child, owner) {
		return !isDetached(owner, child)
	}
	return isOriginal && (o.outlives || isDetached(owner, child)) && isFor(child, owner)
}

// isMarked reports whether one of the marks of a child elsewhere still names it and its owner.
func isMarked(child, owner *unstructured.Unstructured) bool {
	_, isOriginal := originOf(child)
	return isOriginal || Label(child, LabelOwnerUID) == string(owner.GetUID()) ||
		strings.HasSuffix(Annotation(child, AnnotationOwner), "/"+strings.TrimPrefix(owner.GetNamespace()+"/"+owner.GetName(), "/"))
}

// isFor reports whether nothing controls an object and its label names an owner.
func isFor(child, owner *unstructured.Unstructured) bool {
	return metav1.GetControllerOfNoCopy(child) == nil && child.GetLabels()[LabelOwnerUID] == string(owner.GetUID())
}

// isOf reports whether a child belongs to an owner, or lost its controller reference, which is restored. What is decided
// before that is as if it still had it: a behaviour that does not see the child would go on without it. So it is with the
// children that an object orphans: what its phases read of them is there until it is gone.
func (c LiveChild) isOf(owner *unstructured.Unstructured) bool {
	o, isOriginal := originOf(c.Object)
	isOrphan := isOriginal && !o.outlives && metav1.GetControllerOfNoCopy(c.Object) == nil &&
		(owner.GetDeletionTimestamp() == nil && c.Object.GetDeletionTimestamp() == nil || isFor(c.Object, owner)) &&
		(!isElsewhere(owner, c.Object) || !isDetached(owner, c.Object) && Lists(owner, c.Object))
	return isOrphan || IsOwnedBy(c.Object, owner)
}

// isOriginal reports whether the engine created a child under the name that it has.
func (c LiveChild) isOriginal() bool {
	_, ok := originOf(c.Object)
	return ok
}

// isOfPhase reports whether a child belongs to a phase.
func (c LiveChild) isOfPhase() bool {
	if o, ok := originOf(c.Object); ok {
		return o.phase != ""
	}
	_, ok := entry(c.Object, "labels", labelPhase)
	return ok
}
