// Package informers caches objects that several parts of one process read. Each
// selection of a resource has one informer for each namespace, however many users it
// has, and its objects are stored without managedFields.
//
// It knows resources, namespaces and selectors. It does not know kinds, or why anyone
// watches a resource.
package informers

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// Selection names objects: those of a resource that match a label selector, in the
// namespaces of the Informers. An empty selector matches all.
type Selection struct {
	Resource schema.GroupVersionResource
	Labels   string
}

// Informers shares one Cache between all users of a Selection.
type Informers struct {
	ctx        context.Context // ends all caches; a struct that owns goroutines owns it
	client     dynamic.Interface
	namespaces []string
	// Failed is set before the first cache is started.
	Failed Failed

	mu     sync.Mutex
	caches map[Selection]*sharedCache
}

type sharedCache struct {
	*Cache
	users int
	stop  context.CancelFunc
}

// New returns Informers for some namespaces; none means all. It does no I/O. A cache
// follows the API server until its last user releases it or ctx ends.
func New(ctx context.Context, client dynamic.Interface, namespaces []string) *Informers {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Informers{ctx: ctx, client: client, namespaces: namespaces, caches: make(map[Selection]*sharedCache)}
}

// Namespaces returns the namespaces that are watched: metav1.NamespaceAll, or some.
func (i *Informers) Namespaces() []string { return slices.Clone(i.namespaces) }

// AllNamespaces reports whether no namespace is left out.
func (i *Informers) AllNamespaces() bool {
	return slices.Contains(i.namespaces, metav1.NamespaceAll)
}

// Watch returns a share in the cache of a selection, which its first user starts. The
// user must release it.
func (i *Informers) Watch(selection Selection) (*Watch, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	shared, ok := i.caches[selection]
	if !ok {
		created, err := i.newCache(selection)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", selection.Resource, err)
		}
		ctx, stop := context.WithCancel(i.ctx)
		created.start(ctx)
		shared = &sharedCache{Cache: created, stop: stop}
		i.caches[selection] = shared
	}
	shared.users++
	return &Watch{Cache: shared.Cache, informers: i, selection: selection}, nil
}

// Start fills a cache that its only user has wired, and keeps it filled until the
// context of New ends.
func (i *Informers) Start(c *Cache) { c.start(i.ctx) }

func (i *Informers) newCache(selection Selection) (*Cache, error) {
	return NewCache(selection.Resource, i.namespaces, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := i.NewInformer(selection.Resource,
			DynamicSource(i.client, selection.Resource, namespace, func(options *metav1.ListOptions) { options.LabelSelector = selection.Labels }),
			&unstructured.Unstructured{}, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		return informer, informer.SetTransform(StripManagedFields)
	})
}

// DynamicSource lists and watches with a dynamic client; narrow selects the objects.
func DynamicSource(client dynamic.Interface, resource schema.GroupVersionResource, namespace string, narrow func(*metav1.ListOptions)) Source {
	return Source{
		List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			return client.Resource(resource).Namespace(namespace).List(ctx, options)
		},
		Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			return client.Resource(resource).Namespace(namespace).Watch(ctx, options)
		},
		Client: client,
	}
}

// StripManagedFields is a transform that drops metadata.managedFields, which no user reads and
// which is up to a third of an object.
func StripManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil { // otherwise it is a tombstone
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// Watch is one user's share in a cache.
type Watch struct {
	*Cache
	informers *Informers
	selection Selection

	mu            sync.Mutex
	registrations []*Registration
	released      bool
}

// Handle calls handler for every object and event until the watch is released.
func (w *Watch) Handle(handler cache.ResourceEventHandler) (*Registration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := w.Cache.Handle(handler)
	if err == nil {
		w.registrations = append(w.registrations, r)
	}
	return r, err
}

// Release ends the events of this watch. The last share stops the cache.
func (w *Watch) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.released {
		return
	}
	w.released = true
	for _, r := range w.registrations {
		r.Remove()
	}
	w.informers.release(w.selection)
}

func (i *Informers) release(selection Selection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	shared := i.caches[selection]
	if shared.users--; shared.users == 0 {
		shared.stop()
		delete(i.caches, selection)
	}
}
