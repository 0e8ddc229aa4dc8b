package engine

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/fescue-dev/fescue/engine/plan"
)

// retryRate and retryBurst bound the retries of a kind's objects in one namespace together; the numbers are those of
// Kubernetes' sample controller.
const (
	retryRate  = 50
	retryBurst = 300
)

// queue is that of one kind. It is fair between namespaces.
type queue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	limiter workqueue.TypedRateLimiter[cache.ObjectName]
}

// newQueue returns the queue of a controller, by whose name metrics know it.
func newQueue(controller string) *queue {
	q := &queue{
		limiter: workqueue.NewTypedMaxOfRateLimiter(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](plan.RetryBase, plan.RetryMax),
			newNamespaceLimiter()),
	}
	q.TypedRateLimitingInterface = workqueue.NewTypedRateLimitingQueueWithConfig(q.limiter,
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(
				workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
					Name: controller,
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Name: controller,
						Queue: newFairQueue()}),
				}),
		})
	return q
}

// run starts workers. They end when the queue is shut down or ctx ends.
func (q *queue) run(ctx context.Context, workers int, do func(cache.ObjectName)) *sync.WaitGroup {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for ctx.Err() == nil && q.work(do) {
			}
		})
	}
	return &running
}

// work takes an object, waiting for one if necessary, and has it reconciled. It returns false when the
// queue is shut down.
func (q *queue) work(do func(cache.ObjectName)) bool {
	name, shutdown := q.Get()
	if shutdown {
		return false
	}
	defer q.Done(name)
	do(name)
	return true
}

// end empties a queue that has shut down and has no workers, so that metrics do not count what was in it.
func (q *queue) end() {
	for q.work(func(cache.ObjectName) {}) {
	}
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
