package main

import (
	"context"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tally knows the objects for which a condition holds.
type tally struct {
	mu sync.Mutex
	// since is when the condition was first seen to hold, by the name of the object.
	since map[string]time.Time
}

// watch counts the objects of the type of example for which a condition holds, from now on.
func watch[T client.Object](ctx context.Context, e *environment, example T, holds func(T) bool) (*tally, error) {
	informer, err := e.cache.GetInformer(ctx, example)
	if err != nil {
		return nil, err
	}
	t := &tally{since: make(map[string]time.Time)}
	see := func(object any) {
		seen, holds := object.(T), holds(object.(T))
		t.mu.Lock()
		defer t.mu.Unlock()
		if _, held := t.since[seen.GetName()]; held && !holds {
			delete(t.since, seen.GetName())
		} else if !held && holds {
			t.since[seen.GetName()] = time.Now()
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, object any) { see(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			delete(t.since, object.(T).GetName())
		},
	})
	if err != nil {
		return nil, err
	}
	return t, until(ctx, func() (bool, error) { return registration.HasSynced(), nil })
}

func (t *tally) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.since)
}

// at returns when the condition was first seen to hold for an object.
func (t *tally) at(name string) (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since, ok := t.since[name]
	return since, ok
}

// await waits until the condition holds for n objects.
func (t *tally) await(ctx context.Context, n int) error {
	return until(ctx, func() (bool, error) { return t.count() == n, nil })
}
