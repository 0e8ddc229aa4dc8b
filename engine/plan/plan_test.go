package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func shippedAt(tb testing.TB) *kind.Kind {
	kinds, err := kind.Shipped()
	require.NoError(tb, err)
	return kinds[0]
}

// corpusKind loads the kind of an archive of the corpus.
func corpusKind(t *testing.T, name string) *kind.Kind {
	archive, err := txtar.ParseFile("../testdata/kinds/" + name + ".txtar")
	require.NoError(t, err)
	require.Equal(t, "kind.cue", archive.Files[0].Name)
	return kindFrom(t, string(archive.Files[0].Data))
}

func kindFrom(t *testing.T, text string) *kind.Kind {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kind.cue"), []byte(text), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	return kinds[0]
}

func at(schedule, phase string) map[string]any {
	object := map[string]any{
		"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "generation": int64(1)},
		"spec":     map[string]any{"schedule": schedule, "command": "echo"},
	}
	if phase != "" {
		object["status"] = map[string]any{"phase": phase}
	}
	return object
}

func pod(phase string) map[string]any {
	return map[string]any{"pod": map[string]any{"status": map[string]any{"phase": phase}}}
}

func TestPlanOfAt(t *testing.T) {
	t.Parallel()
	k := shippedAt(t)
	const past, future = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
	for name, tc := range map[string]struct {
		object, observed map[string]any
		phase            string
		transitions      []transition
		children         int
		wakeAt           time.Time
		again            bool
		stalled          string
	}{
		"new":               {object: at(past, ""), phase: "PENDING", transitions: []transition{{"", "PENDING"}}, again: true},
		"not yet":           {object: at(future, "PENDING"), phase: "PENDING", wakeAt: now.Add(time.Second)},
		"due to the second": {object: at(past, "PENDING"), phase: "RUNNING", transitions: []transition{{"PENDING", "RUNNING"}}, children: 1},
		"due and already ended": {object: at(past, "PENDING"), observed: pod("Succeeded"), phase: "DONE",
			transitions: []transition{{"PENDING", "RUNNING"}, {"RUNNING", "DONE"}}, children: 1},
		"running without pod": {object: at(past, "RUNNING"), phase: "RUNNING", children: 1},
		"running":             {object: at(past, "RUNNING"), observed: pod("Running"), phase: "RUNNING", children: 1},
		"ended":               {object: at(past, "RUNNING"), observed: pod("Failed"), phase: "DONE", transitions: []transition{{"RUNNING", "DONE"}}},
		"done":                {object: at(past, "DONE"), phase: "DONE"},
		"done and invalid":    {object: at("tomorrow", "DONE"), phase: "DONE"},
		"invalid":             {object: at("tomorrow", "PENDING"), phase: "PENDING", stalled: reasonInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := makePlan(k, tc.object, tc.observed, now)
			require.Equal(t, tc.phase, p.phase)
			require.Equal(t, tc.transitions, p.transitions)
			require.Len(t, p.children, tc.children)
			require.True(t, tc.wakeAt.Equal(p.wakeAt), p.wakeAt)
			require.Equal(t, tc.again, p.again)
			if tc.stalled == "" {
				require.Nil(t, p.stalled)
				return
			}
			require.NotNil(t, p.stalled)
			require.Equal(t, tc.stalled, p.stalled.reason)
		})
	}
}

// A delay counts from the time that the status says, so that a restart does not begin
// it anew.
func TestPlanOfDelay(t *testing.T) {
	t.Parallel()
	k := corpusKind(t, "phases")
	object := map[string]any{
		"apiVersion": "phases.example.com/v1", "kind": "Job", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{},
		"status": map[string]any{"phase": "NEW", "lastPhaseTransitionTime": now.Add(-9999 * time.Millisecond).Format(timeFormat)},
	}
	p := makePlan(k, object, nil, now)
	require.Equal(t, "NEW", p.phase)
	require.Equal(t, now.Add(time.Millisecond), p.wakeAt)

	p = makePlan(k, object, nil, now.Add(time.Millisecond))
	require.Equal(t, "TRYING", p.phase)
	require.Equal(t, now.Add(time.Millisecond), p.entered)
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

// A phase is passed through only when its children are there.
func TestPlanMakesChildrenOfAPassingPhase(t *testing.T) {
	t.Parallel()
	k := kindFrom(t, passing)
	object := map[string]any{"apiVersion": "passing.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "X"}}
	p := makePlan(k, object, nil, now)
	require.Equal(t, "Y", p.phase)
	require.Len(t, p.children, 1)
	require.True(t, p.again)

	p = makePlan(k, object, map[string]any{"y": map[string]any{}}, now)
	require.Equal(t, "Z", p.phase)
	require.Len(t, p.children, 1)
	require.Equal(t, "False", string(p.succeeded(k).Status), "Z is a failure")
}

// A phase whose children could not be made is not left as if they had been.
func TestPlanStaysUntilChildrenAreMade(t *testing.T) {
	t.Parallel()
	k := kindFrom(t, passing)
	object := map[string]any{"apiVersion": "passing.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "Y"}}
	p := makePlan(k, object, nil, now)
	require.Equal(t, "Y", p.phase)
	require.Len(t, p.children, 1)

	p = makePlan(k, object, map[string]any{"y": map[string]any{}}, now)
	require.Equal(t, "Z", p.phase)
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
	k := kindFrom(t, loop)
	object := map[string]any{"apiVersion": "loop.example.com/v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"phase": "X"}}
	p := makePlan(k, object, nil, now)
	require.Equal(t, &problem{reasonEvaluation, "phases [X Y] lead back to X without anything changing"}, p.stalled)
	require.Equal(t, "X", p.phase, "the object stays where it is")
	require.Empty(t, p.transitions)
}

// A plan changes nothing that it was given: objects come from a cache.
// What another version of the kind has projected is replaced, and keeps nothing from being done.
func TestPlanReplacesAnInvalidProjection(t *testing.T) {
	t.Parallel()
	k := kindFrom(t, `package k

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
	p := makePlan(k, object(map[string]any{"endpoint": "a.example.com", "observedGeneration": int64(1)}), nil, now)
	require.Nil(t, p.stalled)
	require.Equal(t, map[string]any{"endpoint": map[string]any{"url": "https://a.example.com"}}, p.projection)
	p = makePlan(k, object(map[string]any{"endpoint": "a.example.com", "phase": 7}), nil, now)
	require.NotNil(t, p.stalled, "a phase is not made up")
}

func TestPlanLeavesItsInputsAlone(t *testing.T) {
	t.Parallel()
	object, observed := at("2020-01-01T00:00:00Z", "PENDING"), pod("Succeeded")
	makePlan(shippedAt(t), object, observed, now)
	require.Equal(t, at("2020-01-01T00:00:00Z", "PENDING"), object)
	require.Equal(t, pod("Succeeded"), observed)
}

func BenchmarkPlan(b *testing.B) {
	k := shippedAt(b)
	object, observed := at("2020-01-01T00:00:00Z", "RUNNING"), pod("Running")
	for b.Loop() {
		require.Nil(b, makePlan(k, object, observed, now).stalled)
	}
}
