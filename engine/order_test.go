package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

// A change is taken next although 3,000 objects were listed, 3,000 children have changed, and 3,000
// objects of another namespace were changed; and of each of those, some are taken meanwhile.
func TestOneChangeAmongMany(t *testing.T) {
	t.Parallel()
	c := newController(enginetest.Shipped(t, "At"), &Config{Mapper: mapper(), Log: quiet(), Metrics: NewMetrics(), Workers: 1}, newShards(0), 0)
	t.Cleanup(c.queue.ShutDown)
	objects, children := c.objectHandler(), c.childHandler(pods)
	at := func(namespace, name string, generation int64) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
		object.SetNamespace(namespace)
		object.SetName(name)
		object.SetUID(uidIn(c.shards, 0))
		object.SetGeneration(generation)
		return object
	}
	child := func(of string) *unstructured.Unstructured {
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"namespace": "test", "name": of, "ownerReferences": []any{map[string]any{
				"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At", "name": of, "uid": "1", "controller": true,
			}},
		}}}
		require.NotNil(t, c.controllerOf(pod))
		return pod
	}
	const many = 3000
	for i := range many {
		objects.OnAdd(at("test", fmt.Sprint("listed-", i), 1), true)
		children.OnAdd(child(fmt.Sprint("listed-", i)), true)
		children.OnAdd(child(fmt.Sprint("event-", i)), false)
		objects.OnUpdate(at("mass", fmt.Sprint("changed-", i), 1), at("mass", fmt.Sprint("changed-", i), 2))
	}
	require.Equal(t, 3*many, c.queue.Len())

	take := func() string {
		name, _ := c.queue.Get()
		c.queue.Done(name)
		return name.Name
	}
	for range 3 {
		require.Equal(t, "changed-", take()[:8])
		require.Equal(t, "event-", take()[:6])
		require.Equal(t, "changed-", take()[:8])
		require.Equal(t, "listed-", take()[:7])
	}
	objects.OnUpdate(at("test", "listed-2000", 1), at("test", "listed-2000", 2)) // it waits already
	objects.OnAdd(at("new", "created", 1), false)
	var taken []string
	for range 8 {
		taken = append(taken, take())
	}
	require.Subset(t, taken, []string{"listed-2000", "created"})
	for c.queue.Len() > 0 {
		require.NotContains(t, []string{"listed-2000", "created"}, take(), "taken twice")
	}
}

// addOperations adds seeds: random operations of a queue.
func addOperations(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		operations := make([]byte, 2000)
		for i := range operations {
			operations[i] = byte(random.IntN(256))
		}
		f.Add(operations)
	}
}

// FuzzUrgentFirst compares an urgentFirst with a plain map: nothing is lost or taken twice, an object
// is taken as urgently as it was added most urgently, and the most urgent ones have every second turn.
func FuzzUrgentFirst(f *testing.F) {
	addOperations(f)
	f.Fuzz(func(t *testing.T, operations []byte) {
		q := newUrgentFirst()
		waiting := make(map[cache.ObjectName]urgency)
		skipped := make(map[urgency]int) // how many others were taken since it was this urgency's turn
		pop := func() {
			name := q.Pop()
			taken, ok := waiting[name]
			require.True(t, ok, name)
			delete(waiting, name)
			skipped[taken] = 0
			for u := range urgencies {
				isWaiting := false
				for _, other := range waiting {
					isWaiting = isWaiting || other == u
				}
				if u != taken && isWaiting {
					skipped[u]++
				} else {
					skipped[u] = 0
				}
				require.Less(t, skipped[u], map[urgency]int{onChange: 2, onEvent: 4, onList: 4}[u])
			}
		}
		for _, operation := range operations {
			if operation >= 160 && len(waiting) > 0 {
				pop()
				continue
			}
			name := cache.ObjectName{Namespace: fmt.Sprint(operation % 4), Name: fmt.Sprint(operation % 32)}
			u := urgency(operation) / 32 % (urgencies + 1)
			if u == urgencies { // added without an urgency
				u = onEvent
			} else {
				q.note(u, name)
			}
			before, isWaiting := waiting[name]
			if isWaiting {
				q.Touch(name)
				u = min(u, before)
			} else {
				q.Push(name)
			}
			waiting[name] = u
			require.Equal(t, len(waiting), q.Len())
		}
		for len(waiting) > 0 {
			pop()
		}
		require.Zero(t, q.Len())
		require.Empty(t, q.noted)
	})
}

// FuzzFairQueue compares a fairQueue with plain maps: nothing is lost or returned twice, one
// namespace is first in, first out, and each has its turn within one round.
func FuzzFairQueue(f *testing.F) {
	addOperations(f)
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
