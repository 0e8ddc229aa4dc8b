package engine

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// records are what is known of the objects of a kind beyond the caches: one record for each, with what its reconciles
// have learned and written. It is dropped when the object is gone, but for writes that the caches have not shown, and
// as a whole when another process acts on the object. What leads from other objects to these stands apart: lookups,
// selections, and the strays of childTypes.
type records struct {
	mu       sync.Mutex
	byObject map[cache.ObjectName]*record
	// leaving are the objects that are being deleted. Events alone show that, and end it, in their own time: a worker
	// may act on the next object of a name while events of the former are still to come.
	leaving map[types.UID]leavingObject
	// running are the objects that are being reconciled, and since when: cache.ObjectName → time.Time.
	running    sync.Map
	normalized *children.Normalized
}

// record is what is known of one object.
type record struct {
	uid types.UID
	// memory is what is remembered from one reconcile to the next, and isSlowed that a write was held; nil is nothing.
	// The worker that reconciles the object uses it.
	memory   *plan.Memory
	isSlowed bool
	unseenWrites
	// lost are the children that left the caches, or never were there, and may still exist without the label by which
	// they are watched.
	lost map[types.UID]lostChild
}

// lostChild locates a child of an object that no cache has.
type lostChild struct {
	resource schema.GroupVersionResource
	name     cache.ObjectName
}

func newRecords() *records {
	return &records{byObject: make(map[cache.ObjectName]*record), leaving: make(map[types.UID]leavingObject),
		normalized: children.NewNormalized()}
}

// record returns the record of an object, which is a new one if that of its name is of a former object. What was
// written for the children of that is still awaited: their names may be the same. The caller holds the lock.
func (r *records) record(name cache.ObjectName, uid types.UID) *record {
	known := r.byObject[name]
	if known != nil && known.uid == uid {
		return known
	}
	next := &record{uid: uid}
	if known != nil {
		next.children, next.deleted, next.answered, next.since = known.children, known.deleted, known.answered,
			known.since
	}
	r.byObject[name] = next
	return next
}

// drop drops the writes of an object once everything of them is seen, and its record if nothing is left in it. The
// caller holds the lock.
func (r *records) drop(name cache.ObjectName, known *record) {
	if !known.isSeen() || known.object != nil || known.written != "" || known.isWriting {
		return
	}
	known.unseenWrites = unseenWrites{}
	if known.memory == nil && len(known.lost) == 0 {
		delete(r.byObject, name)
	}
}

// forget drops what is known of an object that another process acts on.
func (r *records) forget(name cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byObject, name)
}

// gone drops what is known of an object that is gone. It keeps the writes for its children that the caches have not
// shown, unless they are older than a time: the next object of the name may have the same children, and an event that
// comes twice may have shown the end of a former object although the next one exists.
func (r *records) gone(name cache.ObjectName, before time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	if known == nil || known.isSeen() || known.since.Before(before) {
		delete(r.byObject, name)
		return
	}
	known.memory, known.isSlowed, known.object, known.written = nil, false, nil, ""
}

// memoryOf returns the memory of an object, for its reconcile, which drops what was known of a former one of its name.
func (r *records) memoryOf(object *unstructured.Unstructured) *plan.Memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.record(cache.MetaObjectToName(object), object.GetUID())
	if known.memory == nil {
		return plan.NewMemory(object)
	}
	return known.memory
}

// keep keeps the memory of an object after its reconcile, if there is anything to remember, and if the reconcile has
// not found the next object of the name.
func (r *records) keep(name cache.ObjectName, uid types.UID, memory *plan.Memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.byObject[name]; other != nil && other.uid != uid {
		return
	}
	known := r.record(name, uid)
	known.memory, known.isSlowed = memory, memory.IsSlowed()
	if memory.IsEmpty() {
		known.memory = nil
		r.drop(name, known)
	}
}

// slows reports whether a write for an object was held.
func (r *records) slows(name cache.ObjectName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	return known != nil && known.isSlowed
}

// lose has the next reconcile read a child that no cache has.
func (k *record) lose(child types.UID, where lostChild) {
	if k.lost == nil {
		k.lost = make(map[types.UID]lostChild)
	}
	k.lost[child] = where
}

// addLost has the next reconcile of an object read a child that no cache has. Nothing is done if the name has another
// object by now, as the last write or the cache, which is read under the lock, shows.
func (r *records) addLost(
	name cache.ObjectName, uid, child types.UID, where lostChild, read func() *unstructured.Unstructured,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if object := r.newer(name, read()); object != nil && object.GetUID() == uid {
		r.record(name, uid).lose(child, where)
	}
}

// lostOf returns the children of an object that no cache has.
func (r *records) lostOf(name cache.ObjectName, uid types.UID) map[types.UID]lostChild {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byObject[name]; known != nil && known.uid == uid {
		return maps.Clone(known.lost)
	}
	return nil
}

// found ends that a child is read that is in a cache again, or gone.
func (r *records) found(name cache.ObjectName, child types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byObject[name]; known != nil {
		delete(known.lost, child)
		r.drop(name, known)
	}
}
