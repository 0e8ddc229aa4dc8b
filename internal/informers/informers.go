// Package informers caches objects that several parts of one process read. Each
// selection of a resource has one informer for each namespace, however many users it
// has, and keeps only the fields that some user reads.
//
// It knows resources, namespaces, selectors and fields. It does not know kinds, or why anyone
// watches a resource.
package informers

import (
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
)

// Selection names objects: those of a resource that match the selectors, in the namespaces of the
// Informers. An empty selector matches all.
type Selection struct {
	Resource schema.GroupVersionResource
	// Labels and Where are a label selector and a field selector.
	Labels, Where string
	// Share selects a part of these objects.
	Share Share
	// Keep are the fields that are read of each object; nil is everything but managedFields.
	Keep *parts.Set
}

// narrow selects the objects in a request.
func (s *Selection) narrow(options *metav1.ListOptions) {
	options.LabelSelector, options.FieldSelector, options.ShardSelector = s.Labels, s.Where, s.Share.selector()
}

// selects reports whether two selections name the same objects.
func (s *Selection) selects(other *Selection) bool {
	return s.Resource == other.Resource && s.Labels == other.Labels && s.Where == other.Where && s.Share == other.Share
}

// Informers shares Caches between all users of the same objects.
type Informers struct {
	ctx        context.Context // ends all caches; a struct that owns goroutines owns it
	client     Client
	namespaces []string
	// Failed is set before the first cache is started.
	Failed Failed

	mu     sync.Mutex
	caches []*sharedCache
}

type sharedCache struct {
	*Cache
	selection Selection
	users     int
	stop      context.CancelFunc
}

// New returns Informers for some namespaces; none means all. It does no I/O. A cache
// follows the API server until its last user releases it or ctx ends.
func New(ctx context.Context, client Client, namespaces []string) *Informers {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	return &Informers{ctx: ctx, client: client, namespaces: namespaces}
}

// Namespaces returns the namespaces that are watched: metav1.NamespaceAll, or some.
func (i *Informers) Namespaces() []string { return slices.Clone(i.namespaces) }

// AllNamespaces reports whether no namespace is left out.
func (i *Informers) AllNamespaces() bool {
	return slices.Contains(i.namespaces, metav1.NamespaceAll)
}

// Watch returns a share in a cache of a selection, which has at least the fields that the selection
// keeps. The first user starts the cache. The user must release the share.
func (i *Informers) Watch(selection Selection) (*Watch, error) {
	if selection.Keep == nil {
		selection.Keep = parts.Everything()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	at := slices.IndexFunc(i.caches, func(c *sharedCache) bool {
		return c.selection.selects(&selection) && c.selection.Keep.Covers(selection.Keep)
	})
	if at < 0 {
		created, err := i.NewCache(selection, i.namespaces)
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", selection.Resource, err)
		}
		ctx, stop := context.WithCancel(i.ctx)
		created.start(ctx)
		at = len(i.caches)
		i.caches = append(i.caches, &sharedCache{Cache: created, selection: selection, stop: stop})
	}
	shared := i.caches[at]
	shared.users++
	return &Watch{Cache: shared.Cache, informers: i, shared: shared}, nil
}

// Start fills a cache that its only user has wired, and keeps it filled until the
// context of New ends.
func (i *Informers) Start(c *Cache) { c.start(i.ctx) }

// NewCache wires a cache that is not shared; Start fills it. Failures are reported to the functions
// in also as well.
func (i *Informers) NewCache(selection Selection, namespaces []string, also ...func(error)) (*Cache, error) {
	kept := projection.To(selection.Keep)
	return NewCache(selection.Resource, namespaces, func(namespace string) (cache.SharedIndexInformer, error) {
		informer := i.NewInformer(selection.Resource, i.client.source(selection, namespace, kept),
			&projection.Object{}, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, also...)
		return informer, nil
	})
}

// Watch is one user's share in a cache.
type Watch struct {
	*Cache
	informers *Informers
	shared    *sharedCache

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
	w.informers.release(w.shared)
}

func (i *Informers) release(shared *sharedCache) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if shared.users--; shared.users == 0 {
		shared.stop()
		i.caches = slices.DeleteFunc(i.caches, func(c *sharedCache) bool { return c == shared })
	}
}
