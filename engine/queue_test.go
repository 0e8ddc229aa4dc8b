package engine

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// Retries of one namespace do not delay those of another, and idle namespaces are dropped.
func TestRetriesAreLimitedByNamespace(t *testing.T) {
	t.Parallel()
	l := newNamespaceLimiter()
	for i := range 10 * retryBurst {
		l.When(cache.ObjectName{Namespace: "busy", Name: fmt.Sprint(i)})
	}
	require.Greater(t, l.When(cache.ObjectName{Namespace: "busy", Name: "a"}), 10*time.Second)
	require.Zero(t, l.When(cache.ObjectName{Namespace: "other", Name: "a"}))
	for i := range minSweep {
		l.When(cache.ObjectName{Namespace: fmt.Sprint(i), Name: "a"})
	}
	require.Eventually(t, func() bool {
		l.sweepAt = 0
		l.sweep()
		return len(l.byNamespace) == 1
	}, 10*time.Second, time.Millisecond)
	require.NotNil(t, l.byNamespace["busy"])
}

// While 16 clients change 3,000 objects of one namespace, a change in the middle is done within a
// second, on an API server that serves 500 requests a second, as many of each client as of each
// worker. The time is not real. -v prints how that depends on the number of workers.
func TestChangeBesideManyOthers(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{4, 10, 16, DefaultWorkers, 64} {
		synctest.Test(t, func(t *testing.T) {
			delay, most := changeBesideMany(t, workers)
			t.Logf("%d workers: %s, and up to %d objects wait", workers, delay.Round(time.Millisecond), most)
			if workers == DefaultWorkers {
				require.Less(t, delay, time.Second)
			}
		})
	}
}

// changeBesideMany returns how long the change in the middle takes to reach the child, and how many
// objects waited at most.
func changeBesideMany(t *testing.T, workers int) (delay time.Duration, most int) {
	t.Helper()
	const clients, objects = 16, 3000
	serving := make(chan struct{}, 2)
	request := func() {
		serving <- struct{}{}
		time.Sleep(4 * time.Millisecond)
		<-serving
	}
	one := fmt.Sprint(objects / 2)
	reached := make(chan time.Time, 1)
	q := newQueue("ats")
	done := q.run(t.Context(), workers, func(name cache.ObjectName) {
		request() // the child
		if name.Name == one {
			reached <- time.Now()
		}
		request() // the status
	})
	next, changedAt := make(chan int), time.Time{}
	var changing sync.WaitGroup
	for range clients {
		changing.Go(func() {
			for i := range next {
				if fmt.Sprint(i) == one {
					changedAt = time.Now()
				}
				request()
				q.Add(cache.ObjectName{Namespace: "test", Name: fmt.Sprint(i)})
			}
		})
	}
	for i := range objects {
		next <- i
		most = max(most, q.Len())
	}
	close(next)
	changing.Wait()
	delay = (<-reached).Sub(changedAt)
	q.ShutDown()
	done.Wait()
	return delay, most
}

// What waits in a queue that is shut down is not counted any more.
func TestEndedQueueIsEmpty(t *testing.T) {
	t.Parallel()
	q := newQueue("ats")
	for _, name := range []string{"a", "b", "c"} {
		q.Add(cache.ObjectName{Name: name})
	}
	q.ShutDown()
	q.end()
	require.Zero(t, q.Len())
}
