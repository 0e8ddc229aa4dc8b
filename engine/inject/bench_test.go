package inject

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/fescue-dev/fescue/internal/jsontext"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// typical is a Pod of a Deployment as the API server sends it to a webhook, and a Watcher
// with one container, its ConfigMap, a volume and a pull secret.
func typical(t testing.TB) (*Injector, []byte, []*Injection) {
	t.Helper()
	pod, err := os.ReadFile("testdata/typical.json")
	require.NoError(t, err)
	watcher, err := os.ReadFile("testdata/typical-watcher.yaml")
	require.NoError(t, err)
	return NewInjector("", watcherKinds), pod, injections(t, kindtest.Shipped(t), watcher)
}

func TestTypical(t *testing.T) {
	t.Parallel()
	i, pod, candidates := typical(t)
	require.Greater(t, len(pod), 4<<10)
	require.Less(t, len(pod), 6<<10)
	result := checked(t, i, pod, candidates)
	require.Equal(t, Injected, result.Outcomes[0].Reason)
	require.Contains(t, string(result.Patch), `"path":"/spec/initContainers/0"`)
}

func BenchmarkInject(b *testing.B) {
	i, pod, candidates := typical(b)
	validated := *candidates[0] // as if its validity depended on the Pod
	validated.rules.always = true
	for name, with := range map[string]struct {
		text       []byte
		candidates []*Injection
	}{
		"typical":   {pod, candidates},
		"again":     {injectedOnce(b, i, pod, candidates), candidates},
		"validated": {pod, []*Injection{&validated}},
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(with.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := i.Inject(b.Context(), Target{Text: with.text, Namespace: namespace}, with.candidates); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	other := NewInjector("", injecting(watcherKind, "example.com/other"))
	b.Run("not-asked-for", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := other.Inject(b.Context(), Target{Text: pod, Namespace: namespace}, candidates); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func injectedOnce(t testing.TB, i *Injector, pod []byte, candidates []*Injection) []byte {
	t.Helper()
	result, err := i.Inject(t.Context(), Target{Text: pod, Namespace: namespace}, candidates)
	require.NoError(t, err)
	return result.Pod()
}

// BenchmarkRead measures other ways to read a Pod: the floor for each.
func BenchmarkRead(b *testing.B) {
	_, pod, _ := typical(b)
	for name, read := range map[string]func() error{
		"places":    func() error { v, err := jsontext.Parse(pod); v.Release(); return err },
		"map":       func() error { var v map[string]any; return json.Unmarshal(pod, &v) },
		"struct":    func() error { var v corev1.Pod; return json.Unmarshal(pod, &v) },
		"validated": func() error { json.Valid(pod); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(pod)))
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
