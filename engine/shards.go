package engine

import (
	"hash/fnv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shards are the parts into which the objects of all kinds are divided, and which of them
// this process may act on.
type shards struct {
	// acting is closed once this process may act on a part.
	acting chan struct{}

	mu        sync.Mutex
	parts     []shard
	reporting sync.Mutex // one report at a time
}

// shard is one of the parts.
type shard struct {
	mine bool
	// running are the reconciles of its objects. One is added only while the shard is mine,
	// so that giving it up does not wait indefinitely.
	running *sync.WaitGroup
}

// newShards divides into n parts that are taken one by one; 0 is for all objects in one
// part that is taken from the start.
func newShards(n int) *shards {
	s := &shards{acting: make(chan struct{}), parts: make([]shard, max(n, 1))}
	for i := range s.parts {
		s.parts[i].running = new(sync.WaitGroup)
	}
	if n == 0 {
		s.take(0)
	}
	return s
}

// of returns the part that an object belongs to. All processes must agree, so this must never
// change: FNV-1a of the UID, modulo the number of parts.
func (s *shards) of(object types.UID) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(object)) // a hash takes every write
	return int(h.Sum32() % uint32(len(s.parts)))
}

func (s *shards) take(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[i].mine = true
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
	running := s.parts[i].running
	s.mu.Unlock()
	running.Wait()
}

// owns reports whether this process may act on an object.
func (s *shards) owns(object types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[s.of(object)].mine
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

// begin reports whether an object may be reconciled; if so, end must be called after that.
func (s *shards) begin(object types.UID) (end func(), mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.parts[s.of(object)]
	if !part.mine {
		return nil, false
	}
	part.running.Add(1)
	return part.running.Done, true
}

// Take lets the engine act on the objects of a shard, which is one of 0 to Config.Shards-1,
// and queues them all. No one else may act on them from now on.
func (e *Engine) Take(shard int) {
	e.shards.take(shard)
	e.shardChanged(shard)
}

// GiveUp ends what Take began. It returns when the running reconciles of the shard have
// ended, which takes up to a minute; then others may act on its objects.
func (e *Engine) GiveUp(shard int) {
	e.shards.giveUp(shard)
	e.shardChanged(shard)
}

// shardChanged queues the objects of a shard: they are reconciled if the shard was taken, and
// forgotten if it was given up. A kind whose cache is not filled yet has queued them all, and
// has no worker.
func (e *Engine) shardChanged(shard int) {
	e.shards.report(e.config.Metrics.shards)
	for _, c := range e.running() {
		if !c.synced.Load() {
			continue
		}
		c.objects.Each(func(object metav1.Object) {
			if e.shards.of(object.GetUID()) == shard {
				c.enqueue(onList, object)
			}
		})
	}
}
