package informers

import (
	"context"
	"errors"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/projection"
)

// Cache holds objects of one resource and follows the API server, with one informer for
// each namespace. Nothing that it returns may be changed.
type Cache struct {
	resource  schema.GroupVersionResource
	informers map[string]cache.SharedIndexInformer
	indexing  sync.Mutex // one user adds indexers at a time
}

// NewCache wires a cache of informers that newInformer returns for each namespace; start it
// with Informers.Start. It is for objects that no one else caches in the same form.
//
// Objects are stored as projection.Objects, and all users get them decoded; others as they are.
func NewCache(
	resource schema.GroupVersionResource, namespaces []string,
	newInformer func(namespace string) (cache.SharedIndexInformer, error),
) (*Cache, error) {
	c := &Cache{resource: resource, informers: make(map[string]cache.SharedIndexInformer, len(namespaces))}
	for _, namespace := range namespaces {
		informer, err := newInformer(namespace)
		if err != nil {
			return nil, err
		}
		c.informers[namespace] = informer
	}
	return c, nil
}

func (c *Cache) start(ctx context.Context) {
	for _, informer := range c.informers {
		go informer.RunWithContext(ctx)
	}
}

// Resource returns the resource whose objects are cached.
func (c *Cache) Resource() schema.GroupVersionResource { return c.resource }

// AddIndexers adds the indexers that the cache does not have yet. A name stands for the
// same function for all users.
func (c *Cache) AddIndexers(indexers cache.Indexers) error {
	c.indexing.Lock()
	defer c.indexing.Unlock()
	for _, informer := range c.informers {
		missing := make(cache.Indexers)
		for name, index := range indexers {
			if _, has := informer.GetIndexer().GetIndexers()[name]; !has {
				missing[name] = Index(index)
			}
		}
		if err := informer.AddIndexers(missing); err != nil {
			return err
		}
	}
	return nil
}

// Handle calls handler for every object and event, those of several namespaces at the same
// time.
func (c *Cache) Handle(handler cache.ResourceEventHandler) (*Registration, error) {
	r := &Registration{}
	for _, informer := range c.informers {
		registration, err := informer.AddEventHandler(decoding{handler})
		if err != nil {
			r.Remove()
			return nil, err
		}
		r.parts = append(r.parts, registeredHandler{informer, registration})
	}
	return r, nil
}

// decoded returns an object as users of a cache get it.
func decoded(object any) any {
	if o, ok := object.(*projection.Object); ok {
		return o.Unstructured()
	}
	return object
}

// Index returns an index function for stored objects, given one for decoded objects. The index keeps a value for as
// long as an object has it, so a value is no part of the text of its first state.
func Index(of cache.IndexFunc) cache.IndexFunc {
	return func(object any) ([]string, error) {
		values, err := of(decoded(object))
		for i, value := range values {
			values[i] = strings.Clone(value)
		}
		return values, err
	}
}

// decoding passes decoded objects to a handler.
type decoding struct{ to cache.ResourceEventHandler }

func (d decoding) OnAdd(object any, isInInitialList bool) {
	d.to.OnAdd(decoded(object), isInInitialList)
}

func (d decoding) OnUpdate(before, after any) { d.to.OnUpdate(decoded(before), decoded(after)) }

func (d decoding) OnDelete(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = cache.DeletedFinalStateUnknown{Key: tombstone.Key, Obj: decoded(tombstone.Obj)}
	}
	d.to.OnDelete(decoded(object))
}

// Registration is a handler of a cache.
type Registration struct{ parts []registeredHandler }

type registeredHandler struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
}

// HasSynced reports whether the handler has been called for all objects that existed when
// it was registered.
func (r *Registration) HasSynced() bool {
	for _, part := range r.parts {
		if !part.registration.HasSynced() {
			return false
		}
	}
	return true
}

// WaitForSync returns once HasSynced does, so that no one acts on a half-filled cache. It
// is an error if ctx ends first.
func (r *Registration) WaitForSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), r.HasSynced) {
		return errors.New("stopped before the cache was filled")
	}
	return nil
}

// Remove ends the events of the handler. A nil registration has none.
func (r *Registration) Remove() {
	if r == nil {
		return
	}
	for _, part := range r.parts {
		_ = part.informer.RemoveEventHandler(part.registration) // fails only for one of another informer
	}
}

// informer returns the one that caches the objects of a namespace; it is nil if none does.
func (c *Cache) informer(namespace string) cache.SharedIndexInformer {
	if informer, ok := c.informers[namespace]; ok {
		return informer
	}
	return c.informers[metav1.NamespaceAll]
}

// Get returns an object, or nil.
func (c *Cache) Get(name cache.ObjectName) *unstructured.Unstructured {
	informer := c.informer(name.Namespace)
	if informer == nil {
		return nil
	}
	object, exists, err := informer.GetStore().GetByKey(name.String())
	if err != nil || !exists {
		return nil
	}
	u, _ := decoded(object).(*unstructured.Unstructured)
	return u
}

// Each calls do for every object, of which it gets no more than the metadata that each cache keeps:
// name, namespace, UID and resource version.
func (c *Cache) Each(do func(metav1.Object)) {
	for _, informer := range c.informers {
		for _, object := range informer.GetStore().List() {
			if identified, err := meta.Accessor(object); err == nil { // all that are stored are objects
				do(identified)
			}
		}
	}
}

// ByIndex returns the objects that an indexer of AddIndexers, or cache.NamespaceIndex,
// files under a value, in the cache of a namespace.
func (c *Cache) ByIndex(namespace, index, value string) ([]any, error) {
	informer := c.informer(namespace)
	if informer == nil {
		return nil, nil
	}
	found, err := informer.GetIndexer().ByIndex(index, value)
	for i, object := range found {
		found[i] = decoded(object)
	}
	return found, err
}

// ByIndexAnywhere is ByIndex for the caches of all namespaces.
func (c *Cache) ByIndexAnywhere(index, value string) (all []any, err error) {
	for namespace := range c.informers {
		found, err := c.ByIndex(namespace, index, value)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// List returns the objects of all namespaces.
func (c *Cache) List() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, informer := range c.informers {
		for _, object := range informer.GetStore().List() {
			if u, ok := decoded(object).(*unstructured.Unstructured); ok {
				objects = append(objects, u)
			}
		}
	}
	return objects
}

// InNamespace returns the objects of a namespace.
func (c *Cache) InNamespace(namespace string) []*unstructured.Unstructured {
	found, err := c.ByIndex(namespace, cache.NamespaceIndex, namespace)
	if err != nil {
		return nil // every cache of unstructured objects has that index
	}
	var objects []*unstructured.Unstructured
	for _, object := range found {
		if u, ok := object.(*unstructured.Unstructured); ok {
			objects = append(objects, u)
		}
	}
	return objects
}

// ResourceVersion returns how new the cache of a namespace is; it is empty until the cache
// has read anything.
func (c *Cache) ResourceVersion(namespace string) string {
	return c.informer(namespace).GetStore().LastStoreSyncResourceVersion()
}
