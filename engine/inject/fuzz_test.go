package inject

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// addSeeds adds the Pods of all cases.
func addSeeds(f *testing.F) {
	f.Helper()
	for _, pod := range corpus.Pods(f) {
		f.Add(pod)
	}
	_, pod, _ := typical(f)
	f.Add(pod)
}

// fuzzed add to all parts of a Pod that lists are merged in, and to each other's.
const fuzzed = `
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata: {name: logs, generation: 2}
spec:
  container: {name: logs, image: "watcher:1", volumeMounts: [{name: logs, mountPath: /logs}], ports: [{containerPort: 80}]}
  volume: {name: logs, emptyDir: {}}
  imagePullSecrets: {name: registry}
---
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata: {name: another}
spec:
  container: {name: another, image: a, volumeMounts: [{name: logs, mountPath: /logs}], ports: [{hostPort: 80, containerPort: 80}]}
  mode: Container
  selector: {matchLabels: {traced: "yes"}}
---
apiVersion: watch.fescue.dev/v1alpha1
kind: Watcher
metadata: {name: untraced}
spec:
  container: {name: untraced, image: a}
  selector: {matchExpressions: [{key: traced, operator: DoesNotExist}]}
`

// tracer adds to a container of the Pod, and a label that other selectors match.
func tracer(t testing.TB) *Injection {
	t.Helper()
	trace, err := New(Source{
		Object: Object{watcherKind, "trace"}, Namespace: namespace,
		Add: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"traced": "yes"}, "annotations": map[string]any{"example.com/a_b": "1"}},
			"spec": map[string]any{
				"containers": []any{map[string]any{
					"name":            "app",
					"env":             []any{map[string]any{"name": "TRACE", "value": "on"}},
					"envFrom":         []any{map[string]any{"configMapRef": map[string]any{"name": "trace"}}},
					"securityContext": map[string]any{"runAsUser": int64(5)},
				}},
				"tolerations":           []any{map[string]any{"operator": "Exists"}},
				"shareProcessNamespace": true,
			},
		},
	})
	require.NoError(t, err)
	return trace
}

// FuzzInject injects into any text.
func FuzzInject(f *testing.F) {
	addSeeds(f)
	candidates := injections(f, kindtest.Shipped(f), []byte(fuzzed))
	candidates = append(candidates, tracer(f))
	i := NewInjector("", watcherKinds)
	f.Fuzz(func(t *testing.T, text []byte) {
		result, err := i.Inject(t.Context(), Target{Text: text, Namespace: namespace}, candidates)
		if err != nil || result.Patch == nil {
			return
		}
		checked(t, i, text, candidates)
	})
}
