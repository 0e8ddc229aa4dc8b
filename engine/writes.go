package engine

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// unseenWrites are what was written for an object until the caches have seen it, so that no reconcile acts on a state
// older than its own last write.
type unseenWrites struct {
	// object is as the API server answered the last write of its status; it is nil
	// once the cache has it.
	object *unstructured.Unstructured
	// written is the version of the last write of its status; it is empty once an event has shown that. While
	// isWriting, an event may show it before the answer is there: shown is the last version that events have shown
	// meanwhile.
	written, shown string
	isWriting      bool
	// children are the resource versions of the last write to each resource that its
	// cache has not seen yet, and deleted the children that it still has.
	children map[childPlace]string
	deleted  map[types.UID]deletedChild
	// answered are the versions of children that answers have shown, and whose events are still to come.
	answered map[childVersion]answeredChild
	// since is when the oldest of them was written.
	since time.Time
	// awaited reports that a reconcile has ended because the caches did not have everything.
	awaited bool
}

// childPlace is a resource in a namespace; each may have a cache of its own.
type childPlace struct {
	resource  schema.GroupVersionResource
	namespace string
}

// childVersion is one state of a child.
type childVersion struct {
	resource schema.GroupVersionResource
	version  string
}

// answeredChild is a child that an answer has shown.
type answeredChild struct {
	name cache.ObjectName
	uid  types.UID
}

// deletedChild is a child whose deletion was requested. Without an answer, that may not have begun.
type deletedChild struct {
	resource   schema.GroupVersionResource
	name       cache.ObjectName
	isAnswered bool
}

// newest returns the newer of a cached object and what was last written of it, or nil if the cache has none. The cache
// is read under the lock: once it has what was written, that is dropped.
func (r *records) newest(name cache.ObjectName, read func() *unstructured.Unstructured) *unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newer(name, read())
}

// newer returns the newer of a cached object and what was last written of it. The caller holds the lock.
func (r *records) newer(name cache.ObjectName, cached *unstructured.Unstructured) *unstructured.Unstructured {
	if known := r.byObject[name]; cached != nil && known != nil && known.isNewer(cached) {
		return known.object
	}
	return cached
}

// cached drops what was written of an object once its cache holds that or something
// newer.
func (r *records) cached(name cache.ObjectName, cached *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byObject[name]; known != nil && !known.isNewer(cached) {
		known.object = nil
		r.drop(name, known)
	}
}

// isOwn reports whether an event shows an object as the last write of its status left it, or what that was based on.
// While the status is being written, it may be that. It is asked once for each event.
func (r *records) isOwn(name cache.ObjectName, object *unstructured.Unstructured) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, version := r.byObject[name], object.GetResourceVersion()
	if known == nil || known.uid != object.GetUID() {
		return false
	}
	if known.isWriting {
		known.shown = version
		return true
	}
	written := known.written
	if older(version, written) {
		return true
	}
	known.written = ""
	r.drop(name, known)
	return version == written
}

// write writes the status of an object and remembers the answer. It reports whether events have shown meanwhile that
// someone else has written it after that.
func (r *records) write(
	name cache.ObjectName, uid types.UID, send func() (*unstructured.Unstructured, error),
) (stored *unstructured.Unstructured, isOther bool, err error) {
	begin := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		known := r.record(name, uid)
		known.isWriting, known.shown = true, ""
	}
	begin()
	stored, err = send()
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.record(name, uid)
	known.isWriting = false
	if err != nil {
		r.drop(name, known)
		return nil, false, err
	}
	stored.SetManagedFields(nil)
	known.object = stored
	if older(known.shown, stored.GetResourceVersion()) {
		known.written = stored.GetResourceVersion()
	}
	return stored, older(stored.GetResourceVersion(), known.shown), nil
}

// isSeen reports whether the caches of the children have everything.
func (w *unseenWrites) isSeen() bool { return len(w.children) == 0 && len(w.deleted) == 0 }

// isNewer reports whether the last write is newer than what a cache has, which may be a former object of the name.
func (w *unseenWrites) isNewer(cached *unstructured.Unstructured) bool {
	return w.object != nil && older(cached.GetResourceVersion(), w.object.GetResourceVersion())
}

func (r *records) rememberObject(name cache.ObjectName, object *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record(name, object.GetUID()).object = object
}

// hasObject reports whether the last write of an object is remembered.
func (r *records) hasObject(name cache.ObjectName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	return known != nil && known.object != nil
}

func (r *records) rememberChild(
	name cache.ObjectName, owner types.UID, resource schema.GroupVersionResource, child *unstructured.Unstructured,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, in, version := r.unseen(name, owner), childPlace{resource, child.GetNamespace()}, child.GetResourceVersion()
	known.answered[childVersion{resource, version}] = answeredChild{cache.MetaObjectToName(child), child.GetUID()}
	if older(known.children[in], version) {
		known.children[in] = version
	}
}

// isEcho reports whether an event shows a child of an object as the answer to a write did, which the
// reconcile that wrote it went by. It is asked once for each event.
func (r *records) isEcho(name cache.ObjectName, resource schema.GroupVersionResource, resourceVersion string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	if known == nil {
		return false
	}
	shown := childVersion{resource, resourceVersion}
	_, isAnswer := known.answered[shown]
	delete(known.answered, shown)
	return isAnswer
}

// isAwaited reports whether an object is to be reconciled when an event brings a cache up to date,
// whatever else the event shows.
func (r *records) isAwaited(name cache.ObjectName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	return known != nil && known.awaited
}

func (r *records) rememberDelete(
	name cache.ObjectName, owner types.UID, resource schema.GroupVersionResource, child *unstructured.Unstructured,
	isAnswered bool,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unseen(name, owner).deleted[child.GetUID()] = deletedChild{resource, cache.MetaObjectToName(child), isAnswered}
}

// isDeleting reports whether the deletion of a child was requested and its cache may not know it yet.
func (r *records) isDeleting(name cache.ObjectName, child types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	if known == nil {
		return false
	}
	_, found := known.deleted[child]
	return found
}

// isDeleted reports whether the API server has answered that the deletion of a child has begun, and its cache may not
// know it yet.
func (r *records) isDeleted(name cache.ObjectName, child types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	return known != nil && known.deleted[child].isAnswered
}

// cacheState is how far the caches of children are.
type cacheState interface {
	// hasSeen reports whether a cache is at least as new as a resource version.
	hasSeen(resource schema.GroupVersionResource, namespace, version string) bool
	// hasLeft reports whether the cache of children does not have an object, or knows that it is being deleted.
	hasLeft(resource schema.GroupVersionResource, name cache.ObjectName, uid types.UID) bool
	// hasLost reports whether all caches know that a deleted object is gone or being deleted.
	hasLost(resource schema.GroupVersionResource, name cache.ObjectName, uid types.UID) bool
}

// seen reports whether the caches have everything that was written for the children of an
// object and, if not, since when.
func (r *records) seen(name cache.ObjectName, caches cacheState) (ok bool, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	if known == nil {
		return true, time.Time{}
	}
	r.catchUp(name, known, caches)
	if known.awaited = !known.isSeen(); known.awaited {
		return false, known.since
	}
	return true, time.Time{}
}

// catchUp drops what the caches have of the writes for an object. A child that their cache does not have, although it
// is as new as the last write, is lost: it is gone, or had lost its label when the cache was filled, so no event ever
// shows it.
func (r *records) catchUp(name cache.ObjectName, known *record, caches cacheState) {
	for in, version := range known.children {
		if caches.hasSeen(in.resource, in.namespace, version) {
			delete(known.children, in)
		}
	}
	for version, child := range known.answered {
		isAwaited := known.children[childPlace{version.resource, child.name.Namespace}] != ""
		isDeleted := known.deleted[child.uid].isAnswered
		if !isAwaited && !isDeleted && caches.hasLeft(version.resource, child.name, child.uid) {
			known.lose(child.uid, lostChild{version.resource, child.name})
			delete(known.answered, version)
		}
	}
	for uid, child := range known.deleted {
		if caches.hasLost(child.resource, child.name, uid) {
			delete(known.deleted, uid)
		}
	}
	r.drop(name, known)
}

// overdue drops what the caches have of the writes for all objects. It returns the objects for which
// a reconcile waits in vain: their caches have everything, and no event has come, or have not since
// before. A child that was created and is gone before its cache has listed it has no events at all.
func (r *records) overdue(caches cacheState, before time.Time) (names []cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, known := range r.byObject {
		wasSeen, isAwaited := known.isSeen(), known.awaited
		isMissed := !wasSeen && len(known.answered) > 0
		r.catchUp(name, known, caches)
		if known.isSeen() && (isAwaited || isMissed) || !known.isSeen() && known.since.Before(before) {
			names = append(names, name)
		}
	}
	return names
}

// readLive notes that everything is read from the API server itself. The caches have as long
// again to catch up.
func (r *records) readLive(name cache.ObjectName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.byObject[name]; known != nil {
		known.since = time.Now()
	}
}

// listed notes what a list of the API server, which is newer than all writes, shows of them. After a restore of etcd
// from an older copy, no cache reaches the versions of writes that etcd lost for a long time, and children whose
// deletion it lost stay.
func (r *records) listed(name cache.ObjectName, in childPlace, found *unstructured.UnstructuredList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.byObject[name]
	if known == nil {
		return
	}
	for at, awaited := range known.children {
		if at.resource == in.resource && (at.namespace == in.namespace || in.namespace == metav1.NamespaceAll) &&
			older(found.GetResourceVersion(), awaited) {
			known.children[at] = found.GetResourceVersion()
		}
	}
	for i := range found.Items {
		if found.Items[i].GetDeletionTimestamp() == nil {
			delete(known.deleted, found.Items[i].GetUID())
		}
	}
}

// unseen returns the record of an object for which something is being written.
func (r *records) unseen(name cache.ObjectName, uid types.UID) *record {
	known := r.record(name, uid)
	if known.isSeen() {
		known.since = time.Now()
	}
	if known.children == nil {
		known.children, known.deleted = make(map[childPlace]string), make(map[types.UID]deletedChild)
		known.answered = make(map[childVersion]answeredChild)
	}
	return known
}

// older reports whether resource version a is older than b. Versions that cannot be
// compared are not: acting on what may be stale is better than never acting.
func older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
