package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// slowCreates is a client whose creations take a second.
type slowCreates struct {
	dynamic.Interface
	dynamic.NamespaceableResourceInterface
	inFlight, most *atomic.Int64
}

func (s slowCreates) Resource(schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return s
}
func (s slowCreates) Namespace(string) dynamic.ResourceInterface { return s }

func (s slowCreates) Create(_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	n := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for most := s.most.Load(); most < n && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	return object.DeepCopy(), nil
}

// Forty sets that are created at once have as many requests in flight as one large set, and one for
// each. A set that is alone uses all of them, and an object with one child never waits.
func TestSetsShareTheirRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := slowCreates{inFlight: new(atomic.Int64), most: new(atomic.Int64)}
		c := newController(enginetest.Shipped(t, "Customcluster"), &Config{Writer: client, Mapper: mapper(), Log: quiet(), Metrics: NewMetrics(), Workers: 1}, newShards(0), 0)
		defer c.queue.ShutDown()
		create := func(owner string, members int) (took time.Duration) {
			began := time.Now()
			set := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "test", "name": owner, "uid": owner}}}
			steps := make([]plan.Step, members)
			for i := range steps {
				pod := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "test", "name": fmt.Sprint(owner, i), "resourceVersion": "1"}}}
				steps[i] = plan.Step{Verb: plan.Create, Child: "pods", Resource: pods, Name: pod.GetName(), Wanted: pod}
			}
			r := c.reconciliation(cache.ObjectName{}, quiet())
			a := &applier{reconciliation: r, owner: set, done: plan.Changes{Deleted: make(map[types.UID]bool)}}
			require.True(t, a.group(t.Context(), steps))
			require.Len(t, a.done.Stored, members)
			return time.Since(began)
		}
		require.Equal(t, 7*time.Second, create("alone", 127), "1, 2, 4, 8, 16, 32 and 64 at a time")
		require.EqualValues(t, maxBatch, client.most.Load())

		const sets = 40
		var creating sync.WaitGroup
		for i := range sets {
			creating.Go(func() { create(fmt.Sprint("set-", i, "-"), 50) })
		}
		time.Sleep(5500 * time.Millisecond)
		require.Zero(t, c.spare.take(1), "the sets use all spare requests")
		require.Equal(t, time.Second, create("single", 1))
		creating.Wait()
		require.EqualValues(t, sets+maxBatch, client.most.Load()-1, "and the single one")
		require.Equal(t, maxBatch, c.spare.take(2*maxBatch), "all were given back")
	})
}
