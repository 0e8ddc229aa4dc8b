package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// An attempt asks once for the strays of a set, and before it writes: those that it deletes are gone in its view.
// A World that knows of none is not asked again.
func TestStraysAreAskedForOnce(t *testing.T) {
	t.Parallel()
	stray := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "mine", "uid": "mine", "namespace": "default", "labels": map[string]any{"controller": "c"}},
	}}
	for name, test := range map[string]struct {
		found []*unstructured.Unstructured
		want  []string
	}{
		"one":    {[]*unstructured.Unstructured{stray}, []string{"find c in default", "create c-0", "delete mine"}},
		"none":   {nil, []string{"find c in default", "create c-0"}},
		"silent": {[]*unstructured.Unstructured{}, []string{"find c in default", "create c-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(1, "m"))
			var done []string
			converge(w.kind, w.owner, w.view(), now, func(todo *Comparison) *Changes {
				changes := &Changes{Deleted: make(map[types.UID]bool)}
				for _, asked := range todo.Find {
					done = append(done, "find "+asked.Labels["controller"]+" in "+asked.Namespace)
					if asked.Objects = test.found; name != "silent" {
						changes.Found = append(changes.Found, asked)
					}
				}
				for _, s := range append(todo.Steps, todo.Prunes...) {
					done = append(done, describe([]Step{s}))
					if s.Verb == Delete {
						changes.Deleted[s.Live.GetUID()] = true
						continue
					}
					w.do([]Step{s})
					changes.Stored = append(changes.Stored, w.objects[len(w.objects)-1])
				}
				return changes
			})
			require.ElementsMatch(t, test.want, done)
			require.Equal(t, test.want[0], done[0])
		})
	}
}
