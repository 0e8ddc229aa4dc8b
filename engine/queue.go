package engine

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fescue-dev/fescue/engine/plan"
)

// slowAfter is how long a reconcile may take. A worker that takes longer is replaced by another,
// and an object is slow if its last reconcile took longer without the requests: one usually takes
// some milliseconds.
const slowAfter = time.Second

// queues are those of one kind. An object enters by the embedded one, or by addAs. A worker that
// takes a slow object from it moves it into the slow lane, which has one worker of its own, so that
// slow objects never keep the others from being reconciled. Each lane is fair between namespaces.
type queues struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	order   *urgentFirst
	limiter workqueue.TypedRateLimiter[cache.ObjectName]
	lane    workqueue.TypedInterface[cache.ObjectName]
	// slots has one entry per worker that may take an object.
	slots chan struct{}

	mu   sync.Mutex
	slow map[cache.ObjectName]bool
	size prometheus.Gauge // of slow
}

// newQueues returns the queues of a controller, by whose name metrics know them.
func newQueues(controller string, workers int, slow prometheus.Gauge) *queues {
	in := func(order workqueue.Queue[cache.ObjectName], name string) workqueue.TypedInterface[cache.ObjectName] {
		return workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Name: name, Queue: order})
	}
	q := &queues{
		order: newUrgentFirst(),
		limiter: workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](plan.RetryBase, plan.RetryMax), newNamespaceLimiter()),
		lane:  in(newFairQueue(), controller+"/slow"),
		slots: make(chan struct{}, workers),
		slow:  make(map[cache.ObjectName]bool), size: slow,
	}
	q.TypedRateLimitingInterface = workqueue.NewTypedRateLimitingQueueWithConfig(q.limiter, workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{
		DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
			Name: controller, Queue: in(q.order, controller),
		}),
	})
	return q
}

// addAs adds an object that is this urgent, or makes it so if it is waiting.
func (q *queues) addAs(u urgency, name cache.ObjectName) {
	q.order.note(u, name)
	q.Add(name)
}

// ShutDown shuts down both lanes.
func (q *queues) ShutDown() {
	q.TypedRateLimitingInterface.ShutDown()
	q.lane.ShutDown()
}

// run starts the workers of both lanes. They end when the queues are shut down or ctx ends. There
// are twice as many as slots, because a worker that is late gives its slot to another.
func (q *queues) run(ctx context.Context, do func(cache.ObjectName) time.Duration) *sync.WaitGroup {
	var workers sync.WaitGroup
	for range 2 * cap(q.slots) {
		workers.Go(func() {
			for q.work(ctx, do) {
			}
		})
	}
	workers.Go(func() {
		for ctx.Err() == nil && q.workSlowly(do) {
		}
	})
	return &workers
}

// work takes an object that is not slow, waiting for one if necessary, and has it reconciled. It
// returns false when the queue is shut down or ctx has ended. do returns how long the object took.
func (q *queues) work(ctx context.Context, do func(cache.ObjectName) time.Duration) bool {
	select {
	case q.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	release := sync.OnceFunc(func() { <-q.slots })
	defer release()
	if ctx.Err() != nil {
		return false
	}
	name, shutdown := q.Get()
	if shutdown {
		return false
	}
	defer q.Done(name)
	if q.isSlow(name) {
		q.lane.Add(name)
		return true
	}
	late := time.AfterFunc(slowAfter, release)
	defer late.Stop()
	q.took(name, do(name))
	return true
}

// workSlowly is work for the slow lane.
func (q *queues) workSlowly(do func(cache.ObjectName) time.Duration) bool {
	name, shutdown := q.lane.Get()
	if shutdown {
		return false
	}
	defer q.lane.Done(name)
	if !q.isSlow(name) { // by now; another worker may be at it
		q.Add(name)
		return true
	}
	q.took(name, do(name))
	return true
}

// took notes how long an object took, in the end of its reconcile: it may change lanes after that.
func (q *queues) took(name cache.ObjectName, long time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.slow)
	if long > slowAfter {
		q.slow[name] = true
	} else {
		delete(q.slow, name)
	}
	q.size.Add(float64(len(q.slow) - before))
}

// end empties queues that have shut down and have no workers, so that metrics do not count what was in them.
func (q *queues) end() {
	for _, lane := range []workqueue.TypedInterface[cache.ObjectName]{q.TypedRateLimitingInterface, q.lane} {
		for {
			name, shutdown := lane.Get()
			if shutdown {
				break
			}
			lane.Done(name)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.size.Sub(float64(len(q.slow)))
	clear(q.slow)
}

func (q *queues) isSlow(name cache.ObjectName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slow[name]
}

// namespaceLimiter limits the rate of the retries of each namespace, so that those of one do not
// delay those of another.
type namespaceLimiter struct {
	mu          sync.Mutex
	byNamespace map[string]*rate.Limiter
	sweepAt     int
}

// minSweep is how many namespaces are remembered at least before idle ones are dropped.
const minSweep = 1000

func newNamespaceLimiter() *namespaceLimiter {
	return &namespaceLimiter{byNamespace: make(map[string]*rate.Limiter), sweepAt: minSweep}
}

// When returns how long a retry has to wait.
func (l *namespaceLimiter) When(name cache.ObjectName) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.byNamespace[name.Namespace]
	if limiter == nil {
		l.sweep()
		limiter = rate.NewLimiter(retryRate, retryBurst)
		l.byNamespace[name.Namespace] = limiter
	}
	return limiter.Reserve().Delay()
}

// sweep drops the namespaces that have their full burst again, once there are many.
func (l *namespaceLimiter) sweep() {
	if len(l.byNamespace) < l.sweepAt {
		return
	}
	for namespace, limiter := range l.byNamespace {
		if limiter.Tokens() >= retryBurst {
			delete(l.byNamespace, namespace)
		}
	}
	l.sweepAt = max(minSweep, 2*len(l.byNamespace))
}

// Forget does nothing: the limit is not one of objects.
func (*namespaceLimiter) Forget(cache.ObjectName) {}

// NumRequeues returns 0 for the same reason.
func (*namespaceLimiter) NumRequeues(cache.ObjectName) int { return 0 }
