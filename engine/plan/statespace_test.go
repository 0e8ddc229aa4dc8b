package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
			w.remove(w.objects[random.IntN(len(w.objects))].object.GetUID())
		}
	}},
	{"child edited", func(w *world, random *rand.Rand) {
		if len(w.objects) > 0 {
			i := random.IntN(len(w.objects))
			edited := w.objects[i].object.DeepCopy()
			edited.SetOwnerReferences(nil)
			edited.SetLabels(map[string]string{labelManagedBy: managedBy, "controller": "c"})
			w.objects[i] = newExistingChild(pods, edited)
		}
	}},
	{"stray added", func(w *world, _ *rand.Rand) {
		w.made++
		stray := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("stray-", w.made), "namespace": "default"}}}
		stray.SetUID(types.UID(fmt.Sprint("stray-", w.made)))
		stray.SetLabels(map[string]string{"controller": "c"})
		w.strays = append(w.strays, stray)
	}},
	{"operator restarted", func(w *world, _ *rand.Rand) { w.settled = newSettled() }},
	{"conflict", func(w *world, random *rand.Rand) { // someone else's Pod has the name of a member
		w.foreign = append(w.foreign, memberName("c", random.IntN(9)))
	}},
}

// Whatever happens, in whatever order, and wherever a pass is cut short: there are never
// more members than were wanted at some time, a pass that is based on an older view makes
// none twice, and at rest the cluster is as the object says.
func TestInvariantsOfSets(t *testing.T) {
	t.Parallel()
	k := shipped(t, "Customcluster")
	for subset := range 1 << len(mutations) {
		random := rand.New(rand.NewPCG(uint64(subset), 1))
		for range 2 {
			w := newWorld(k, customcluster(3, "m"))
			w.converge(t, func(*comparison) {})
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
			w.converge(t, func(*comparison) { require.LessOrEqual(t, len(w.objects), most, history) })
			w.requireAsWanted(t, history)
		}
	}
}

// partial makes a pass that sees an older view and is cut short after some of its steps.
// The API server lets a step happen only to the object that it was meant for.
func (w *world) partial(t *testing.T, seen *view, random *rand.Rand) {
	p := makePlan(w.kind, w.owner.Object, seen.observed(w.kind, w.owner), now)
	require.Nil(t, p.stalled)
	steps := compare(w.kind, w.owner, p, seen).steps
	for _, s := range steps[:random.IntN(len(steps)+1)] {
		if w.accepts(s) {
			w.do([]step{s})
		}
	}
}

// accepts tells whether the API server would make a step: none of an object that is gone,
// and no second object of a name.
func (w *world) accepts(s step) bool {
	for _, e := range w.objects {
		switch {
		case s.is != nil && e.object.GetUID() == s.is.GetUID():
			return true
		case s.is == nil && e.object.GetName() == s.name():
			return false
		}
	}
	return s.is == nil && !slices.Contains(w.foreign, s.name()) || s.stray
}

func (w *world) requireAsWanted(t *testing.T, history []string) {
	count, _, _ := unstructured.NestedInt64(w.owner.Object, "spec", "count")
	message, _, _ := unstructured.NestedString(w.owner.Object, "spec", "message")
	require.Len(t, w.objects, int(count), history)
	require.Empty(t, w.strays, history)
	seen := make(map[string]bool)
	for _, e := range w.objects {
		require.False(t, seen[e.object.GetName()], history)
		seen[e.object.GetName()] = true
		require.True(t, metav1.IsControlledBy(e.object, w.owner), history)
		containers, _, _ := unstructured.NestedSlice(e.object.Object, "spec", "containers")
		require.Contains(t, fmt.Sprint(containers), "value:"+message, history)
	}
}
