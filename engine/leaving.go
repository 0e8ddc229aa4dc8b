package engine

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/plan"
)

// leavingObject is what events have shown of an object that is being deleted.
type leavingObject struct {
	version string // the last
	// isOrphaning means that a version showed that the garbage collector was about to orphan the children. When that is
	// done, nothing of the object shows it.
	isOrphaning bool
}

// shownOf returns what events have shown of an object. They may be behind the cache.
func (r *records) shownOf(object *unstructured.Unstructured) leavingObject {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving[object.GetUID()]
}

// noteLeaving notes what an event shows of an object.
func (r *records) noteLeaving(object *unstructured.Unstructured) {
	if object.GetDeletionTimestamp() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := object.GetUID()
	r.leaving[uid] = leavingObject{object.GetResourceVersion(), r.leaving[uid].isOrphaning || plan.IsOrphaning(object)}
}

// noteGone drops what events have shown of an object.
func (r *records) noteGone(object types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaving, object)
}
