package history

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// mishaps have things happen to the API server until the disturbances end.
func (h *history) mishaps(ctx context.Context) {
	random := h.random.own()
	all := []func(context.Context, *rand.Rand){
		h.compact, h.forbid, h.turnClock, h.endNamespace, h.endType, h.endWebhooks,
	}
	if !h.Once {
		all = append(all, h.fight)
	}
	if h.Restores {
		all = append(all, h.restore)
	}
	for range h.Mishaps {
		if sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(h.Mishaps+1)))); ctx.Err() != nil {
			return
		}
		all[random.IntN(len(all))](ctx, random)
	}
}

// compact has the API server forget what has changed.
func (h *history) compact(context.Context, *rand.Rand) {
	h.tell("etcd is compacted")
	h.server.Do("", (*apiserver.Store).Compact)
}

// forbid withdraws the rights to a resource, until the next mishap of this kind or until the disturbances end.
func (h *history) forbid(_ context.Context, random *rand.Rand) {
	resource := h.Served[random.IntN(len(h.Served))].GroupVersionResource
	h.tell("the rights to %s are withdrawn", resource.Resource)
	h.server.Forbid(&resource)
}

// turnClock has the clock of the API server jump.
func (h *history) turnClock(_ context.Context, random *rand.Rand) {
	by := time.Duration(random.IntN(int(4*time.Hour))) - 2*time.Hour
	h.tell("the clock of the API server jumps by %v", by)
	h.server.Do("", func(s *apiserver.Store) { s.Skew += by })
}

// endNamespace begins the deletion of the namespace of all objects.
func (h *history) endNamespace(context.Context, *rand.Rand) {
	h.tell("the namespace %s is deleted", namespace)
	h.isEnded = true
	h.server.Do(users, func(s *apiserver.Store) { s.EndNamespace(namespace) })
}

// endType begins the deletion of the CRD of a kind, and so of all its objects.
func (h *history) endType(_ context.Context, random *rand.Rand) {
	if kinds := kind.WithoutDecorators(h.Kinds); len(kinds) > 0 {
		k := kinds[random.IntN(len(kinds))]
		resource := h.resourceOf(k)
		h.tell("the CRD of %s is deleted", resource.Resource)
		h.isStopped = true
		h.server.Do(users, func(s *apiserver.Store) {
			s.EndType(resource)
			h.wasServed.Insert(k)
		})
	}
}

// endWebhooks deletes the configuration of the webhooks, which is created again some seconds later.
func (h *history) endWebhooks(ctx context.Context, random *rand.Rand) {
	h.tell("the webhooks are not called")
	var called *apiserver.Webhooks
	h.server.Do(users, func(s *apiserver.Store) { called, s.Webhooks = s.Webhooks, nil })
	sleep(ctx, time.Duration(random.IntN(int(10*time.Second))))
	h.tell("the webhooks are called again")
	h.server.Do(users, func(s *apiserver.Store) { s.Webhooks = called })
}

// empty empties the namespaces and the types that end; those that are gone are created again some time later. Operators
// hear of CRDs later.
func (h *history) empty(s *apiserver.Store) {
	before := make(map[*kind.Kind]bool)
	for _, k := range h.Kinds {
		if before[k] = s.Serves(h.resourceOf(k)); before[k] {
			h.wasServed.Insert(k)
		}
	}
	s.Empty()
	if h.random.IntN(5) == 0 {
		s.BeginNamespace(namespace)
		s.BeginTypes()
		if h.Installs {
			h.define(s)
		}
	}
	for _, k := range h.Kinds {
		if !h.Installs && s.Serves(h.resourceOf(k)) != before[k] {
			h.late.Go(func() { h.recheck(k) })
		}
	}
}

// restore restores a state of up to 20 writes ago.
func (h *history) restore(_ context.Context, random *rand.Rand) {
	h.server.Do("", func(s *apiserver.Store) {
		n := len(s.Changes())
		back := random.IntN(min(n, 20) + 1)
		h.tell("etcd is restored from a copy without the last %d writes", back)
		h.noteRestored()
		s.Restore(n - back)
	})
}

// undone is how often someone who fights for a child changes it.
const undone = 100

// fight has another controller change a child again and again, whatever the operator does.
func (h *history) fight(ctx context.Context, random *rand.Rand) {
	var resource apiserver.Resource
	var child *unstructured.Unstructured
	h.server.Do(users, func(s *apiserver.Store) { resource, child = user{h, s, random}.child() })
	if child == nil {
		return
	}
	h.tell("another controller fights for %s", idOf(child))
	for range undone {
		if sleep(ctx, time.Duration(random.IntN(int(time.Second/5)))); ctx.Err() != nil {
			return
		}
		h.server.Do(users, func(s *apiserver.Store) {
			if live := s.Get(resource.GroupVersionResource, nameOf(child)); live != nil &&
				live.GetUID() == child.GetUID() {
				user{h, s, random}.alterContent(resource, live.DeepCopy())
			}
		})
	}
}
