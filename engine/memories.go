package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/plan"
)

// memories are what is remembered of objects from one reconcile to the next. The memory of an object is used by the
// worker that reconciles it.
type memories struct {
	mu       sync.Mutex
	byObject map[cache.ObjectName]*plan.Memory
	slowed   map[cache.ObjectName]bool
}

func newMemories() *memories {
	return &memories{byObject: make(map[cache.ObjectName]*plan.Memory), slowed: make(map[cache.ObjectName]bool)}
}

// of returns the memory of an object, for its reconcile.
func (m *memories) of(object *unstructured.Unstructured) *plan.Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.byObject[cache.MetaObjectToName(object)]; known != nil && known.IsOf(object) {
		return known
	}
	return plan.NewMemory(object)
}

// keep keeps the memory of an object after its reconcile, if there is anything to remember.
func (m *memories) keep(name cache.ObjectName, memory *plan.Memory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.slowed, name)
	if memory.IsEmpty() {
		delete(m.byObject, name)
		return
	}
	m.byObject[name] = memory
	if memory.IsSlowed() {
		m.slowed[name] = true
	}
}

// isSlowed reports whether a write for an object was held.
func (m *memories) isSlowed(name cache.ObjectName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slowed[name]
}

func (m *memories) forget(name cache.ObjectName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byObject, name)
	delete(m.slowed, name)
}
