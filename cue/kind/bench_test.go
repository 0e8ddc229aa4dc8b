package kind

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var at = map[string]any{
	"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
	"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "0a", "generation": int64(1)},
	"spec":     map[string]any{"schedule": "2020-11-16T10:12:00Z", "command": "echo hello", "image": "busybox:1.37"},
	"status":   map[string]any{"phase": "RUNNING"},
}

var observedPod = map[string]any{"pod": map[string]any{
	"metadata": map[string]any{"name": "a-pod"}, "status": map[string]any{"phase": "Succeeded"},
}}

func BenchmarkLoadShipped(b *testing.B) {
	for b.Loop() {
		_, err := Shipped()
		require.NoError(b, err)
	}
}

func BenchmarkValidate(b *testing.B) {
	k := shippedAt(b)
	for b.Loop() {
		require.Empty(b, k.Validate(at))
	}
}

func BenchmarkDefault(b *testing.B) {
	k := shippedAt(b)
	for b.Loop() {
		_, err := k.Default(at)
		require.NoError(b, err)
	}
}

func BenchmarkDecide(b *testing.B) {
	k := shippedAt(b)
	for b.Loop() {
		_, err := k.Decide(at, observedPod)
		require.NoError(b, err)
	}
}

func BenchmarkDecideParallel(b *testing.B) {
	k := shippedAt(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := k.Decide(at, observedPod)
			require.NoError(b, err)
		}
	})
}

func shippedAt(tb testing.TB) *Kind {
	kinds, err := Shipped()
	require.NoError(tb, err)
	return kinds[0]
}
