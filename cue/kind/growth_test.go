package kind

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A kind that has served many objects holds no more memory than before. It is not
// parallel, so that no other test allocates meanwhile.
func TestMemoryDoesNotGrow(t *testing.T) {
	k := shippedAt(t)
	serve := func(from, to int) {
		for i := from; i < to; i++ {
			object := map[string]any{
				"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
				"metadata": map[string]any{"name": fmt.Sprintf("a-%d", i)},
				"spec":     map[string]any{"schedule": "2020-11-16T10:12:00Z", "command": fmt.Sprintf("echo %d", i)},
				"status":   map[string]any{"phase": "RUNNING"},
			}
			require.Empty(t, k.Validate(object))
			defaulted, err := k.Default(object)
			require.NoError(t, err)
			_, err = k.Decide(defaulted, observedPod)
			require.NoError(t, err)
		}
	}
	const rounds = 2000
	serve(0, rounds)
	before := heap()
	serve(rounds, 2*rounds)
	grown := int64(heap()) - int64(before)
	// A context that kept what it evaluated would hold some 10 KB for each object.
	require.Less(t, grown/rounds, int64(500), "bytes per object")
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// Workers share a kind; the race detector watches.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	k := shippedAt(t)
	want, err := k.Decide(at, observedPod)
	require.NoError(t, err)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 50 {
				if len(k.Validate(at)) > 0 {
					t.Error("object is not valid any more")
				}
				decision, err := k.Decide(at, observedPod)
				if err != nil || len(decision.Children) != len(want.Children) || decision.Next[0] != want.Next[0] {
					t.Errorf("decision differs: %v, %v", decision, err)
				}
			}
		})
	}
	workers.Wait()
}
