package proof

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// An if that cannot be evaluated is an error, and one that reads something absent is undecided,
// wherever it stands: neither drops a child.
func TestBrokenConditionIsAnError(t *testing.T) {
	t.Parallel()
	const child = `shout: template: {apiVersion: "v1", kind: "ConfigMap"}`
	places := map[string]string{
		"controller":   "if CONDITION {children: " + child + "}",
		"children":     "children: {if CONDITION {" + child + "}}",
		"phase":        "phases: A: {if CONDITION {children: " + child + "}}",
		"its children": "phases: A: children: {if CONDITION {" + child + "}}",
	}
	conditions := map[string]string{
		"object.spec.loud != _|_": "", "object.spec.loud": "waiting for object.spec.loud", `object.spec["luod"]`: `waiting for object.spec["luod"]`,
		"object.spec.text": "as type bool",
	}
	for place, text := range places {
		for condition, want := range conditions {
			t.Run(place+" "+condition, func(t *testing.T) {
				t.Parallel()
				decision, err := decideWith(t, strings.ReplaceAll(text, "CONDITION", condition))
				switch {
				case want == "":
					require.NoError(t, err)
					require.Empty(t, decision.Undecided)
				case strings.HasPrefix(want, "waiting"):
					require.NoError(t, err)
					require.Contains(t, kind.WaitingFor(decision.Undecided), want)
				default:
					require.ErrorContains(t, err, want)
				}
			})
		}
	}
}

// draftsOf loads the kinds of one file, with their source.
func draftsOf(tb testing.TB, text string) ([]load.Draft, error) {
	tb.Helper()
	return load.Drafts(corpus.Folder(tb, text))
}

// decideWith decides for an object of a kind whose behaviour has a given part.
func decideWith(t *testing.T, part string) (*kind.Decision, error) {
	kinds, err := draftsOf(t, `package k
import "fescue.dev/cue/contract"
#G: {
	apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: {text!: string, loud?: bool}
	status?: {contract.#Status, phase?: "A"}
}
#GController: contract.#Controller & {
	object!: #G
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	initial: "A"
	phases: A: {}
	`+part+`
}
`)
	require.NoError(t, err)
	return kinds[0].Decide(kinds[0].NewBudget(), map[string]any{"apiVersion": "try.example.com/v1", "kind": "G",
		"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "a"}, "status": map[string]any{"phase": "A"}}, nil)
}

// Goroutines that evaluate a condition for the first time share what it adds; the race
// detector checks this.
func TestConcurrentConditions(t *testing.T) {
	t.Parallel()
	for range 20 {
		k := kindWithSpec(t, `{mode!: "a" | "b", if mode == "a" {x!: {y?: int, z: *1 | int}}}`)
		object := map[string]any{
			"apiVersion": "fuzzed.example.com/v1", "kind": "X", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"mode": "a", "x": map[string]any{"y": int64(1)}},
		}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				if problems := k.Problems(object); len(problems) > 0 {
					t.Error(problems[0].Error)
				}
			})
		}
		workers.Wait()
	}
}

// A condition that reads an absent part of a child does not hold, whatever other parts
// exist, and blocks no other transition.
func TestConditionOnWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, when := range []string{
		`observed.job.status.conditions[0].type == "Complete"`,
		`len(observed.job.status.conditions) > 0`,
		`len([for c in observed.job.status.conditions {c.type}]) > 0`,
		`or([for c in observed.job.status.conditions {c.type == "Complete"}])`,
		`list.Contains([for c in observed.job.status.conditions if c.status == "True" {c.type}], "Complete")`,
	} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			k := kindOfJobs(t, when)
			for observed, holds := range map[string]bool{
				`{}`:                    false,
				`{"job":{}}`:            false,
				`{"job":{"status":{}}}`: false,
				`{"job":{"status":{"conditions":[{"type":"Complete","status":"True"}]}}}`: true,
			} {
				var children map[string]any
				require.NoError(t, json.Unmarshal([]byte(observed), &children))
				decision, err := k.Decide(k.NewBudget(), jobObject, children)
				require.NoError(t, err, observed)
				require.Equal(t, holds, decision.Next[0].When, observed)
				require.Equal(t, 10*time.Minute, decision.Next[1].After.Delay)
				require.Len(t, decision.Children, 1)
			}
		})
	}
	_, err := kindOfJobs(t, `object.spec.text > 1`).Decide(budget.New("G"), jobObject, nil)
	require.ErrorContains(t, err, `phases.A.next.0.when: invalid operands "a" and 1 to '>' (type string and int) in object.spec.text > 1 (`)
	require.ErrorContains(t, err, "kind.cue:18)")
}

var jobObject = map[string]any{
	"apiVersion": "try.example.com/v1", "kind": "G", "metadata": map[string]any{"name": "a"},
	"spec": map[string]any{"text": "a"}, "status": map[string]any{"phase": "A"},
}

// kindOfJobs creates a Job and changes its phase when a condition holds, or after ten
// minutes.
func kindOfJobs(t *testing.T, when string) load.Draft {
	t.Helper()
	kinds, err := draftsOf(t, `package k
import (
	"list"

	"fescue.dev/cue/contract"
)
#G: {
	apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: text!: string
	status?: {contract.#Status, phase?: "A" | "B"}
}
#GController: contract.#Controller & {
	object!: #G
	observed: job?: {...}
	names: plural: "gs"
	initial: "A"
	phases: A: {
		children: job: {update: "Never", template: {apiVersion: "batch/v1", kind: "Job"}}
		next: [{to: "B", when: `+when+`}, {to: "B", after: "10m"}]
	}
	phases: B: terminal: list.Contains([true], true)
}
`)
	require.NoError(t, err)
	return kinds[0]
}

// The names of sets in a loop over a list that has some constants are not known when the kind is loaded.
func TestSetOfUnknownName(t *testing.T) {
	t.Parallel()
	_, err := decideWith(t, `children: {for name in [object.spec.text, "all"] {"\(name)": {replicas: 1, template: {apiVersion: "v1", kind: "ConfigMap"}}}}`)
	require.EqualError(t, err, "children.a.replicas: a set must not be in an if: set replicas to 0 instead")
}
