package inject

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

const namespace = "team"

const watcherAnnotation = "watch.fescue.dev/inject"

var (
	watcherKind  = schema.GroupKind{Group: "watch.fescue.dev", Kind: "Watcher"}
	watcherKinds = injecting(watcherKind, watcherAnnotation)
)

// injecting is one kind, as far as an Injector knows it.
func injecting(gk schema.GroupKind, annotation string) []*kind.Kind {
	return []*kind.Kind{{Version: &kind.Version{GroupVersionKind: gk.WithVersion("v1")}, InjectAnnotation: annotation}}
}

// injections prepares the objects of a YAML text, each in its own namespace or in that of the
// tests.
func injections(t testing.TB, kinds []*kind.Kind, text []byte) []*Injection {
	t.Helper()
	var ready []*Injection
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		u := unstructured.Unstructured{Object: corpus.Object(t, document)}
		if u.GetNamespace() == "" {
			u.SetNamespace(namespace)
		}
		for _, k := range kinds {
			if k.GroupVersionKind == u.GroupVersionKind() {
				checked := k.Check(k.NewBudget(), u.Object)
				require.Empty(t, checked.Errors)
				injection, err := Of(k.NewBudget(), k, checked.Object)
				require.NoError(t, err)
				ready = append(ready, injection)
			}
		}
	}
	require.NotEmpty(t, ready)
	return ready
}

func fromJSON(t testing.TB, text []byte) map[string]any {
	t.Helper()
	object := make(map[string]any)
	require.NoError(t, json.Unmarshal(text, &object), "%s", text)
	return object
}

// checked injects into a Pod and checks the invariants: the patch, applied by a library, gives the
// Pod of the result, which has every leaf of the Pod; each operation adds; and a second call
// changes nothing.
func checked(t testing.TB, i *Injector, pod []byte, candidates []*Injection) *Result {
	t.Helper()
	before := bytes.Clone(pod)
	result, err := i.Inject(t.Context(), Target{Text: pod, Namespace: namespace}, candidates)
	require.NoError(t, err)
	require.Equal(t, string(before), string(pod), "the input is not changed")
	after := result.Pod()
	if result.Patch == nil {
		require.Equal(t, string(pod), string(after))
		return result
	}
	patch, err := jsonpatch.DecodePatch(result.Patch)
	require.NoError(t, err, "%s", result.Patch)
	patched, err := patch.Apply(pod)
	require.NoError(t, err, "%s", result.Patch)
	require.Equal(t, fromJSON(t, patched), fromJSON(t, after), "%s", result.Patch)
	for _, operation := range patch {
		require.Equal(t, "add", operation.Kind())
	}
	requireLeaves(t, fromJSON(t, pod), fromJSON(t, after), "")

	again, err := i.Inject(t.Context(), Target{Text: after, Namespace: namespace}, candidates)
	require.NoError(t, err)
	require.Nil(t, again.Patch, "a second call adds %s to %s", again.Patch, after)
	for _, o := range again.Outcomes {
		if o.Reason == Present && !slices.Contains(result.Outcomes, o) {
			o.Reason = Injected
		}
		require.Contains(t, result.Outcomes, o)
	}
	return result
}

// requireLeaves fails unless everything in before is in after: items of lists in their
// order, with others between them. Null and Fescue's annotation do not count.
func requireLeaves(t testing.TB, before, after any, path string) {
	t.Helper()
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		require.True(t, ok, path)
		for name, value := range b {
			if value == nil || path == ".metadata.annotations" && name == StatusAnnotation {
				continue
			}
			require.Contains(t, a, name, path)
			requireLeaves(t, value, a[name], path+"."+name)
		}
	case []any:
		a, ok := after.([]any)
		require.True(t, ok, path)
		next := 0
		for _, value := range b {
			for next < len(a) && !hasLeaves(value, a[next]) {
				next++
			}
			require.Less(t, next, len(a), "%s: %v is gone from %v", path, value, a)
			next++
		}
	default:
		require.Equal(t, before, after, path)
	}
}

// hasLeaves reports whether requireLeaves would succeed.
func hasLeaves(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		for name, value := range b {
			ok = ok && (value == nil || hasLeaves(value, a[name]))
		}
		return ok
	case []any:
		a, ok := after.([]any)
		next := 0
		for _, value := range b {
			for next < len(a) && !hasLeaves(value, a[next]) {
				next++
			}
			ok = ok && next < len(a)
			next++
		}
		return ok
	}
	return before == after
}
