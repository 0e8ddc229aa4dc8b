package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
)

// Changes are the results of steps.
type Changes struct {
	// Obstacles are those that requests have met.
	Obstacles
	// Stored are objects as the API server answered, and Deleted those that were deleted.
	Stored  []children.Live
	Deleted map[types.UID]bool
	Taken   []Taken
	// Occupied are the objects of others that have the names of children.
	Occupied []Occupied
	// Strays are the steps that deleted unmanaged objects, and Adopted the adoptions of objects that a creation has
	// found.
	Strays, Adopted []Step
	// Inspected are the objects that Comparison.Inspect names, with their managedFields, and Found what Comparison.Find
	// asks for.
	Inspected []*unstructured.Unstructured
	Found     []Strays
	// NamespaceLeaving reports that a creation, or one that was tried, was rejected because its namespace, which is
	// that of the object, is being deleted.
	NamespaceLeaving bool
}

// with returns the view after changes.
func (v *View) with(done *Changes, now time.Time) *View {
	next := *v
	next.Children, next.Passed = nil, nil
	newer := make(map[types.UID]children.Live, len(done.Stored))
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
	next.Strays = without(v.Strays, done.Deleted)
	next.taken = make(map[Taken]bool)
	for name := range v.taken {
		next.taken[name] = true
	}
	for _, name := range done.Taken {
		next.taken[name] = true
	}
	return &next
}
