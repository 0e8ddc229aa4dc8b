package engine

import (
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/plan"
)

// progresses remember the progress of objects whose behaviours cause writes. That of one object is used
// by the worker that reconciles it.
type progresses struct {
	mu       sync.Mutex
	byObject map[cache.ObjectName]*plan.Progress
	slowed   map[cache.ObjectName]bool
}

func newProgresses() *progresses {
	return &progresses{byObject: make(map[cache.ObjectName]*plan.Progress), slowed: make(map[cache.ObjectName]bool)}
}

// of returns the progress of an object, for its reconcile.
func (p *progresses) of(name cache.ObjectName) *plan.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.byObject[name]; known != nil {
		return known
	}
	return &plan.Progress{}
}

// keep remembers the progress of an object after its reconcile, if there is anything to remember.
func (p *progresses) keep(name cache.ObjectName, progress *plan.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !progress.IsCounting() {
		delete(p.byObject, name)
		delete(p.slowed, name)
		return
	}
	p.byObject[name], p.slowed[name] = progress, progress.IsSlowed()
}

// isSlowed reports whether a round of writes for an object was held.
func (p *progresses) isSlowed(name cache.ObjectName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slowed[name]
}

func (p *progresses) forget(name cache.ObjectName) { p.keep(name, &plan.Progress{}) }
