package history

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// mishaps have things happen to the API server until the disturbances end.
func (h *history) mishaps(ctx context.Context) {
	random := h.random.own()
	all := []func(*rand.Rand){h.compact, h.forbid}
	if h.Restores {
		all = append(all, h.restore)
	}
	for range h.Mishaps {
		if sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(h.Mishaps+1)))); ctx.Err() != nil {
			return
		}
		all[random.IntN(len(all))](random)
	}
}

// compact has the API server forget what has changed.
func (h *history) compact(*rand.Rand) {
	h.tell("etcd is compacted")
	h.server.Do("", (*apiserver.Store).Compact)
}

// forbid withdraws the rights to a resource, until the next mishap of this kind or until the disturbances end.
func (h *history) forbid(random *rand.Rand) {
	resource := h.served[random.IntN(len(h.served))].GroupVersionResource
	h.tell("the rights to %s are withdrawn", resource.Resource)
	h.server.Forbid(&resource)
}

// restore restores a state of up to 20 writes ago.
func (h *history) restore(random *rand.Rand) {
	h.server.Do("", func(s *apiserver.Store) {
		n := len(s.Changes())
		back := random.IntN(min(n, 20) + 1)
		h.tell("etcd is restored from a copy without the last %d writes", back)
		s.Restore(n - back)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isRestored = true
}
