package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// mutations are what can happen to a Customcluster and its Pods from outside.
var mutations = []struct {
	name string
	do   func(w *world, random *rand.Rand)
}{
	{"count", func(w *world, random *rand.Rand) {
		_ = unstructured.SetNestedField(w.owner.Object, random.Int64N(7), "spec", "count")
	}},
	{"message", func(w *world, random *rand.Rand) {
		_ = unstructured.SetNestedField(w.owner.Object, fmt.Sprint(random.Int()), "spec", "message")
	}},
	{"child deleted", func(w *world, random *rand.Rand) {
		if len(w.objects) > 0 {
			w.remove(w.objects[random.IntN(len(w.objects))].Object.GetUID())
		}
	}},
	{"child edited", func(w *world, random *rand.Rand) {
		if len(w.objects) > 0 {
			i := random.IntN(len(w.objects))
			edited := w.objects[i].Object.DeepCopy()
			edited.SetOwnerReferences(nil)
			edited.SetLabels(map[string]string{children.LabelManagedBy: children.ManagedBy, "controller": "c"})
			w.objects[i] = children.Of(pods, edited)
		}
	}},
	{"stray added", func(w *world, _ *rand.Rand) {
		w.created++
		stray := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("stray-", w.created), "namespace": "default"}}}
		stray.SetUID(types.UID(fmt.Sprint("stray-", w.created)))
		stray.SetLabels(map[string]string{"controller": "c"})
		w.strays = append(w.strays, stray)
	}},
	{"operator restarted", func(w *world, _ *rand.Rand) { w.normalized = children.NewNormalized() }},
	{"conflict", func(w *world, random *rand.Rand) { // another owner's Pod has the name of a member
		w.foreign = append(w.foreign, w.memberName(random.IntN(30)))
	}},
}

// Whatever happens, in whatever order, and wherever a reconcile is cut short: there are never
// more members than were wanted at some time, a reconcile with an older view creates none
// twice, and in the end the cluster is as the object wants it.
func TestInvariantsOfSets(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	for subset := range 1 << len(mutations) {
		random := rand.New(rand.NewPCG(uint64(subset), 1))
		for range 2 {
			w := newWorld(k, customcluster(3, "m"))
			w.converge(t, func(*Comparison) {})
			most := 3
			var history []string
			for _, i := range random.Perm(len(mutations)) {
				if subset&(1<<i) == 0 {
					continue
				}
				stale := w.view()
				mutations[i].do(w, random)
				history = append(history, mutations[i].name)
				count, _, _ := unstructured.NestedInt64(w.owner.Object, "spec", "count")
				most = max(most, int(count))
				w.partial(t, stale, random)
				w.partial(t, w.view(), random)
				require.LessOrEqual(t, len(w.objects), most, history)
			}
			w.converge(t, func(*Comparison) { require.LessOrEqual(t, len(w.objects), most, history) })
			w.requireAsWanted(t, history)
		}
	}
}

// partial reconciles with an older view and stops after some of the steps. The API server
// accepts a step only for the object that it was meant for.
func (w *world) partial(t *testing.T, seen *View, random *rand.Rand) {
	p := Decide(w.kind, w.owner, seen, now)
	require.Nil(t, p.Stalled)
	steps := Compare(p, w.asked(p, seen)).Steps
	for _, s := range steps[:random.IntN(len(steps)+1)] {
		if w.accepts(s) {
			w.do([]Step{s})
		}
	}
}

// accepts reports whether the API server would accept a step: none of an object that is gone,
// and no second object of a name.
func (w *world) accepts(s Step) bool {
	for _, e := range w.objects {
		switch {
		case s.Live != nil && e.Object.GetUID() == s.Live.GetUID():
			return true
		case s.Live == nil && e.Object.GetName() == s.Name:
			return false
		}
	}
	return s.Live == nil && !slices.Contains(w.foreign, s.Name) || s.Stray
}

func (w *world) requireAsWanted(t *testing.T, history []string) {
	count, _, _ := unstructured.NestedInt64(w.owner.Object, "spec", "count")
	message, _, _ := unstructured.NestedString(w.owner.Object, "spec", "message")
	require.Len(t, w.objects, int(count), history)
	require.Empty(t, w.strays, history)
	seen := make(map[string]bool)
	for _, e := range w.objects {
		require.False(t, seen[e.Object.GetName()], history)
		seen[e.Object.GetName()] = true
		require.True(t, metav1.IsControlledBy(e.Object, w.owner), history)
		containers, _, _ := unstructured.NestedSlice(e.Object.Object, "spec", "containers")
		require.Contains(t, fmt.Sprint(containers), "value:"+message, history)
	}
}
