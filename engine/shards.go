package engine

import (
	"hash/fnv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// shards are the parts into which the objects of all kinds are divided, and which of them
// this process may act on.
type shards struct {
	// acting is closed once there has been one that this process may act on.
	acting chan struct{}

	mu        sync.Mutex
	parts     []shard
	reporting sync.Mutex // one report at a time
}

// shard is one of the parts.
type shard struct {
	mine bool
	// passes are those that run for its objects. One is added only while it is ours, so
	// that nobody who gives it up waits for ever.
	passes *sync.WaitGroup
}

// newShards divides into n parts that are taken one by one; 0 is for all objects in one
// part that is taken from the start.
func newShards(n int) *shards {
	s := &shards{acting: make(chan struct{}), parts: make([]shard, max(n, 1))}
	for i := range s.parts {
		s.parts[i].passes = new(sync.WaitGroup)
	}
	if n == 0 {
		s.take(0)
	}
	return s
}

// of is the part that an object belongs to. Every process has to say the same, so this is
// never to change: FNV-1a of the UID, modulo the number of parts.
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

// giveUp lets no further pass begin for a part, and returns when the running ones have
// ended.
func (s *shards) giveUp(i int) {
	s.mu.Lock()
	s.parts[i].mine = false
	passes := s.parts[i].passes
	s.mu.Unlock()
	passes.Wait()
}

// owns tells whether this process may act on an object.
func (s *shards) owns(object types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[s.of(object)].mine
}

// owned is how many parts this process may act on.
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

// report sets a gauge to how many parts this process may act on. What is reported last is
// what is so.
func (s *shards) report(to prometheus.Gauge) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	to.Set(float64(s.owned()))
}

// begin tells whether a pass may be made for an object; if so, end has to be called after
// it.
func (s *shards) begin(object types.UID) (end func(), mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.parts[s.of(object)]
	if !part.mine {
		return nil, false
	}
	part.passes.Add(1)
	return part.passes.Done, true
}

// Take lets the engine act on the objects of a shard, which is one of 0 to Config.Shards-1.
// Nobody else may act on them from now on. It looks at each of them once.
func (e *Engine) Take(shard int) {
	e.shards.take(shard)
	e.shardChanged(shard)
}

// GiveUp ends what Take began. It returns when the passes that run for objects of the
// shard have ended, which takes up to a minute; then others may act on them.
func (e *Engine) GiveUp(shard int) {
	e.shards.giveUp(shard)
	e.shardChanged(shard)
}

// shardChanged queues the objects of a shard: those that are ours now get a pass, and what
// was remembered of the others is dropped. A kind whose cache is not filled yet has queued
// them all, and no worker.
func (e *Engine) shardChanged(shard int) {
	e.shards.report(e.config.Metrics.shards)
	for _, c := range e.running() {
		if !c.synced.Load() {
			continue
		}
		c.objects.Each(func(object any) {
			if u, ok := object.(*unstructured.Unstructured); ok && e.shards.of(u.GetUID()) == shard {
				c.enqueue(u)
			}
		})
	}
}
