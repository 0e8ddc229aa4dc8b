package engine

import "k8s.io/client-go/tools/cache"

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
