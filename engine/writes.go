package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// writes remembers what was written for each object until the caches have seen it, so
// that no pass acts on a state older than its own last write.
type writes struct {
	mu       sync.Mutex
	byObject map[cache.ObjectName]*written
}

type written struct {
	uid types.UID
	// object is as the API server answered the last write of its status; it is nil
	// once the cache has it.
	object *unstructured.Unstructured
	// children are the resource versions of the last write to each resource that its
	// cache has not seen yet.
	children map[schema.GroupVersionResource]string
}

func newWrites() *writes { return &writes{byObject: make(map[cache.ObjectName]*written)} }

// newest returns the newer of a cached object and what was last written of it.
func (w *writes) newest(name cache.ObjectName, cached *unstructured.Unstructured) *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byObject[name]; known != nil && known.isNewer(cached) {
		return known.object
	}
	return cached
}

// cached drops what was written of an object once its cache holds that or something
// newer.
func (w *writes) cached(name cache.ObjectName, cached *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byObject[name]
	if known == nil || known.isNewer(cached) {
		return
	}
	known.object = nil
	if len(known.children) == 0 {
		delete(w.byObject, name)
	}
}

func (k *written) isNewer(cached *unstructured.Unstructured) bool {
	return k.object != nil && k.uid == cached.GetUID() && older(cached.GetResourceVersion(), k.object.GetResourceVersion())
}

func (w *writes) rememberObject(name cache.ObjectName, object *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entry(name, object.GetUID()).object = object
}

func (w *writes) rememberChild(name cache.ObjectName, owner types.UID, resource schema.GroupVersionResource, resourceVersion string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	children := w.entry(name, owner).children
	if older(children[resource], resourceVersion) {
		children[resource] = resourceVersion
	}
}

// seen tells whether the caches have everything that was written for the children of
// an object; hasSeen asks one cache.
func (w *writes) seen(name cache.ObjectName, hasSeen func(schema.GroupVersionResource, string) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byObject[name]
	if known == nil {
		return true
	}
	for resource, version := range known.children {
		if !hasSeen(resource, version) {
			return false
		}
		delete(known.children, resource)
	}
	if known.object == nil {
		delete(w.byObject, name)
	}
	return true
}

// pending tells whether the cache of some resource has not seen the last write to it.
func (w *writes) pending(name cache.ObjectName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byObject[name]
	return known != nil && len(known.children) > 0
}

// forget drops what is known of an object that is gone.
func (w *writes) forget(name cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byObject, name)
}

func (w *writes) entry(name cache.ObjectName, uid types.UID) *written {
	known := w.byObject[name]
	if known == nil || known.uid != uid {
		known = &written{uid: uid, children: make(map[schema.GroupVersionResource]string)}
		w.byObject[name] = known
	}
	return known
}
