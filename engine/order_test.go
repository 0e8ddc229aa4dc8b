package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

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
