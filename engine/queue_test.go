package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

// FuzzFairQueue compares a fairQueue with plain maps: nothing is lost or returned twice, one
// namespace is first in, first out, and each has its turn within one round.
func FuzzFairQueue(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		operations := make([]byte, 2000)
		for i := range operations {
			operations[i] = byte(random.IntN(256))
		}
		f.Add(operations)
	}
	f.Fuzz(func(t *testing.T, operations []byte) {
		q := newFairQueue()
		waiting := make(map[string][]cache.ObjectName) // by namespace, without empty ones
		due := make(map[string]int)                    // when the namespace has its turn at the latest
		pops, left := 0, 0
		pop := func() {
			pops++
			left--
			name := q.Pop()
			list := waiting[name.Namespace]
			require.NotEmpty(t, list)
			require.Equal(t, list[0], name)
			require.LessOrEqual(t, pops, due[name.Namespace])
			waiting[name.Namespace] = list[1:]
			due[name.Namespace] = pops + len(waiting)
			if len(list) == 1 {
				delete(waiting, name.Namespace)
				delete(due, name.Namespace)
			}
			for namespace, at := range due {
				require.Greater(t, at, pops, namespace)
			}
		}
		for i, operation := range operations {
			if operation >= 160 && left > 0 {
				pop()
				continue
			}
			name := cache.ObjectName{Namespace: fmt.Sprint("ns-", operation%8), Name: fmt.Sprint(i)}
			q.Touch(name)
			q.Push(name)
			left++
			waiting[name.Namespace] = append(waiting[name.Namespace], name)
			if len(waiting[name.Namespace]) == 1 {
				due[name.Namespace] = pops + len(waiting)
			}
			require.Equal(t, left, q.Len())
		}
		for left > 0 {
			pop()
		}
		require.Zero(t, q.Len())
		require.Empty(t, q.waiting)
	})
}

// BenchmarkFairQueue adds and takes 100,000 objects of 1, 100 and 100,000 namespaces.
func BenchmarkFairQueue(b *testing.B) {
	const objects = 100_000
	for _, namespaces := range []int{1, 100, objects} {
		names := make([]cache.ObjectName, objects)
		for i := range names {
			names[i] = cache.ObjectName{Namespace: fmt.Sprint("ns-", i%namespaces), Name: fmt.Sprint(i)}
		}
		b.Run(fmt.Sprint(namespaces), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q := newFairQueue()
				for _, name := range names {
					q.Push(name)
				}
				for range names {
					q.Pop()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/objects, "ns/object")
		})
	}
}

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
	q := newQueues(enginetest.Shipped(t, "At"), workers, prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"}))
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
