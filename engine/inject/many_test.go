package inject

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selecting returns an object that adds a spec to all Pods.
func selecting(tb testing.TB, name string, spec map[string]any) *Injection {
	tb.Helper()
	injection, err := New(Source{
		Object: Object{watcherKind, name}, Namespace: namespace, Selector: &metav1.LabelSelector{}, Add: map[string]any{"spec": spec},
	})
	require.NoError(tb, err)
	return injection
}

// chained returns objects of which each mounts a volume of the next one, so that none fits before
// the last one is injected, and a Pod that names the first ones.
func chained(tb testing.TB, n, named int) (pod []byte, candidates []*Injection) {
	tb.Helper()
	var names []string
	for i := range n {
		name := fmt.Sprintf("w%03d", i)
		if i < named {
			names = append(names, name)
		}
		mounts := []any{map[string]any{"name": name, "mountPath": "/own"}}
		if i+1 < n {
			mounts = append(mounts, map[string]any{"name": fmt.Sprintf("w%03d", i+1), "mountPath": "/next"})
		}
		candidates = append(candidates, selecting(tb, name, map[string]any{
			"initContainers": []any{map[string]any{"name": name, "image": "i", "restartPolicy": "Always", "volumeMounts": mounts}},
			"volumes":        []any{map[string]any{"name": name, "emptyDir": map[string]any{}}},
		}))
	}
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}},"spec":{"containers":[{"name":"app","image":"i"}]}}`, watcherAnnotation, strings.Join(names, ",")), candidates
}

// One Pod gets the objects of maxObjects at most, first those that it names; each of the others
// gets a reason.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	pod, candidates := chained(t, 10*maxObjects, 3)
	last := candidates[len(candidates)-1]
	pod = []byte(strings.Replace(string(pod), "w002", last.object.Name, 1))
	result := checked(t, NewInjector("", watcherKinds), pod, candidates)
	require.Len(t, result.Outcomes, len(candidates))
	reasons := make(map[Reason]int)
	for _, o := range result.Outcomes {
		reasons[o.Reason]++
	}
	require.Equal(t, map[Reason]int{Injected: 1, Incomplete: maxObjects - 1, TooMany: 9 * maxObjects}, reasons)
	require.Equal(t, Outcome{Object: last.object, Reason: Injected, Generation: last.generation}, result.Outcomes[len(candidates)-1])
	require.Contains(t, result.Warnings(), `Watcher.watch.fescue.dev "w100" is not injected: at most 64 objects are injected into one Pod, those that it names first`)
	require.Less(t, len(result.Pod()), 64<<10)

	pod, candidates = chained(t, maxObjects, 0) // each fits
	for _, o := range checked(t, NewInjector("", watcherKinds), pod, candidates).Outcomes {
		require.Equal(t, Injected, o.Reason)
	}
}

// An injection ends with the context of its request.
func TestInjectHeedsContext(t *testing.T) {
	t.Parallel()
	pod, candidates := chained(t, 2, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := NewInjector("", watcherKinds).Inject(ctx, Target{Text: pod, Namespace: namespace}, candidates)
	require.ErrorIs(t, err, context.Canceled)
}

func BenchmarkChained(b *testing.B) {
	for _, n := range []int{16, maxObjects, 400} {
		pod, candidates := chained(b, n, 0)
		i := NewInjector("", watcherKinds)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := i.Inject(b.Context(), Target{Text: pod, Namespace: namespace}, candidates); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A StatefulSet adds its claims to the Pods of its template: they conflict with volumes of the same
// name, and are mounted as they are in its Pods.
func TestClaimsOfTemplate(t *testing.T) {
	t.Parallel()
	claims := ClaimsOf(fromJSON(t, []byte(`{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"data"}},{"metadata":{}},{"metadata":{"name":"more"}}]}}`)))
	require.Equal(t, []string{"data", "more"}, claims)
	withVolumes := func(name string, mounts string, volumes ...any) *Injection {
		return selecting(t, name, map[string]any{
			"containers": []any{map[string]any{"name": name, "image": "i", "volumeMounts": []any{map[string]any{"name": mounts, "mountPath": "/a"}}}},
			"volumes":    volumes,
		})
	}
	candidates := []*Injection{
		withVolumes("brings", "data", map[string]any{"name": "data", "emptyDir": map[string]any{}}),
		withVolumes("mounts", "more"),
	}
	template := `{"spec":{"containers":[{"name":"app","image":"i"}]}}`
	pod := `{"spec":{"containers":[{"name":"app","image":"i"}],"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-0"}},{"name":"more","persistentVolumeClaim":{"claimName":"more-0"}}]}}`
	i := NewInjector("", watcherKinds)
	offline, err := i.Inject(t.Context(), Target{Text: []byte(template), Namespace: namespace, Claims: claims}, candidates)
	require.NoError(t, err)
	online, err := i.Inject(t.Context(), Target{Text: []byte(pod), Namespace: namespace}, candidates)
	require.NoError(t, err)
	require.Equal(t, online.Outcomes, offline.Outcomes)
	require.Equal(t, Conflict, offline.Outcomes[0].Reason)
	require.Equal(t, "spec.volumes[data]: already exists with other content", offline.Outcomes[0].Message)
	require.Equal(t, Injected, offline.Outcomes[1].Reason)
}
