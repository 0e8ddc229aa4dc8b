package children

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The labels of children.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "fescue"
	// LabelOwnerUID selects the children to watch: no other tool sets it.
	LabelOwnerUID = "fescue.dev/owner-uid"
	LabelChild    = "fescue.dev/child"
	// LabelPhase is for children of a phase alone, which stay when it is left.
	LabelPhase = "fescue.dev/phase"
	// LabelDecorator names the decorator that a child is kept by. Children of kinds do not have it.
	LabelDecorator = "fescue.dev/decorator"
)

// OwnLabels are the labels that only the engine writes.
var OwnLabels = []string{LabelManagedBy, LabelOwnerUID, LabelChild, LabelPhase, LabelDecorator}

const (
	// AnnotationTemplate holds the hash, as of hashOf, that a child was last created or applied by. It
	// distinguishes a changed template from fields that the API server or others have changed.
	AnnotationTemplate = "fescue.dev/template"
	// AnnotationOwner names the object that a child was created for. It finds the children
	// of an object that was restored from a backup with another UID, when they have lost
	// their owner references (velero#4707).
	AnnotationOwner = "fescue.dev/owner"
	// AnnotationCreatedAs records as what a child was created; see Origin. It distinguishes a
	// child from copies of it, which carry all its metadata.
	AnnotationCreatedAs = "fescue.dev/created-as"
	// AnnotationEntered is when its phase was entered, for a child that is created once in it. It distinguishes
	// a child from that of a former entry under the same name.
	AnnotationEntered = "fescue.dev/entered"
)

// OwnAnnotations are the annotations of every child by which it is recognized.
var OwnAnnotations = []string{AnnotationOwner, AnnotationCreatedAs}

const (
	// ManagedSelector selects the children of all kinds, and unmanagedSelector everything else.
	ManagedSelector   = LabelOwnerUID
	unmanagedSelector = "!" + LabelOwnerUID
)

// OwnerSelector selects the children of an object.
func OwnerSelector(owner *unstructured.Unstructured) string {
	return LabelOwnerUID + "=" + string(owner.GetUID())
}

// IsLabelledFor reports whether OwnerSelector selects an object for an owner.
func IsLabelledFor(object, owner *unstructured.Unstructured) bool {
	return Label(object, LabelOwnerUID) == string(owner.GetUID())
}

// StraySelector selects the unmanaged objects that have all of a set's labels.
func StraySelector(labels []string) string {
	return strings.Join(labels, ",") + "," + unmanagedSelector
}

// hasOwnLabel reports whether an object has one of the labels by which children are found.
func hasOwnLabel(object *unstructured.Unstructured) bool {
	_, found := entry(object, "labels", LabelOwnerUID)
	return found || Label(object, LabelManagedBy) == ManagedBy
}

// DecoratorSelector selects the children that a decorator keeps.
func DecoratorSelector(k *kind.Kind) string { return LabelDecorator + "=" + k.Target.Decorator }
