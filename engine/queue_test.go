package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

// lanes runs queues with a number of workers and their slow lane until the test ends.
func lanes(t *testing.T, workers int, do func(cache.ObjectName) time.Duration) *queues {
	t.Helper()
	q := newQueues("ats", workers, prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"}))
	done := q.run(t.Context(), do)
	t.Cleanup(func() { q.ShutDown(); done.Wait() })
	return q
}

// Others are reconciled beside more slow objects than there are workers, also when no one knows
// yet that they are slow.
func TestOthersDoNotWaitForSlowObjects(t *testing.T) {
	t.Parallel()
	const workers, slow = 4, 4
	end := make(chan struct{})
	var running, most atomic.Int32
	others := make(chan cache.ObjectName, 1000)
	q := lanes(t, workers, func(name cache.ObjectName) time.Duration {
		if name.Namespace != "slow" {
			others <- name
			return 0
		}
		n := running.Add(1)
		defer running.Add(-1)
		for most.Load() < n {
			most.Store(n)
		}
		<-end
		return 2 * slowAfter
	})
	add := func() {
		for i := range slow {
			q.Add(cache.ObjectName{Namespace: "slow", Name: fmt.Sprint(i)})
		}
	}
	requireOthers := func(limit time.Duration) {
		t.Helper()
		began := time.Now()
		for i := range 100 {
			q.Add(cache.ObjectName{Namespace: "other", Name: fmt.Sprint(i)})
		}
		for range 100 {
			<-others
		}
		require.Less(t, time.Since(began), limit)
	}
	add()
	require.Eventually(t, func() bool { return running.Load() == slow }, time.Minute, time.Millisecond)
	requireOthers(2 * time.Second)
	require.EqualValues(t, slow, running.Load(), "the slow ones still run")

	// Once they are known to be slow, one at a time is reconciled.
	for range slow {
		end <- struct{}{}
	}
	require.Eventually(t, func() bool { return testutil.ToFloat64(q.size) == slow }, time.Minute, time.Millisecond)
	most.Store(0)
	add()
	require.Eventually(t, func() bool { return running.Load() == 1 && q.lane.Len() == slow-1 }, time.Minute, time.Millisecond)
	requireOthers(slowAfter)
	close(end)
	require.Eventually(t, func() bool { return running.Load() == 0 && q.lane.Len() == 0 }, time.Minute, time.Millisecond)
	require.EqualValues(t, 1, most.Load())
}

// No object is in two hands at once while it changes lanes, and no request is lost.
func TestLanesNeverShareAnObject(t *testing.T) {
	t.Parallel()
	const objects = 5
	var inHand, handled, wanted [objects]atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var q *queues
	add := func(i int) {
		wanted[i].Add(1)
		q.Add(cache.ObjectName{Name: fmt.Sprint(i)})
	}
	started := make(chan struct{})
	q = lanes(t, 4, func(name cache.ObjectName) time.Duration {
		<-started
		i := int(name.Name[0] - '0')
		handled[i].Store(wanted[i].Load())
		if inHand[i].Add(1) != 1 {
			t.Error("two workers have one object")
		}
		defer inHand[i].Add(-1)
		for range 10 {
			if ctx.Err() == nil {
				add(i)
			}
			runtime.Gosched()
		}
		return time.Duration(rand.Int64N(2)) * 2 * slowAfter
	})
	close(started)
	for i := range objects {
		add(i)
	}
	<-ctx.Done()
	for i := range objects {
		require.Eventually(t, func() bool { return handled[i].Load() == wanted[i].Load() }, time.Minute, time.Millisecond)
	}
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
	q := newQueues("ats", workers, prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"}))
	done := q.run(t.Context(), func(name cache.ObjectName) time.Duration {
		request() // the child
		if name.Name == one {
			reached <- time.Now()
		}
		request() // the status
		return 0
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
				q.addAs(onChange, cache.ObjectName{Namespace: "test", Name: fmt.Sprint(i)})
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

// What waits in queues that are shut down is not counted any more.
func TestEndedQueuesAreEmpty(t *testing.T) {
	t.Parallel()
	slow := prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"})
	q := newQueues("ats", 1, slow)
	for _, name := range []string{"a", "b", "c"} {
		q.Add(cache.ObjectName{Name: name})
		q.lane.Add(cache.ObjectName{Name: name})
		q.took(cache.ObjectName{Name: name}, 2*slowAfter)
	}
	require.InDelta(t, 3, testutil.ToFloat64(slow), 0)
	q.ShutDown()
	q.end()
	require.Zero(t, q.Len())
	require.Zero(t, q.lane.Len())
	require.Zero(t, testutil.ToFloat64(slow))
}
