package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// orderedKind has an ordered set of Pods, each with a claim of its own.
const orderedKind = `package kinds

import "fescue.dev/cue/contract"
#Row: {
	apiVersion!: "example.com/v1"
	kind!:       "Row"
	metadata!: {name!: string, ...}
	spec!: {count!: int & >=0 & <=9, image!: string, open: *true | bool}
	status?: {contract.#Status, first?: string}
}
#RowController: contract.#Controller & {
	object!:  #Row
	observed: _
	index:    _
	names: plural: "rows"
	children: pods: {
		replicas: object.spec.count
		ordered:  true
		update:   "Recreate"
		when:     object.spec.open
		template: {
			apiVersion: "v1"
			kind:       "Pod"
			metadata: name: object.metadata.name
			spec: {
				containers: [{name: "main", image: object.spec.image}]
				volumes: [{name: "data", persistentVolumeClaim: claimName: "data-\(index)"}]
			}
		}
	}
	status: {if len(observed.pods) > 0 {first: observed.pods[0].metadata.name}}
}
`

func row(count int64, image string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Row",
		"metadata": map[string]any{"name": "r", "namespace": "default", "uid": "owner", "generation": int64(1)},
		"spec":     map[string]any{"count": count, "image": image},
	}}
}

// set replaces an object of the world.
func (w *world) set(index int, change func(*unstructured.Unstructured)) {
	w.objects[index].Object = changed(w.objects[index].Object, change)
}

// Members of an ordered set change one at a time: what is missing from the beginning, and what has to
// go from the end.
func TestOrderedSet(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, orderedKind)
	deleted := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(new(metav1.NewTime(now))) }
	unready := func(w *world, index int) {
		w.objects[index].Object = withStatus(w.objects[index].Object, "Running", false)
	}
	for name, tc := range map[string]struct {
		count int64
		image string
		live  func(w *world) // of three that are ready
		want  string
		state string
	}{
		"as wanted":                    {3, "a", func(*world) {}, "", "pods: 3 of 3 ready"},
		"more wanted":                  {5, "a", func(*world) {}, "create r-3", "pods: 3 of 5 ready"},
		"more wanted, one not ready":   {5, "a", func(w *world) { unready(w, 0) }, "", "pods: 2 of 5 ready"},
		"fewer wanted":                 {1, "a", func(*world) {}, "delete r-2", "pods: waiting until r-2 is gone"},
		"fewer wanted, one not ready":  {1, "a", func(w *world) { unready(w, 0) }, "delete r-2", "pods: waiting until r-2 is gone"},
		"fewer wanted, one is leaving": {1, "a", func(w *world) { w.set(2, deleted) }, "", "pods: waiting until r-2 is gone"},
		"none wanted":                  {0, "a", func(*world) {}, "delete r-2", "pods: waiting until r-2 is gone"},
		"one is gone":                  {3, "a", func(w *world) { w.objects = w.objects[1:] }, "create r-0", "pods: 2 of 3 ready"},
		"two are gone":                 {3, "a", func(w *world) { w.objects = w.objects[2:] }, "create r-0", "pods: 1 of 3 ready"},
		"one is leaving":               {3, "a", func(w *world) { w.set(0, deleted) }, "", "pods: 2 of 3 ready"},
		"one has failed":               {3, "a", func(w *world) { w.objects[1].Object = withStatus(w.objects[1].Object, "Failed", false) }, "delete r-1", "pods: 2 of 3 ready"},
		"one lost its reference":       {3, "a", func(w *world) { w.set(0, func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }) }, "adopt r-0", "pods: 2 of 3 ready"},
		"one of another record has failed": {3, "a", func(w *world) {
			w.objects[1].Object = withStatus(w.objects[1].Object, "Failed", false)
			w.set(1, func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{"fescue.dev/created-as": "other"})
			})
		}, "adopt r-1", "pods: 2 of 3 ready"},
		"another template":             {3, "b", func(*world) {}, "delete r-2", "pods: 3 of 3 ready, 3 of an older template"},
		"another template, one broken": {3, "b", func(w *world) { unready(w, 0); unready(w, 1) }, "delete r-1", "pods: 1 of 3 ready, 3 of an older template"},
		"another template, one leaves": {3, "b", func(w *world) { w.set(2, deleted) }, "", "pods: 2 of 3 ready, 3 of an older template"},
		"another template, more":       {4, "b", func(*world) {}, "create r-3", "pods: 3 of 4 ready, 3 of an older template"},
		"another template, fewer":      {2, "b", func(*world) {}, "delete r-2", "pods: waiting until r-2 is gone"},
		"a copy":                       {3, "a", func(w *world) { w.objects = append(w.objects, children.Of(pods, copied(w.objects[0].Object, "r-7"))) }, "", "pods: 3 of 3 ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(k, row(3, "a"))
			var created []string
			w.converge(t, func(c *Comparison) { created = append(created, describe(c.Steps)) })
			require.Equal(t, []string{"create r-0", "create r-1", "create r-2", ""}, created)
			volume, _, _ := unstructured.NestedSlice(w.objects[2].Object.Object, "spec", "volumes")
			require.Equal(t, "data-2", volume[0].(map[string]any)["persistentVolumeClaim"].(map[string]any)["claimName"])
			tc.live(w)
			w.owner = row(tc.count, tc.image)
			c := w.compare(t)
			require.Equal(t, tc.want, describe(c.Steps))
			require.Equal(t, tc.state, describeStates(c.States))
		})
	}
}

// A changed template replaces each member once, from the last to the first, and no two are missing at
// the same time.
func TestOrderedReplacement(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Kind(t, orderedKind), row(3, "a"))
	w.converge(t, func(*Comparison) {})
	w.owner = row(3, "b")
	var steps []string
	w.converge(t, func(c *Comparison) {
		require.GreaterOrEqual(t, len(w.objects), 2)
		steps = append(steps, describe(c.Steps))
	})
	require.Equal(t, "delete r-2, create r-2, delete r-1, create r-1, delete r-0, create r-0, ", strings.Join(steps, ", "))
}

// A template that cannot be told for a member holds back that one and those after it, and when holds
// back those that do not exist.
func TestOrderedWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Kind(t, strings.ReplaceAll(orderedKind, `"data-\(index)"`, `[if index < 2 {"data-\(index)"}, object.status.first][0]`)), row(3, "a"))
	c := w.compare(t)
	require.Equal(t, "create r-0", describe(c.Steps))
	w.do(c.Steps)
	w.ready()
	w.do(w.compare(t).Steps)
	w.ready()
	c = w.compare(t)
	require.Empty(t, c.Steps)
	require.Contains(t, describeStates(c.States), "pods: waiting for object.status (")

	w = newWorld(enginetest.Kind(t, orderedKind), row(3, "a"))
	require.NoError(t, unstructured.SetNestedField(w.owner.Object, false, "spec", "open"))
	c = w.compare(t)
	require.Empty(t, c.Steps)
	require.Equal(t, "pods: waiting until its when holds", describeStates(c.States))
}

// The type and the name belong to the set.
func TestOrderedNameWithIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Kind(t, strings.ReplaceAll(orderedKind, "metadata: name: object.metadata.name", `metadata: name: "m\(index)"`)), row(2, "a"))
	c := w.compare(t)
	require.EqualError(t, c.Rejected, `child "pods": apiVersion, kind and metadata.name of the template must not depend on index: Fescue appends it to the name`)
	require.Equal(t, "create m0-0", describe(c.Steps))
}

// While an object is being deleted, its members are corrected by their own templates, and none is created.
func TestOrderedSetOfALeavingObject(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(
		"	names: plural: \"rows\"\n", "	names: plural: \"rows\"\n	initial: \"RUN\"\n	onDelete: \"DRAIN\"\n	phases: {RUN: {}, DRAIN: next: [{to: \"END\", after: \"1h\"}], END: terminal: true}\n",
		`"Recreate"`, `"Apply"`).Replace(orderedKind)
	w := newWorld(enginetest.Kind(t, text), row(3, "a"))
	setPhase := func(phase string, conditions ...any) {
		w.owner.Object["status"] = map[string]any{"phase": phase, "lastPhaseTransitionTime": now.Format(time.RFC3339), "conditions": conditions}
	}
	setPhase("RUN")
	w.converge(t, func(*Comparison) {})
	w.objects = w.objects[1:]
	require.Equal(t, "create r-0", describe(w.compare(t).Steps))

	w.owner = row(3, "b")
	w.owner.SetFinalizers([]string{Finalizer})
	w.owner.SetDeletionTimestamp(new(metav1.NewTime(now)))
	setPhase("DRAIN", map[string]any{
		"type": kind.ConditionDeleting, "status": "True", "reason": "DRAIN", "message": "", "lastTransitionTime": now.Format(time.RFC3339),
	})
	c := w.compare(t)
	require.Equal(t, "apply r-1, apply r-2", describe(c.Steps))
	for i, s := range c.Steps {
		volumes, _, _ := unstructured.NestedSlice(s.Wanted.Object, "spec", "volumes")
		require.Equal(t, fmt.Sprintf("data-%d", i+1), volumes[0].(map[string]any)["persistentVolumeClaim"].(map[string]any)["claimName"])
	}
	require.NoError(t, unstructured.SetNestedField(w.owner.Object, int64(1), "spec", "count"))
	require.Equal(t, "delete r-2", describe(w.compare(t).Steps))
}
