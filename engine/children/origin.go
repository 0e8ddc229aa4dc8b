package children

import (
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Origin is what a child was created as: the child of a kind and, of a child that belongs to a
// phase, the phase. It is recorded in AnnotationCreatedAs together with the type and the name of
// the object, as in ConfigMap/w-config/config or Pod/a-pod/pod/RUNNING, and with the namespace if that is not
// its owner's, as in ConfigMap/w-config@team-a/config. So a child keeps its role when it loses its labels, and
// a copy under another name, or in another namespace where the owner could have it, has none. A child that
// outlives its object has no controller reference, which would have it deleted, and its record ends in Orphan. Nor
// has a child outside of the namespace of its object, for the same reason.
type Origin struct {
	Child, Phase string
	Outlives     bool
	// IsElsewhere means that it is not in the namespace of its owner.
	IsElsewhere bool
}

// recordOf returns how AnnotationCreatedAs of an object begins if the object is no copy.
func recordOf(object *unstructured.Unstructured) string {
	return object.GroupVersionKind().GroupKind().String() + "/" + object.GetName()
}

// OriginOf returns what an object was created as. It reports false for an object that the engine
// did not create under its name. The labels of one that has no record say the same, as far as an object controls it: a
// mark that is missing decides nothing, and one that names something else makes an object a copy.
func OriginOf(object *unstructured.Unstructured) (o Origin, ok bool) {
	record, isRecorded := entry(object, "annotations", AnnotationCreatedAs)
	if !isRecorded {
		o = Origin{Child: Label(object, LabelChild), Phase: Label(object, LabelPhase)}
		return o, o.Child != "" && metav1.GetControllerOfNoCopy(object) != nil
	}
	rest, ok := strings.CutPrefix(record, recordOf(object))
	if !ok {
		return Origin{}, false
	}
	rest, o.IsElsewhere = strings.CutPrefix(rest, "@"+object.GetNamespace()+"/")
	if !o.IsElsewhere {
		if rest, ok = strings.CutPrefix(rest, "/"); !ok {
			return Origin{}, false
		}
	}
	o.Child, rest, _ = strings.Cut(rest, "/")
	child, err := url.PathUnescape(o.Child)
	if err != nil {
		return Origin{}, false
	}
	o.Child = child
	o.Phase, rest, _ = strings.Cut(rest, "/")
	o.Outlives = rest == string(kind.Orphan)
	return o, true
}

// IsCopy reports whether an object has the record of a child that was created under another name
// or with another type.
func IsCopy(object *unstructured.Unstructured) bool {
	_, isRecorded := entry(object, "annotations", AnnotationCreatedAs)
	_, isOriginal := OriginOf(object)
	return isRecorded && !isOriginal
}

// Record sets AnnotationCreatedAs for the name and the namespace that an object has.
func (o Origin) Record(object *unstructured.Unstructured) {
	text := recordOf(object)
	if o.IsElsewhere {
		text += "@" + object.GetNamespace()
	}
	text += "/" + url.PathEscape(o.Child)
	switch {
	case o.Outlives:
		text += "/" + o.Phase + "/" + string(kind.Orphan)
	case o.Phase != "":
		text += "/" + o.Phase
	}
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{AnnotationCreatedAs: text}))
}

// labelOf returns the value of LabelChild for the name of a child. That may come from the object, and a label takes
// less.
func labelOf(child string) string {
	if len(validation.IsValidLabelValue(child)) == 0 {
		return child
	}
	return digest([]byte(child), 16)
}

// Mark gives a child everything by which it is found and recognized as that of its owner.
func (o Origin) Mark(k *kind.Kind, owner, object *unstructured.Unstructured) {
	labels := map[string]string{LabelManagedBy: ManagedBy, LabelOwnerUID: string(owner.GetUID()),
		LabelChild: labelOf(o.Child)}
	if o.Phase != "" {
		labels[LabelPhase] = o.Phase
	}
	if k.Target != nil {
		labels[LabelDecorator] = k.Target.Decorator
	}
	object.SetLabels(merged(object.GetLabels(), labels))
	object.SetAnnotations(
		merged(object.GetAnnotations(), map[string]string{AnnotationOwner: OwnerName(k, owner, object)}))
	o.IsElsewhere = IsElsewhere(owner, object)
	o.Record(object)
	if o.Outlives || IsDetached(owner, object) {
		object.SetOwnerReferences(nil)
		return
	}
	object.SetOwnerReferences([]metav1.OwnerReference{ownerReference(k, owner)})
}
