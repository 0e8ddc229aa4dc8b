package plan

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
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

// A World goes by the last question of a set, so what was asked with other labels is asked again.
func TestStraysOfOtherLabelsAreForgotten(t *testing.T) {
	t.Parallel()
	before, after := Strays{Set: "pods", Namespace: "n", Labels: map[string]string{"v": "1"}}, Strays{Set: "pods", Namespace: "n", Labels: map[string]string{"v": "2"}}
	other := Strays{Set: "others", Namespace: "n", Labels: before.Labels}
	v := (&View{}).withStrays([]Strays{before, other}, nil).withStrays([]Strays{after}, []Strays{after})
	for _, s := range v.Strays {
		require.False(t, before.isFor(s))
	}
	require.True(t, slices.ContainsFunc(v.Strays, other.isFor))
	require.True(t, slices.ContainsFunc(v.Strays, after.isFor))
}

// A set that takes no strays asks for none: one in order, and one that stays until its object has left its phases.
func TestSetsThatAskForNoStrays(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(1, "m"))
	p := Decide(w.kind, w.owner, w.view(), now)
	require.Len(t, p.unknownStrays(w.view()), 1)
	child := p.Children[0]
	for name, change := range map[string]func(*Plan, *kind.Set){
		"in order": func(_ *Plan, s *kind.Set) { s.Ordered = true },
		"kept":     func(p *Plan, _ *kind.Set) { p.Leaving = true },
		"ignored":  func(_ *Plan, s *kind.Set) { s.DeleteStrays = false },
	} {
		p, set := *p, *child.Set
		change(&p, &set)
		of := child
		of.Set = &set
		_, asks := p.straysOf(of)
		require.False(t, asks, name)
	}
}
