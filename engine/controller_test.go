package engine

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/reconcile"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// mapper knows Pods alone.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "kept.example.com", Version: "v1", Kind: "Kept"}, meta.RESTScopeNamespace)
	return m
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// BenchmarkTimers measures what a waiting object costs in the queue, and how late the one
// that is due is taken when 100,000 others wait.
func BenchmarkTimers(b *testing.B) {
	const waiting = 100_000
	for b.Loop() {
		c := newController(enginetest.Shipped(b, "At"), &Config{Mapper: mapper(), Log: quiet(), Metrics: NewMetrics(), Workers: DefaultWorkers}, newShards(0), 0)
		before := heap()
		for i := range waiting {
			c.queue.AddAfter(cache.ObjectName{Namespace: "default", Name: fmt.Sprintf("at-%d", i)}, time.Hour)
		}
		due := time.Now().Add(100 * time.Millisecond)
		c.queue.AddAfter(cache.ObjectName{Name: "due"}, time.Until(due))
		name, _ := c.queue.Get()
		late := time.Since(due)
		require.Equal(b, "due", name.Name)
		b.ReportMetric(float64(heap()-before)/waiting, "heap-B/timer")
		b.ReportMetric(late.Seconds()*1000, "late-ms")
		c.queue.ShutDown()
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A reconcile that got on and is not complete counts as no failure: the status shows one after some in a row.
func TestFailuresInARow(t *testing.T) {
	t.Parallel()
	c := newController(enginetest.Shipped(t, "At"), &Config{Mapper: mapper(), Log: quiet(), Metrics: NewMetrics(), Workers: 1}, newShards(0), 0)
	t.Cleanup(c.queue.ShutDown)
	name, failed := cache.ObjectName{Name: "a"}, errors.New("no")
	for i, after := range []struct {
		result reconcile.Result
		want   int
	}{
		{reconcile.Result{Then: reconcile.Again}, 0},
		{reconcile.Result{Then: reconcile.Failed, Err: failed}, 1},
		{reconcile.Result{Then: reconcile.Again, Err: failed}, 2},
		{reconcile.Result{Then: reconcile.Rejected, Err: failed}, 3},
		{reconcile.Result{Then: reconcile.Again}, 0},
		{reconcile.Result{Then: reconcile.Failed, Err: failed}, 1},
		{reconcile.Result{Then: reconcile.Done}, 0},
	} {
		c.queueAgain(name, after.result, c.log)
		require.Equal(t, after.want, c.queue.NumRequeues(name), "after result %d", i)
	}
}

func TestIndexByOwnerOfAnotherType(t *testing.T) {
	t.Parallel()
	_, err := indexByOwner("not an object")
	require.EqualError(t, err, "cache holds a string")
}
