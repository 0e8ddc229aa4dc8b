package engine

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/informers"
)

// shards are the parts into which the objects of all kinds are divided, and which of them
// this process may act on.
type shards struct {
	// acting is closed once this process may act on a part.
	acting chan struct{}

	mu        sync.Mutex
	parts     []shard
	changed   chan struct{} // closed, and replaced, when a part is taken or given up
	reporting sync.Mutex    // one report at a time
}

// shard is one of the parts.
type shard struct {
	mine bool
	// taken is how often it was taken.
	taken int
	// running are its reconciles. One is added only while the shard is mine, so that giving it up
	// does not wait indefinitely.
	running *sync.WaitGroup
}

// newShards divides into n parts that are taken one by one; 0 is for all objects in one
// part that is taken from the start.
func newShards(n int) *shards {
	s := &shards{acting: make(chan struct{}), parts: make([]shard, max(n, 1)), changed: make(chan struct{})}
	for i := range s.parts {
		s.parts[i].running = new(sync.WaitGroup)
	}
	if n == 0 {
		s.take(0)
	}
	return s
}

// divides reports whether there are several parts. Then a process caches only those that it may act on;
// otherwise also a standby has everything, so that it can act at once.
func (s *shards) divides() bool { return len(s.parts) > 1 }

// of returns the part that an object belongs to. All processes must agree, so this must never
// change.
func (s *shards) of(object types.UID) int {
	if !s.divides() { // each event asks
		return 0
	}
	return informers.ShardOf(object, len(s.parts))
}

// toRun returns the parts for which kinds run here, each with a number that differs when it was given up
// and taken again. changed is closed when there may be others.
func (s *shards) toRun() (parts map[int]int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.divides() {
		return map[int]int{0: 0}, s.changed
	}
	parts = make(map[int]int)
	for i, part := range s.parts {
		if part.mine {
			parts[i] = part.taken
		}
	}
	return parts, s.changed
}

// tell closes changed. The caller holds mu.
func (s *shards) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shards) take(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[i].mine = true
	s.parts[i].taken++
	s.tell()
	select {
	case <-s.acting:
	default:
		close(s.acting)
	}
}

// giveUp begins no further reconciles of a part, and returns when the running ones have
// ended.
func (s *shards) giveUp(i int) {
	s.mu.Lock()
	s.parts[i].mine = false
	s.tell()
	running := s.parts[i].running
	s.mu.Unlock()
	running.Wait()
}

// owns reports whether this process may act on a part.
func (s *shards) owns(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[i].mine
}

// owned returns how many parts this process may act on.
func (s *shards) owned() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.mine {
			n++
		}
	}
	return n
}

// report sets a gauge to how many parts this process may act on. The last report is the
// present state.
func (s *shards) report(to prometheus.Gauge) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	to.Set(float64(s.owned()))
}

// begin reports whether an object of a part may be reconciled; if so, end must be called after that.
func (s *shards) begin(i int) (end func(), mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.parts[i]
	if !part.mine {
		return nil, false
	}
	part.running.Add(1)
	return part.running.Done, true
}

// Take lets the engine act on the objects of a shard, which is one of 0 to Config.Shards-1. No one
// else may act on them from now on. Of several shards, it reads the objects first.
func (e *Engine) Take(shard int) {
	e.shards.take(shard)
	e.shards.report(e.config.Metrics.shards)
	if e.shards.divides() {
		return
	}
	for _, c := range e.running() {
		if c.synced.Load() { // otherwise it queues all of them itself, and has no worker yet
			c.enqueueAll()
		}
	}
}

// GiveUp ends what Take began. It returns when the running reconciles of the shard have
// ended, which takes up to a minute; then others may act on its objects.
func (e *Engine) GiveUp(shard int) {
	e.shards.giveUp(shard)
	e.shards.report(e.config.Metrics.shards)
}

// shareOfObjects is the part of the kind's objects that the controller caches. Those of a kind that
// injects are cached as a whole, because the webhook of each process reads all of them.
func (c *controller) shareOfObjects() informers.Share {
	if !c.shards.divides() || c.kind.Injects() {
		return informers.Share{}
	}
	return informers.Share{Shard: c.shard, Count: len(c.shards.parts)}
}

// shareOfChildren is the part of the children that the controller caches: those of its objects.
func (c *controller) shareOfChildren() informers.Share {
	if !c.shards.divides() {
		return informers.Share{}
	}
	return informers.Share{Shard: c.shard, Count: len(c.shards.parts), OwnerLabel: children.LabelOwnerUID}
}

// scope is the shard on whose objects a controller acts.
type scope struct {
	shards *shards
	shard  int
}

// isOfShard reports whether the controller acts on the object with a UID.
func (s *scope) isOfShard(object types.UID) bool { return s.shards.of(object) == s.shard }

// isKeptHere reports whether the controller acts on the owner of a child: the object that controls it or,
// if none does, the one that its label names.
func (s *scope) isKeptHere(child *unstructured.Unstructured) bool {
	if holder := metav1.GetControllerOfNoCopy(child); holder != nil {
		return s.isOfShard(holder.UID)
	}
	return s.isOfShard(types.UID(children.Label(child, children.LabelOwnerUID)))
}
