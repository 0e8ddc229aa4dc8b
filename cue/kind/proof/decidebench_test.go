package proof

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
)

// decided is an object for which decisions are measured.
type decided struct {
	name     string
	kind     load.Draft
	object   map[string]any
	observed map[string]any
	// byHand decides in Go; nil if there is no such code.
	byHand func(object, observed map[string]any) *kind.Decision
}

func decidedObjects(tb testing.TB) []decided {
	inPhase := func(phase string) map[string]any {
		object := maps.Clone(at)
		object["spec"] = map[string]any{"schedule": "2020-11-16T10:12:00Z", "command": "echo hello", "image": "busybox:1.37"}
		object["status"] = map[string]any{"phase": phase}
		return object
	}
	at, watcher, cluster := shippedKind(tb, "At"), shippedKind(tb, "Watcher"), shippedKind(tb, "Customcluster")
	full := defaultedWatcher(tb, watcher)
	all := []decided{
		{"At/PENDING", at, inPhase("PENDING"), map[string]any{}, decideAt},
		{"At/RUNNING", at, inPhase("RUNNING"), observedPod, decideAt},
		{"At/DONE", at, inPhase("DONE"), observedPod, decideAt},
		{"Watcher", watcher, full, map[string]any{"config": map[string]any{"metadata": map[string]any{"name": "full-config"}}}, nil},
	}
	for _, n := range []int{10, 100, 1000, 10_000} {
		pods := make([]any, n)
		for i := range pods {
			pods[i] = map[string]any{
				"apiVersion": "v1", "kind": "Pod",
				"metadata": map[string]any{"name": fmt.Sprintf("c-%d", i), "labels": map[string]any{"controller": "c"}},
				"status":   map[string]any{"phase": "Running"},
			}
		}
		object := objectOf(cluster, map[string]any{"count": int64(n), "message": "hello"})
		all = append(all, decided{fmt.Sprintf("Customcluster/%d", n), cluster, object, map[string]any{"pods": pods}, nil})
	}
	return all
}

func defaultedWatcher(tb testing.TB, k load.Draft) map[string]any {
	return k.Default(fullWatcher(tb))
}

// decideAt is what the behaviour of an At decides, written by hand.
func decideAt(object, observed map[string]any) *kind.Decision {
	spec, _ := object["spec"].(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	command, _ := spec["command"].(string)
	d := &kind.Decision{Status: map[string]any{}}
	switch kind.PhaseOf(object) {
	case "PENDING":
		schedule, _ := spec["schedule"].(string)
		after, err := kind.ParseTrigger(schedule)
		if err != nil {
			return nil
		}
		d.Next = []kind.Transition{{To: "RUNNING", When: true, After: after}}
	case "RUNNING":
		var words []any
		for word := range strings.FieldsSeq(command) {
			words = append(words, word)
		}
		d.Children = []kind.Child{{Name: "pod", Phase: "RUNNING", Update: kind.Never, Template: map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": name + "-pod", "labels": map[string]any{"app": name}},
			"spec": map[string]any{
				"restartPolicy":   "OnFailure",
				"securityContext": map[string]any{"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
				"containers": []any{map[string]any{
					"name": "command", "image": spec["image"], "command": words,
					"securityContext": map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}},
				}},
			},
		}}}
		pod, _ := observed["pod"].(map[string]any)
		status, _ := pod["status"].(map[string]any)
		phase, _ := status["phase"].(string)
		d.Next = []kind.Transition{{To: "DONE", When: phase == "Succeeded" || phase == "Failed"}}
	}
	return d
}

// BenchmarkDecide is one decision: compiled, by CUE's evaluator, and written by hand.
func BenchmarkDecide(b *testing.B) {
	for _, d := range decidedObjects(b) {
		b.Run("Compiled/"+d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.kind.Decide(d.kind.NewBudget(), d.object, d.observed); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Evaluator/"+d.name, func(b *testing.B) {
			if strings.HasSuffix(d.name, "/10000") {
				b.Skip("the evaluator takes minutes")
			}
			c := newComparison(d.kind)
			b.ReportAllocs()
			for b.Loop() {
				v, err := c.evaluated(d.object, d.observed)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := d.kind.DecisionOf(v, kind.PhaseOf(d.object)); err != nil {
					b.Fatal(err)
				}
			}
		})
		if d.byHand == nil {
			continue
		}
		b.Run("HandWritten/"+d.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d.byHand(d.object, d.observed) == nil {
					b.Fatal("no decision")
				}
			}
		})
	}
}

// BenchmarkInjection is what a Watcher with every field injects.
func BenchmarkInjection(b *testing.B) {
	k := shippedKind(b, "Watcher")
	object := defaultedWatcher(b, k)
	b.Run("Compiled", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Injection(k.NewBudget(), object); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Evaluator", func(b *testing.B) {
		c := newComparison(k)
		b.ReportAllocs()
		for b.Loop() {
			v, err := c.evaluated(object, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := kind.InjectionOf(v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The figures compare like with like only if all decide the same.
func TestBenchmarkedDecisions(t *testing.T) {
	t.Parallel()
	for _, d := range decidedObjects(t) {
		if strings.HasSuffix(d.name, "000") {
			continue // the evaluator takes long
		}
		c := newComparison(d.kind)
		_, err := compare(c, d.object, d.observed)
		require.NoError(t, err, d.name)
		if d.byHand != nil {
			decision, err := d.kind.Decide(d.kind.NewBudget(), d.object, d.observed)
			require.NoError(t, err)
			require.NoError(t, c.sameResult("", decisionResult(decision), decisionResult(d.byHand(d.object, d.observed)), nil, nil), d.name)
		}
	}
}

// threeLoops is a kind whose behaviour takes the third power of the number of its items in steps.
const threeLoops = `package k

import "fescue.dev/cue/contract"

#Pool: {
	apiVersion!: "budget.example.com/v1"
	kind!:       "Pool"
	metadata!: {...}
	spec!: items!: [...string]
	status?: {contract.#Status, x?: int}
}
#PoolController: contract.#Controller & {
	object!: #Pool
	names: plural: "pools"
	status: x: len([for a in object.spec.items for b in object.spec.items for c in object.spec.items {1}])
}
`

func poolOf(k load.Draft, items int) map[string]any {
	return objectOf(k, map[string]any{"items": listOf(items, func(int) any { return "a" })})
}

// A behaviour that would take 10^9 steps fails, and only for its own object.
func TestBudgetOfDecisions(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, threeLoops)
	require.NoError(t, err)
	_, err = kinds[0].Decide(kinds[0].NewBudget(), poolOf(kinds[0], 1000), nil)
	require.ErrorContains(t, err, "takes more than 500000 steps")
	require.ErrorContains(t, err, "status: ")
	decision, err := kinds[0].Decide(kinds[0].NewBudget(), poolOf(kinds[0], 10), nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"x": int64(1000)}, decision.Status)
}

// A behaviour that refers to definitions that each hold the former twice loads, and then exceeds the budget.
func TestBudgetOfDoublingDefinitions(t *testing.T) {
	t.Parallel()
	text := strings.Replace(threeLoops, "len([for a in object.spec.items for b in object.spec.items for c in object.spec.items {1}])", "#D24", 1)
	text = strings.Replace(text, "x?: int", "x?: _", 1) + "#D0: a: 1\n"
	for i := range 24 {
		text += fmt.Sprintf("#D%d: {a: #D%d, b: #D%d}\n", i+1, i, i)
	}
	kinds, err := draftsOf(t, text)
	require.NoError(t, err)
	_, err = kinds[0].Decide(kinds[0].NewBudget(), poolOf(kinds[0], 1), nil)
	require.ErrorContains(t, err, "takes more than 500000 steps")
}

// BenchmarkBudget measures how soon a behaviour fails that would take 10^9 steps.
func BenchmarkBudget(b *testing.B) {
	kinds, err := draftsOf(b, threeLoops)
	require.NoError(b, err)
	pool := poolOf(kinds[0], 1000)
	for b.Loop() {
		_, err := kinds[0].Decide(kinds[0].NewBudget(), pool, nil)
		require.ErrorContains(b, err, "takes more than 500000 steps")
	}
}
