package plan

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// View is what one reconcile knows of the cluster apart from its object. Nobody changes it once an Attempt has begun;
// Budget and Normalized keep what they know themselves.
type View struct {
	// Budget is that of the reconcile; nil is one for each decision.
	Budget *kind.Budget
	// Children are those that the kind keeps for the object (MayBelongTo), including those that are being
	// deleted.
	Children []children.Live
	// Unmarked are the recorded children in other namespaces that name the object no more, or that others control.
	// Nothing is done about them.
	Unmarked []children.Live
	// Found is what the kind reads apart from the children; nil is nothing.
	Found *Found
	// Strays are those that sets have asked for until now.
	Strays []Strays
	// Types are where the types of children are served.
	Types map[schema.GroupVersionKind]ChildType
	// Normalized knows what the API server writes differently from a template.
	Normalized *children.Normalized
	// Uptake counts what Pods have of an object that injects. InjectionErr reports why the
	// kind cannot evaluate which Pods it selects.
	Uptake       Uptake
	InjectionErr error

	// Former are the types of which the object may have children though its kind no longer owns
	// them, and why they cannot be read. The children are among Children.
	Former map[schema.GroupVersionKind]error
	// Seen is what earlier reconciles have seen; nil is nothing.
	Seen *Seen
	// Passed are the phases that were left since anything but the phase has changed.
	Passed []passage
	// Namespaces are those in which the operator works; nil is all.
	Namespaces []string
	// Live means that the children were read from the API server itself, and Abandoned that nothing can be created
	// for an object that is being deleted.
	Live, Abandoned bool
	// hidesStatus means that the decision sees other values in the status than those that no message shows.
	hidesStatus bool
	// Orphaning means that the object was seen while the garbage collector took its owner references off the children.
	Orphaning bool
	// Unwatched means that a child is being deleted and is in no cache, so that no event shows when it is gone.
	Unwatched bool
	// Unread are the types of which some children could not be read from the API server, and why.
	Unread map[schema.GroupVersionKind]error

	taken map[Taken]bool
}

// IsLow reports whether the budget may not be enough for another decision.
func (v *View) IsLow() bool { return v.Budget != nil && v.Budget.IsLow() }

// reach returns why an object is not created where it is wanted.
func (v *View) reach(object *unstructured.Unstructured) error {
	if v.Namespaces == nil || slices.Contains(v.Namespaces, object.GetNamespace()) {
		return nil
	}
	return fmt.Errorf("metadata.namespace: Forbidden: the operator does not work in the namespace %q",
		object.GetNamespace())
}

// isSure reports whether an object has no children but those of the view outside of its namespace.
func (v *View) isSure(object *unstructured.Unstructured) bool {
	return v.Live && len(v.unread(object)) == 0
}

// isUnread reports whether some children of a type could not be read.
func (v *View) isUnread(gk schema.GroupKind) bool {
	for gvk, err := range v.Unread {
		if err != nil && gvk.GroupKind() == gk {
			return true
		}
	}
	return false
}

// unread describes, sorted, the children of an object outside of its namespace that cannot be read.
func (v *View) unread(object *unstructured.Unstructured) (texts []string) {
	for _, types := range []map[schema.GroupVersionKind]error{v.Unread, v.Former} {
		for gvk, err := range types {
			if err != nil && len(children.Places(object, gvk.GroupKind())) > 0 {
				texts = append(texts, fmt.Sprintf("children of type %s cannot be read: %s", gvk.GroupKind(), err))
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// abandon returns the view after it turned out that nothing can be created any more.
func (v *View) abandon() *View {
	next := *v
	next.Abandoned = true
	return &next
}

// ChildType is where the API server serves a type of children, or why it is not used.
type ChildType struct {
	Resource     schema.GroupVersionResource
	IsNamespaced bool
	Err          error
}

// Taken is a name that belongs to an object which is not a child.
type Taken struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}
