package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// managedSelector selects the children of all kinds.
const managedSelector = labelManagedBy + "=" + managedBy

// ownerIndex finds children by the object that they are kept for: by its UID and, if
// they have no controller, by its name.
const ownerIndex = "owner"

// watchKey names a watch: a resource, whole or restricted by labels.
type watchKey struct {
	resource schema.GroupVersionResource
	selector string
}

// watches shares one watch between all that ask for the same; the last one to release
// it stops it.
type watches struct {
	client     dynamic.Interface
	namespaces []string

	mu     sync.Mutex
	active map[watchKey]*watch
}

// watch is a cache of one resource that follows the API server, with one informer for
// each namespace.
type watch struct {
	resource  schema.GroupVersionResource
	informers map[string]cache.SharedIndexInformer
	users     int
	stop      context.CancelFunc
}

func newWatches(client dynamic.Interface, namespaces []string) *watches {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &watches{client: client, namespaces: namespaces, active: make(map[watchKey]*watch)}
}

// acquire returns the watch of key, which it starts for the first user. It runs until
// ctx ends or its last user releases it.
func (w *watches) acquire(ctx context.Context, key watchKey) (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if existing, ok := w.active[key]; ok {
		existing.users++
		return existing, nil
	}
	ctx, stop := context.WithCancel(ctx)
	created := &watch{resource: key.resource, informers: make(map[string]cache.SharedIndexInformer), users: 1, stop: stop}
	for _, namespace := range w.namespaces {
		informer := dynamicinformer.NewFilteredDynamicInformer(w.client, key.resource, namespace, 0,
			cache.Indexers{ownerIndex: indexByOwner, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.LabelSelector = key.selector }).Informer()
		if err := informer.SetTransform(stripManagedFields); err != nil {
			stop()
			return nil, fmt.Errorf("watch %s: %w", key.resource, err)
		}
		created.informers[namespace] = informer
		go informer.RunWithContext(ctx)
	}
	w.active[key] = created
	return created, nil
}

// release gives a watch back.
func (w *watches) release(key watchKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used, ok := w.active[key]
	if !ok {
		return
	}
	if used.users--; used.users == 0 {
		used.stop()
		delete(w.active, key)
	}
}

// stripManagedFields drops what no pass reads and what is up to a third of an object.
func stripManagedFields(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return object, nil
}

func indexByOwner(object any) ([]string, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cache holds a %T", object)
	}
	var keys []string
	add := func(key string) {
		if key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if holder := metav1.GetControllerOfNoCopy(u); holder != nil {
		add(string(holder.UID))
	} else if u.GetLabels()[labelManagedBy] == managedBy {
		add(u.GetAnnotations()[annotationOwner])
	}
	add(u.GetLabels()[labelOwnerUID])
	return keys, nil
}

// handle calls handler for every event and waits until it has seen all objects that
// exist, so that no worker acts on a half-filled cache.
func (w *watch) handle(ctx context.Context, handler cache.ResourceEventHandler) error {
	for _, informer := range w.informers {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return err
		}
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return errors.New("stopped before the cache was filled")
		}
	}
	return nil
}

// informer returns the cache that holds objects of a namespace.
func (w *watch) informer(namespace string) cache.SharedIndexInformer {
	if informer, ok := w.informers[namespace]; ok {
		return informer
	}
	return w.informers[metav1.NamespaceAll]
}

// get returns the cached object, which must not be changed, or nil.
func (w *watch) get(name cache.ObjectName) *unstructured.Unstructured {
	informer := w.informer(name.Namespace)
	if informer == nil {
		return nil
	}
	object, exists, err := informer.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return nil
	}
	u, _ := object.(*unstructured.Unstructured)
	return u
}

// each calls do for every cached object, which must not be changed.
func (w *watch) each(do func(object any)) {
	for _, informer := range w.informers {
		for _, object := range informer.GetStore().List() {
			do(object)
		}
	}
}

// inNamespace returns the cached objects of a namespace, which must not be changed.
func (w *watch) inNamespace(namespace string) []*unstructured.Unstructured {
	found, err := w.informer(namespace).GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil // only an index that is not there
	}
	var objects []*unstructured.Unstructured
	for _, object := range found {
		if u, ok := object.(*unstructured.Unstructured); ok {
			objects = append(objects, u)
		}
	}
	return objects
}

// ownedBy returns the cached children of an object, which must not be changed, sorted
// by name. ownerName is how annotationOwner names it.
func (w *watch) ownedBy(owner *unstructured.Unstructured, ownerName string) ([]*unstructured.Unstructured, error) {
	var children []*unstructured.Unstructured
	for _, key := range []string{string(owner.GetUID()), ownerName} {
		found, err := w.informer(owner.GetNamespace()).GetIndexer().ByIndex(ownerIndex, key)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if u, ok := object.(*unstructured.Unstructured); ok && u.GetNamespace() == owner.GetNamespace() {
				children = append(children, u)
			}
		}
	}
	slices.SortFunc(children, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return slices.CompactFunc(children, func(a, b *unstructured.Unstructured) bool { return a.GetUID() == b.GetUID() }), nil
}

// hasSeen tells whether the cache of a namespace is at least as new as a write that
// the API server answered with this resource version.
func (w *watch) hasSeen(namespace, resourceVersion string) bool {
	return !older(w.informer(namespace).GetStore().LastStoreSyncResourceVersion(), resourceVersion)
}

// older tells whether resource version a is older than b. Versions that cannot be
// compared are not: better to act on what may be stale than never.
func older(a, b string) bool {
	if a == "" {
		return b != ""
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// hasLost tells whether the cache of a namespace knows that a deleted object is gone or
// about to be.
func (w *watch) hasLost(name cache.ObjectName, uid types.UID) bool {
	is := w.get(name)
	return is == nil || is.GetUID() != uid || is.GetDeletionTimestamp() != nil
}
