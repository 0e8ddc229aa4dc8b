package plan

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// View is what one reconcile knows of the cluster apart from its object. Nothing in it may be
// changed.
type View struct {
	// Budget is that of the reconcile; nil is one for each decision.
	Budget *kind.Budget
	// Children are those that the kind keeps for the object (IsKeptBy), including those that are being
	// deleted.
	Children []LiveChild
	// Unmarked are the recorded children in other namespaces that name the object no more, or that others control.
	// Nothing is done about them.
	Unmarked []LiveChild
	// Found is what the kind reads apart from the children; nil is nothing.
	Found *Found
	// Strays returns the unmanaged objects in the namespace of a set that have the labels of its template.
	Strays func(set, namespace string, labels map[string]string) []*unstructured.Unstructured
	// Types are where the types of children are served.
	Types map[schema.GroupVersionKind]ChildType
	// Normalized knows what the API server writes differently from a template.
	Normalized *Normalized
	// Uptake counts what Pods have of an object that injects. InjectionErr reports why the
	// kind cannot evaluate which Pods it selects.
	Uptake       Uptake
	InjectionErr error

	// Former are the types of which the object may have children though its kind no longer owns
	// them, and why they cannot be read. The children are among Children.
	Former map[schema.GroupVersionKind]error
	// Memory is what is remembered of the object; nil is nothing.
	Memory *Memory
	// Passed are the phases that were left since anything but the phase has changed.
	Passed []string
	// Namespaces are those in which the operator works; nil is all.
	Namespaces []string
	// Live means that the children were read from the API server itself, and Abandoned that nothing can be created
	// for an object that is being deleted.
	Live, Abandoned bool
	// hidesStatus means that the decision sees other values in the status than those that no message shows.
	hidesStatus bool
	// Orphaning means that the object was seen while the garbage collector took its owner references off the children.
	Orphaning bool
	// Unread are the types of which some children could not be read from the API server, and why.
	Unread map[schema.GroupVersionKind]error

	taken map[Taken]bool
}

// reach returns why an object is not created where it is wanted.
func (v *View) reach(object *unstructured.Unstructured) error {
	if v.Namespaces == nil || slices.Contains(v.Namespaces, object.GetNamespace()) {
		return nil
	}
	return fmt.Errorf("metadata.namespace: Forbidden: the operator does not work in the namespace %q", object.GetNamespace())
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
			if err != nil && len(Places(object, gvk.GroupKind())) > 0 {
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

// LiveChild is a child as the API server had it last.
type LiveChild struct {
	// Name is its name in the kind; it is empty for an object without a record and a label.
	Name     string
	Resource schema.GroupVersionResource
	Object   *unstructured.Unstructured
}

// Live returns an object as the child that it was created as.
func Live(resource schema.GroupVersionResource, object *unstructured.Unstructured) LiveChild {
	return LiveChild{Name: ChildName(object), Resource: resource, Object: object}
}

// ChildName returns the name of a child in the kind: the recorded one, or else that of its label.
func ChildName(child *unstructured.Unstructured) string {
	if o, ok := originOf(child); ok {
		return o.child
	}
	return Label(child, labelChild)
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

// Changes are the results of steps.
type Changes struct {
	// Stored are objects as the API server answered, and Deleted those that were deleted.
	Stored  []LiveChild
	Deleted map[types.UID]bool
	Taken   []Taken
	// Occupied are the objects of others that have the names of children.
	Occupied []Occupied
	// Strays are the steps that deleted unmanaged objects, and Adopted the adoptions of objects that a creation has found.
	Strays, Adopted []Step
	// Inspected are the objects that Comparison.Inspect names, with their managedFields.
	Inspected []*unstructured.Unstructured
	// Rejected is an error that requires user action; retrying may resolve Failed.
	Rejected, Failed error
	// Waiting reports that a child waits for another object to be gone, and Held that a write
	// was left for later.
	Waiting, Held bool
	// NamespaceLeaving reports that a creation, or one that was tried, was rejected because its namespace, which is that of
	// the object, is being deleted.
	NamespaceLeaving bool
}

// with returns the view after changes.
func (v *View) with(done *Changes, now time.Time) *View {
	next := *v
	next.Children, next.Passed = nil, nil
	newer := make(map[types.UID]LiveChild, len(done.Stored))
	for _, child := range done.Stored {
		newer[child.Object.GetUID()] = child
	}
	for _, child := range v.Children {
		uid := child.Object.GetUID()
		if stored, ok := newer[uid]; ok {
			child = stored
			delete(newer, uid)
		}
		if done.Deleted[uid] && child.Object.GetDeletionTimestamp() == nil {
			child.Object = child.Object.DeepCopy()
			child.Object.SetDeletionTimestamp(new(metav1.NewTime(now)))
		}
		next.Children = append(next.Children, child)
	}
	for _, child := range done.Stored {
		if _, isNew := newer[child.Object.GetUID()]; isNew {
			next.Children = append(next.Children, child)
		}
	}
	next.Strays = func(set, namespace string, labels map[string]string) []*unstructured.Unstructured {
		var left []*unstructured.Unstructured
		for _, s := range v.Strays(set, namespace, labels) {
			if !done.Deleted[s.GetUID()] {
				left = append(left, s)
			}
		}
		return left
	}
	next.taken = make(map[Taken]bool)
	for name := range v.taken {
		next.taken[name] = true
	}
	for _, name := range done.Taken {
		next.taken[name] = true
	}
	return &next
}

// WithLabels returns those of the objects that have all these labels.
func WithLabels(objects []*unstructured.Unstructured, wanted map[string]string) []*unstructured.Unstructured {
	selector := labels.SelectorFromSet(wanted)
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	return found
}
