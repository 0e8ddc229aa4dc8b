package engine

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

const (
	// repeatsAtOnce is how many children that lead back to their own type are created from one root on, and
	// repeatsPerMinute how many after that. A set of a thousand Pods, each with a child of a type that leads back to
	// Pods, is not slowed down; a tree whose objects have ten children each is.
	repeatsAtOnce    = 1000
	repeatsPerMinute = 60
)

// repeats counts the children that lead back to their own type. What this process does not remember after a restart is
// counted again.
type repeats struct {
	mu     sync.Mutex
	byRoot *utilcache.Expiring // repeatsOf → *rate.Limiter
}

// repeatsOf names what is counted together. The namespace is part of it: someone who forges the marks of a child can
// use up only what is left for objects of their own namespace.
type repeatsOf struct {
	root      types.UID
	namespace string
}

func newRepeats() *repeats { return &repeats{byRoot: utilcache.NewExpiring()} }

// allow counts one child, unless there were too many.
func (r *repeats) allow(of repeatsOf) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, _ := r.byRoot.Get(of)
	limiter, ok := found.(*rate.Limiter)
	if !ok {
		limiter = rate.NewLimiter(rate.Every(time.Minute/repeatsPerMinute), repeatsAtOnce)
	}
	r.byRoot.Set(of, limiter, repeatsAtOnce*time.Minute/repeatsPerMinute) // it is as new then
	return limiter.Allow()
}

// mayRepeat returns why a child is not created that leads back to its own type: through a child of a kind, or of a
// decorator, that is of a kind or decorated in turn. errWaiting is that of an object that is about to be collected:
// otherwise it would add to one end of a line as fast as the garbage collector deletes the other.
func (a *applier) mayRepeat(s plan.Step) error {
	child := s.Wanted.GroupVersionKind().GroupKind()
	if !children.LeadsBack(a.kinds(), child) {
		return nil
	}
	line, err := a.line()
	if err != nil || !line.Repeats(child) {
		return err
	}
	err = line.Check()
	switch {
	case err == nil && line.IsBroken:
		return errWaiting
	case err == nil && !a.repeats.allow(repeatsOf{line.Root.GetUID(), a.owner.GetNamespace()}):
		err = line.TooMany(repeatsAtOnce, repeatsPerMinute)
	}
	if err != nil {
		a.metrics.endless.WithLabelValues(a.metrics.name).Inc()
		return &rejectedError{err}
	}
	return nil
}

// trace follows what leads to an object. It reads from the API server: with several shards, another process may have
// cached the rest, and of what a decorator is for, no cache has the references.
func (r *reconciliation) trace(ctx context.Context, owner *unstructured.Unstructured) (*children.Line, error) {
	find := func(p children.Parent) (*unstructured.Unstructured, error) {
		mapping, err := r.config.Mapper.RESTMapping(p.Type.GroupKind(), p.Type.Version)
		if err != nil {
			return nil, err
		}
		found, err := r.listNamed(ctx, mapping.Resource, cache.ObjectName(p.Name))
		if err != nil || len(found.Items) == 0 {
			return nil, err
		}
		return &found.Items[0], nil
	}
	if r.kind.Target != nil {
		found, err := r.listNamed(ctx, r.resource, cache.MetaObjectToName(owner))
		if err != nil {
			return nil, err
		}
		if len(found.Items) == 0 || found.Items[0].GetUID() != owner.GetUID() {
			return nil, errWaiting
		}
		owner = &found.Items[0]
	}
	return children.Trace(owner, r.kinds(), find)
}
