package plan

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Swaps remembers which objects wait for names that children of other objects have. A child that is not wanted any more
// is deleted once all others are written; objects that exchange the names of their children would wait for each other.
type Swaps struct {
	mu    sync.Mutex
	waits map[waiter][]wait
}

// waiter is an object, and the kind or the decorator that acts for it.
type waiter struct {
	kind string
	name types.NamespacedName
}

// Occupied is an object that has the name of a child, and belongs to another object.
type Occupied struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
	By              types.UID
}

// wait is what an object waits for.
type wait struct {
	Occupied
	waiter types.UID
}

// NewSwaps returns a memory that is empty.
func NewSwaps() *Swaps { return &Swaps{waits: make(map[waiter][]wait)} }

// OccupiedBy describes an object that has the name of a child of another.
func OccupiedBy(resource schema.GroupVersionResource, live *unstructured.Unstructured) Occupied {
	o := Occupied{Resource: resource, Namespace: live.GetNamespace(), Name: live.GetName(),
		By: types.UID(children.Label(live, children.LabelOwnerUID))}
	if holder := metav1.GetControllerOfNoCopy(live); holder != nil {
		o.By = holder.UID
	}
	return o
}

// Forget drops what an object waits for.
func (s *Swaps) Forget(k *kind.Kind, name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, waiter{k.Name(), name})
}

// Release notes what an object waits for. It returns those of its deletions for which an object waits that it
// waits for itself, directly or by others.
func (s *Swaps) Release(k *kind.Kind, owner *unstructured.Unstructured, occupied []Occupied, deletions []Step) []Step {
	if len(occupied) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := make([]wait, 0, len(occupied))
	for _, o := range occupied {
		waits = append(waits, wait{o, owner.GetUID()})
	}
	s.waits[waiter{k.Name(), types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}}] = waits
	return slices.DeleteFunc(slices.Clone(deletions),
		func(step Step) bool { return !s.isAwaited(owner.GetUID(), step) })
}

// isAwaited reports whether an object waits for one that waits for the name of its child.
func (s *Swaps) isAwaited(owner types.UID, step Step) bool {
	child := Occupied{step.Resource, step.Live.GetNamespace(), step.Name, owner}
	for _, waits := range s.waits {
		for _, w := range waits {
			if w.Occupied == child && w.waiter != owner && s.leads(owner, w.waiter, make(map[types.UID]bool)) {
				return true
			}
		}
	}
	return false
}

// leads reports whether an object waits for another, directly or by others.
func (s *Swaps) leads(from, to types.UID, seen map[types.UID]bool) bool {
	if from == to || seen[from] {
		return from == to
	}
	seen[from] = true
	for _, waits := range s.waits {
		for _, w := range waits {
			if w.waiter == from && s.leads(w.By, to, seen) {
				return true
			}
		}
	}
	return false
}
