package engine

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// urgency is why an object is queued, the most urgent first.
type urgency int

const (
	// onChange is for an object that someone has created, changed or deleted: a person may be
	// waiting for it.
	onChange urgency = iota
	// onEvent is for any other reason: a child has changed, a time has come, or a reconcile is
	// repeated. Objects that are added without an urgency have this one.
	onEvent
	// onList is for an object that was listed, because the process started or took its shard.
	// Most of those have not changed.
	onList
	urgencies
)

// turns are what is taken in which turn. A turn that nothing waits for goes to the most urgent
// objects. So the first object of each urgency waits for three others at most.
var turns = [...]urgency{onChange, onEvent, onChange, onList}

// urgentFirst is an order for a workqueue: urgent objects come first, and those that are as urgent are
// fair between namespaces.
type urgentFirst struct {
	byUrgency [urgencies]*fairQueue
	// waiting has the objects in the queue. One that became more urgent is in byUrgency twice, of
	// which only this place counts.
	waiting map[cache.ObjectName]urgency
	turn    int

	mu    sync.Mutex
	noted map[cache.ObjectName]urgency // those that are about to be added
}

func newUrgentFirst() *urgentFirst {
	q := &urgentFirst{waiting: make(map[cache.ObjectName]urgency), noted: make(map[cache.ObjectName]urgency)}
	for u := range q.byUrgency {
		q.byUrgency[u] = newFairQueue()
	}
	return q
}

// note sets how urgent an object is when it is added next. Unlike the other methods, it may be called
// by anyone at any time.
func (q *urgentFirst) note(u urgency, name cache.ObjectName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if noted, ok := q.noted[name]; !ok || u < noted {
		q.noted[name] = u
	}
}

// take returns what was noted of an object, and forgets it.
func (q *urgentFirst) take(name cache.ObjectName) urgency {
	q.mu.Lock()
	defer q.mu.Unlock()
	u, ok := q.noted[name]
	if !ok {
		return onEvent
	}
	delete(q.noted, name)
	return u
}

// Touch moves an object that is added again if it is more urgent now.
func (q *urgentFirst) Touch(name cache.ObjectName) {
	if u := q.take(name); u < q.waiting[name] {
		q.push(u, name)
	}
}

// Push adds an object that is not in the queue.
func (q *urgentFirst) Push(name cache.ObjectName) { q.push(q.take(name), name) }

func (q *urgentFirst) push(u urgency, name cache.ObjectName) {
	q.waiting[name] = u
	q.byUrgency[u].Push(name)
}

// Len returns how many objects are waiting.
func (q *urgentFirst) Len() int { return len(q.waiting) }

// Pop takes the next object; there must be one.
func (q *urgentFirst) Pop() cache.ObjectName {
	first := turns[q.turn%len(turns)]
	q.turn++
	if name, ok := q.pop(first); ok {
		return name
	}
	for u := range urgencies {
		if name, ok := q.pop(u); ok {
			return name
		}
	}
	return cache.ObjectName{} // a workqueue does not ask an empty queue
}

// pop takes the next object that is this urgent, if there is one.
func (q *urgentFirst) pop(u urgency) (name cache.ObjectName, ok bool) {
	for q.byUrgency[u].Len() > 0 {
		name := q.byUrgency[u].Pop()
		if is, ok := q.waiting[name]; ok && is == u {
			delete(q.waiting, name)
			return name, true
		}
	}
	return cache.ObjectName{}, false
}

// fairQueue is an order for a workqueue: namespaces take turns, and those of one namespace are
// first in, first out. Cluster-scoped objects have one namespace.
type fairQueue struct {
	waiting map[string][]cache.ObjectName
	turns   []string // the namespaces in waiting
	len     int
}

func newFairQueue() *fairQueue { return &fairQueue{waiting: make(map[string][]cache.ObjectName)} }

// Touch leaves an object that is added again where it is.
func (*fairQueue) Touch(cache.ObjectName) {}

// Push adds an object that is not in the queue.
func (q *fairQueue) Push(name cache.ObjectName) {
	list, ok := q.waiting[name.Namespace]
	if !ok {
		q.turns = append(q.turns, name.Namespace)
	}
	q.waiting[name.Namespace] = append(list, name)
	q.len++
}

// Len returns how many objects are waiting.
func (q *fairQueue) Len() int { return q.len }

// Pop takes the next object; there must be one.
func (q *fairQueue) Pop() cache.ObjectName {
	namespace := q.turns[0]
	q.turns[0] = "" // the array stays
	q.turns = q.turns[1:]
	list := q.waiting[namespace]
	name := list[0]
	list[0] = cache.ObjectName{}
	if len(list) == 1 {
		delete(q.waiting, namespace)
	} else {
		q.waiting[namespace] = list[1:]
		q.turns = append(q.turns, namespace)
	}
	q.len--
	return name
}
