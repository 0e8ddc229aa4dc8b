package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// planOf decides about an object that has these Pods, by the names of its children.
func planOf(k *kind.Kind, object, observed map[string]any, now time.Time) *Plan {
	return Decide(k, &unstructured.Unstructured{Object: object}, &View{Children: childrenOf(k, object, observed)}, now)
}

// children returns Pods as the engine creates them for children with these names, and an empty template.
func childrenOf(k *kind.Kind, object, observed map[string]any) []children.Live {
	owner := &unstructured.Unstructured{Object: object}
	var live []children.Live
	for name, fields := range observed {
		child := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": owner.GetName() + "-" + name, "namespace": owner.GetNamespace(), "uid": "uid-of-" + name,
		}}}
		maps.Copy(child.Object, fields.(map[string]any))
		created, err := children.Complete(k, owner, kind.Child{Name: name, Template: map[string]any{"apiVersion": "v1", "kind": "Pod"}}, owner.GetNamespace() != "")
		if err != nil {
			panic(err)
		}
		child.SetAnnotations(created.GetAnnotations())
		children.Origin{Child: name, Phase: "RUNNING"}.Mark(k, owner, child)
		live = append(live, children.Of(pods, child))
	}
	return live
}

func pod(phase string) map[string]any {
	return map[string]any{"pod": map[string]any{"status": map[string]any{"phase": phase}}}
}

func TestPlanOfAt(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	const past, future = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	for name, tc := range map[string]struct {
		object, observed map[string]any
		phase            string
		transitions      []Transition
		children         int
		wakeAt           time.Time
		again            bool
		stalled          string
	}{
		"new":               {object: enginetest.At(future, ""), phase: "PENDING", transitions: []Transition{{"", "PENDING"}}, wakeAt: now.Add(time.Second)},
		"new and due":       {object: enginetest.At(past, ""), phase: "RUNNING", transitions: []Transition{{"", "PENDING"}, {"PENDING", "RUNNING"}}, again: true},
		"not yet":           {object: enginetest.At(future, "PENDING"), phase: "PENDING", wakeAt: now.Add(time.Second)},
		"due to the second": {object: enginetest.At(past, "PENDING"), phase: "RUNNING", transitions: []Transition{{"PENDING", "RUNNING"}}, again: true},
		"due and already ended": {object: enginetest.At(past, "PENDING"), observed: pod("Succeeded"), phase: "RUNNING",
			transitions: []Transition{{"PENDING", "RUNNING"}}, again: true},
		"running without pod": {object: enginetest.At(past, "RUNNING"), phase: "RUNNING", children: 1},
		"running":             {object: enginetest.At(past, "RUNNING"), observed: pod("Running"), phase: "RUNNING", children: 1},
		"ended":               {object: enginetest.At(past, "RUNNING"), observed: pod("Failed"), phase: "DONE", transitions: []Transition{{"RUNNING", "DONE"}}},
		"done":                {object: enginetest.At(past, "DONE"), phase: "DONE"},
		"done and invalid":    {object: enginetest.At("tomorrow", "DONE"), phase: "DONE"},
		"invalid":             {object: enginetest.At("tomorrow", "PENDING"), phase: "PENDING", stalled: reasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := planOf(k, tc.object, tc.observed, now)
			require.Equal(t, tc.phase, p.Phase)
			require.Equal(t, tc.transitions, p.Transitions)
			require.Len(t, p.Children, tc.children)
			require.True(t, tc.wakeAt.Equal(p.WakeAt), p.WakeAt)
			require.Equal(t, tc.again, p.Again)
			if tc.stalled == "" {
				require.Nil(t, p.Stalled)
				return
			}
			require.NotNil(t, p.Stalled)
			require.Equal(t, tc.stalled, p.Stalled.Reason)
		})
	}
}

// A delay counts from the time in the status, so that a restart does not restart it.
func TestPlanOfDelay(t *testing.T) {
	t.Parallel()
	k := enginetest.Corpus(t, "phases")
	object := map[string]any{
		"apiVersion": "phases.example.com/v1", "kind": "Job", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{},
		"status": map[string]any{"phase": "NEW", "lastPhaseTransitionTime": children.EntryOf(now.Add(-9999 * time.Millisecond))},
	}
	p := planOf(k, object, nil, now)
	require.Equal(t, "NEW", p.Phase)
	require.Equal(t, now.Add(time.Millisecond), p.WakeAt)

	p = planOf(k, object, nil, now.Add(time.Millisecond))
	require.Equal(t, "TRYING", p.Phase)
	require.Equal(t, now.Add(time.Millisecond), p.Entered)
}

const passing = `
package passing

import "fescue.dev/cue/contract"

#A: {apiVersion!: "passing.example.com/v1", kind!: "A", metadata!: {...}, status?: {contract.#Status, phase?: "X" | "Y" | "Z"}}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	initial: "X"
	phases: {
		X: next: [{to: "Y", when: true}]
		Y: {
			children: y: template: {apiVersion: "v1", kind: "Pod"}
			next: [{to: "Z", when: true}]
		}
		Z: {terminal: true, failed: true}
	}
}
`

// A phase with children is stored before they are created, and left when they exist.
func TestPlanStoresAPhaseBeforeItActs(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, passing)
	object := map[string]any{"apiVersion": "passing.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "X"}}
	p := planOf(k, object, nil, now)
	require.Equal(t, "Y", p.Phase)
	require.Empty(t, p.Children)
	require.True(t, p.Again)

	object["status"] = map[string]any{"phase": "Y"}
	p = planOf(k, object, nil, now)
	require.Equal(t, "Y", p.Phase)
	require.Len(t, p.Children, 1)

	p = planOf(k, object, map[string]any{"y": map[string]any{}}, now)
	require.Equal(t, "Z", p.Phase)
	require.Empty(t, p.Children)
	require.Equal(t, "False", string(succeeded(p, &Outcome{}).Status), "Z is a failure")
}

// A phase whose children could not be created is not left early.
func TestPlanStaysUntilChildrenExist(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, passing)
	object := map[string]any{"apiVersion": "passing.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "Y"}}
	p := planOf(k, object, nil, now)
	require.Equal(t, "Y", p.Phase)
	require.Len(t, p.Children, 1)

	p = planOf(k, object, map[string]any{"y": map[string]any{}}, now)
	require.Equal(t, "Z", p.Phase)
}

// A phase is not left before its children have their templates: what is observed of a child was there before.
func TestPlanStaysUntilChildrenHaveTheirTemplates(t *testing.T) {
	t.Parallel()
	for _, update := range []kind.UpdatePolicy{kind.Apply, kind.Recreate, kind.Never} {
		t.Run(string(update), func(t *testing.T) {
			t.Parallel()
			k := enginetest.Kind(t, strings.Replace(strings.ReplaceAll(passing, "passing", "templates"+strings.ToLower(string(update))),
				`template: {apiVersion: "v1", kind: "Pod"}`, `{update: "`+string(update)+`", template: {apiVersion: "v1", kind: "Pod", metadata: labels: new: "yes"}}`, 1))
			object := map[string]any{"apiVersion": k.GroupVersionKind.GroupVersion().String(), "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "Y"}}
			p := planOf(k, object, map[string]any{"y": map[string]any{}}, now)
			if update == kind.Never {
				require.Equal(t, "Z", p.Phase)
				return
			}
			require.Equal(t, "Y", p.Phase)
			require.Len(t, p.Children, 1)
		})
	}
}

// What is dropped is gone before a phase is left: something may hold it.
func TestPlanStaysUntilDroppedChildrenAreGone(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, strings.ReplaceAll(strings.Replace(passing, "initial:", `observed: _
	owns: [{apiVersion: "v1", kind: "Pod"}]
	children: {if object.status.phase == "X" {old: template: {apiVersion: "v1", kind: "Pod"}}}
	initial:`, 1), "passing", "dropping"))
	object := map[string]any{"apiVersion": "dropping.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "Y"}}
	live := childrenOf(k, object, map[string]any{"y": map[string]any{}, "old": map[string]any{}})
	for _, child := range live {
		if child.Name == "old" {
			child.Object.SetDeletionTimestamp(new(metav1.NewTime(now)))
			children.Origin{Child: "old"}.Record(child.Object)
		}
	}
	owner := &unstructured.Unstructured{Object: object}
	require.Equal(t, "Y", Decide(k, owner, &View{Children: live}, now).Phase)
	live = slices.DeleteFunc(live, func(child children.Live) bool { return child.Name == "old" })
	require.Equal(t, "Z", Decide(k, owner, &View{Children: live}, now).Phase)
}

// Phases may lead back to one if what the kind writes to the status has changed meanwhile.
func TestCycleWithAnotherStatusIsNone(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package taking

import "fescue.dev/cue/contract"

#A: {apiVersion!: "taking.example.com/v1", kind!: "A", metadata!: {...}, spec!: v!: string, status?: {contract.#Status, phase?: "TAKE" | "RUN", v?: string}}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	initial: "TAKE"
	phases: {
		TAKE: next: [{to: "RUN", when: object.spec.v == object.status.v}]
		RUN: next: [{to: "TAKE", when: object.spec.v != object.status.v}]
	}
	status: v: [if (*object.status.phase | "TAKE") == "TAKE" {object.spec.v}, object.status.v][0]
}
`)
	object := map[string]any{"apiVersion": "taking.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"v": "2"},
		"status": map[string]any{"phase": "RUN", "v": "1"}}
	v := new(View)
	for _, phase := range []string{"TAKE", "RUN", "RUN"} {
		p := Decide(k, &unstructured.Unstructured{Object: object}, v, now)
		require.Nil(t, p.Stalled)
		require.Equal(t, phase, p.Phase)
		v.Passed = outcomeOf(p, &Comparison{}, &Changes{}, v).Passed
		object["status"] = map[string]any{"phase": p.Phase, "v": p.Projection["v"]}
	}
}

const loop = `
package loop

import "fescue.dev/cue/contract"

#A: {apiVersion!: "loop.example.com/v1", kind!: "A", metadata!: {...}, status?: {contract.#Status, phase?: "X" | "Y"}}
#AController: contract.#Controller & {
	object!: #A
	names: plural: "as"
	initial: "X"
	phases: {
		X: next: [{to: "Y", when: true}]
		Y: next: [{to: "X", when: true}]
	}
}
`

func TestPlanOfCycleIsAnError(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, loop)
	object := map[string]any{"apiVersion": "loop.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "X"}}
	p := planOf(k, object, nil, now)
	require.Equal(t, &Problem{reasonEvaluation, "phases [X Y] lead back to X without anything changing"}, p.Stalled)
	require.Equal(t, "X", p.Phase, "the object stays where it is")
	require.Empty(t, p.Transitions)
}

// Two phases that lead to each other are an error also if each of them is stored.
func TestCycleOfStoredPhasesIsAnError(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, strings.ReplaceAll(strings.Replace(loop, "initial:", `children: c: template: {apiVersion: "v1", kind: "Pod"}
	initial:`, 1), "loop", "stored"))
	object := map[string]any{"apiVersion": "stored.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a", "uid": "1"}, "status": map[string]any{"phase": "X"}}
	live := childrenOf(k, object, map[string]any{"c": map[string]any{}})
	children.Origin{Child: "c"}.Record(live[0].Object)
	v := &View{Children: live, Types: map[schema.GroupVersionKind]ChildType{podKind: {Resource: pods, IsNamespaced: true}}, Normalized: children.NewNormalized()}
	var phases []string
	for range 3 {
		p := Decide(k, &unstructured.Unstructured{Object: object}, v, now)
		if p.Stalled != nil {
			require.Equal(t, &Problem{reasonEvaluation, "phases [X Y] lead back to X without anything changing"}, p.Stalled)
			break
		}
		require.True(t, p.Again)
		o := outcomeOf(p, &Comparison{}, &Changes{}, v)
		phases, v.Passed = append(phases, p.Phase), o.Passed
		object["status"] = map[string]any{"phase": p.Phase}
	}
	require.Equal(t, []string{"Y", "X"}, phases)
}

// A projection of another version of the kind is replaced, and does not stall the object.
func TestPlanReplacesAnInvalidProjection(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `package k

import "fescue.dev/cue/contract"

#Site: {
	apiVersion!: "sites.example.com/v1"
	kind!:       "Site"
	metadata!: {name!: string, ...}
	spec!: host!: string
	status?: {contract.#Status, endpoint?: {url?: string}}
}
#SiteController: contract.#Controller & {
	object!: #Site
	names: plural: "sites"
	status: endpoint: url: "https://\(object.spec.host)"
}
`)
	object := func(status map[string]any) map[string]any {
		return map[string]any{"apiVersion": "sites.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"host": "a.example.com"}, "status": status}
	}
	p := planOf(k, object(map[string]any{"endpoint": "a.example.com", "observedGeneration": int64(1)}), nil, now)
	require.Nil(t, p.Stalled)
	require.Equal(t, map[string]any{"endpoint": map[string]any{"url": "https://a.example.com"}}, p.Projection)
	p = planOf(k, object(map[string]any{"endpoint": "a.example.com", "phase": 7}), nil, now)
	require.NotNil(t, p.Stalled, "a phase is not invented")
}

// Decide changes nothing that it is given: objects come from a cache.
func TestPlanLeavesItsInputsAlone(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := enginetest.At("2020-01-01T00:00:00Z", "PENDING")
	live := childrenOf(k, object, pod("Succeeded"))
	before := live[0].Object.DeepCopy()
	Decide(k, &unstructured.Unstructured{Object: object}, &View{Children: live}, now)
	require.Equal(t, enginetest.At("2020-01-01T00:00:00Z", "PENDING"), object)
	require.Equal(t, before, live[0].Object)
}

func BenchmarkPlan(b *testing.B) {
	k := enginetest.Shipped(b, "At")
	object := enginetest.At("2020-01-01T00:00:00Z", "RUNNING")
	v := &View{Children: childrenOf(k, object, pod("Running"))}
	for b.Loop() {
		require.Nil(b, Decide(k, &unstructured.Unstructured{Object: object}, v, now).Stalled)
	}
}
