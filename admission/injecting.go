package admission

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/informers"
)

// injectingKind is a kind whose objects are watched.
type injectingKind struct {
	kind *kind.Kind
	// start is closed once nothing prevents the kind from being watched.
	start chan struct{}
	once  sync.Once
	// late is set when something was missing for the kind: no request waits for its objects then.
	late atomic.Bool
	// watch is set once the objects are watched.
	watch atomic.Pointer[informers.Registration]
}

// synced reports whether all objects are known.
func (k *injectingKind) synced() bool {
	watch := k.watch.Load()
	return watch != nil && watch.HasSynced()
}

// injectable is an object and what it adds to Pods.
type injectable struct {
	injection *inject.Injection
	// regarding names the object in an Event.
	regarding *unstructured.Unstructured
	// byLevel caches what is injected where a Pod Security level is enforced.
	byLevel *sync.Map
}

// Follow takes what prevents a kind from being run, such as a CRD that is not installed; nil is
// nothing. Its objects are watched from the first nil. Until then Pods are injected without them.
func (p *Pods) Follow(k *kind.Kind, missing error) {
	for _, injecting := range p.kinds {
		switch {
		case injecting.kind != k:
		case missing != nil:
			injecting.late.Store(true)
		default:
			injecting.once.Do(func() { close(injecting.start) })
		}
	}
}

// Run watches the objects of the kinds that Follow starts, until ctx ends.
func (p *Pods) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range p.kinds {
		running.Go(func() {
			select {
			case <-ctx.Done():
			case <-k.start:
				p.keepWatching(ctx, k)
			}
		})
	}
	running.Wait()
}

// watchRetry is the wait before a watch that could not be wired is wired again. A watch that is
// wired recovers by itself.
const watchRetry = 5 * time.Second

// keepWatching watches the objects of a kind until ctx ends.
func (p *Pods) keepWatching(ctx context.Context, k *injectingKind) {
	for {
		err := p.watch(ctx, k)
		if err == nil {
			return
		}
		p.log.Error("objects that inject are not watched; retrying", "kind", k.kind.GroupVersionKind.Kind, "error", err)
		timer := time.NewTimer(watchRetry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// watch watches the objects of a kind until ctx ends. The engine does so with the same selection,
// so both share one cache.
func (p *Pods) watch(ctx context.Context, k *injectingKind) error {
	w, err := p.informers.Watch(informers.Selection{Resource: k.kind.GroupVersionResource()})
	if err != nil {
		return err
	}
	defer w.Release()
	registration, err := w.Handle(p.handler(k.kind))
	if err != nil {
		return err
	}
	k.watch.Store(registration)
	<-ctx.Done()
	return nil
}

var errNotSynced = errors.New("the objects that inject are still being read")

// Ready returns nil once all objects are known. Kinds for which something is missing do not
// count, because one kind must not hold up the others, nor do kinds with conversions, whose objects
// the API server may only be able to read once this process is ready.
func (p *Pods) Ready() error {
	for _, k := range p.kinds {
		if !k.synced() && !k.late.Load() && !k.kind.Versions.Converts() {
			return fmt.Errorf("%s: %w", k.kind.Name(), errNotSynced)
		}
	}
	return nil
}

func (p *Pods) handler(k *kind.Kind) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.changed(k, object) },
		UpdateFunc: func(_, object any) { p.changed(k, object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if u, ok := object.(*unstructured.Unstructured); ok {
				p.set(k, u, nil)
			}
		},
	}
}

// changed prepares what an object adds. An invalid object adds nothing, and Pods that name it are
// told why.
func (p *Pods) changed(k *kind.Kind, object any) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	injection, err := safely(func() (*inject.Injection, error) { return injectionOf(k, u) })
	if err != nil {
		p.log.Warn("object is not injected", "kind", k.GroupVersionKind.Kind,
			"object", cache.MetaObjectToName(u).String(), "error", err)
		object := inject.Object{Kind: k.GroupVersionKind.GroupKind(), Name: u.GetName()}
		injection = inject.Broken(object, u.GetNamespace(), err)
	}
	p.set(k, u, injection)
}

// safely recovers from a panic: in the handler of an informer, it would end the process, and again
// after each start, because the object is still there.
func safely(of func() (*inject.Injection, error)) (injection *inject.Injection, err error) {
	defer func() {
		if p := recover(); p != nil {
			injection, err = nil, fmt.Errorf("panic, which is a bug in Fescue: %v\n%s", p, debug.Stack())
		}
	}()
	return of()
}

// injectionOf returns what an object adds; nil is nothing.
func injectionOf(k *kind.Kind, u *unstructured.Unstructured) (*inject.Injection, error) {
	if u.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	b := k.NewBudget()
	checked := k.Check(b, u.Object).Stored()
	if len(checked.Errors) > 0 {
		return nil, checked.Errors.ToAggregate()
	}
	return inject.Of(b, k, checked.Object)
}

// set replaces what an object adds; nil is nothing.
func (p *Pods) set(k *kind.Kind, u *unstructured.Unstructured, injection *inject.Injection) {
	object := inject.Object{Kind: k.GroupVersionKind.GroupKind(), Name: u.GetName()}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(p.byNamespace[u.GetNamespace()]),
		func(o injectable) bool { return o.injection.Object() == object })
	if injection != nil {
		regarding := &unstructured.Unstructured{}
		regarding.SetGroupVersionKind(k.GroupVersionKind)
		regarding.SetNamespace(u.GetNamespace())
		regarding.SetName(u.GetName())
		regarding.SetUID(u.GetUID())
		known = append(known, injectable{injection, regarding, &sync.Map{}})
	}
	if len(known) == 0 {
		delete(p.byNamespace, u.GetNamespace())
		return
	}
	p.byNamespace[u.GetNamespace()] = known
}
