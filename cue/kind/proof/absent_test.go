package proof

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
)

// kindWith loads a kind with a schema of the spec and the status, and parts of its behaviour.
func kindWith(t *testing.T, spec, status, behaviour string) (load.Draft, error) {
	t.Helper()
	kinds, err := draftsOf(t, `package k
import (
	"list"

	"fescue.dev/cue/contract"
)
#G: {apiVersion!: "try.example.com/v1", kind!: "G", metadata!: {...}, spec!: `+spec+`, status?: `+status+`}
#GController: contract.#Controller & {
	object!: #G
	names: plural: "gs"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	_one: list.Contains([1], 1)
	`+behaviour+`
}
`)
	if err != nil {
		return load.Draft{}, err
	}
	return kinds[0], nil
}

// decideIn decides for an object in a phase.
func decideIn(t *testing.T, k load.Draft, phase string, spec, observed map[string]any) (*kind.Decision, error) {
	t.Helper()
	checked := k.Check(k.NewBudget(), map[string]any{"apiVersion": "try.example.com/v1", "kind": "G", "metadata": map[string]any{"name": "a"}, "spec": spec})
	require.Empty(t, checked.Errors)
	if phase != "" {
		checked.Object["status"] = map[string]any{"phase": phase}
	}
	return k.Decide(k.NewBudget(), checked.Object, observed)
}

// An if in next may read the object: its transition is dropped, and no other.
func TestTransitionInAnIf(t *testing.T) {
	t.Parallel()
	k, err := kindWith(t, "{public: *false | bool}", "{contract.#Status}", `
		observed: x?: _
		initial: "A"
		phases: {
			A: next: [
				if object.spec.public {to: "B", after: "5s"},
				if observed.x.ready {to: "B", after: "1s"},
				{to: "C", when: _one},
			]
			B: terminal: true
			C: terminal: true
		}`)
	require.NoError(t, err)
	for public, want := range map[bool]string{true: "B C", false: "C"} {
		decision, err := decideIn(t, k, "A", map[string]any{"public": public}, nil)
		require.NoError(t, err)
		var to []string
		for _, next := range decision.Next {
			to = append(to, next.To)
		}
		require.Equal(t, want, strings.Join(to, " "))
	}
}

// A condition may read a struct that a loop over the children makes.
func TestConditionOnALoop(t *testing.T) {
	t.Parallel()
	k, err := kindWith(t, "{}", "{contract.#Status, phase?: string}", `
		observed: _
		children: job: template: {apiVersion: "v1", kind: "ConfigMap"}
		initial: "A"
		phases: {A: next: [{to: "B", when: _phases["job"] == "Done"}], B: terminal: true}
		_phases: {for n, c in observed {(n): c.status.phase}}`)
	require.NoError(t, err)
	for _, tc := range []struct {
		observed map[string]any
		holds    bool
	}{
		{nil, false},
		{map[string]any{"job": map[string]any{}}, false},
		{map[string]any{"job": map[string]any{"status": map[string]any{"phase": "Running"}}}, false},
		{map[string]any{"job": map[string]any{"status": map[string]any{"phase": "Done"}}}, true},
	} {
		decision, err := decideIn(t, k, "A", nil, tc.observed)
		require.NoError(t, err)
		require.Equal(t, tc.holds, decision.Next[0].When, tc.observed)
	}
}

// A kind with phases has a field for them, whether or not it declares one.
func TestPhaseIsAdded(t *testing.T) {
	t.Parallel()
	k, err := kindWith(t, "{}", "contract.#Status", `
		initial: "A"
		phases: {A: next: [{to: "B", when: _one}], B: terminal: true}`)
	require.NoError(t, err)
	require.Equal(t, "string", k.Schema.Properties["status"].Properties["phase"].Type)
	decision, err := decideIn(t, k, "A", nil, nil)
	require.NoError(t, err)
	require.Len(t, decision.Next, 1)
}

// What is wrong is an error with the place and the reason, beside anything that is absent.
func TestWrongIsAnError(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]string{
		`observed: a?: _, status: {x: observed.a.b, y: len(list.Slice([1, 2], 0, object.spec.n))}`:                                                                                         `status.y: error in call to list.Slice: slice bounds out of range`,
		`observed: a?: _, children: x: template: {apiVersion: "v1", kind: "ConfigMap", data: {a: observed.a.b, b: "\([1, 2][object.spec.n])"}}`:                                            `children.x.template.data.b: `,
		`observed: a?: _, children: {if observed.a.b {x: template: {apiVersion: "v1", kind: "ConfigMap"}}, if [true][object.spec.n] {y: template: {apiVersion: "v1", kind: "ConfigMap"}}}`: `children: cannot use "text" (type string) as type bool (`,
		`observed: a?: {b: int}, children: {if observed.a != _|_ {x: template: {apiVersion: "v1", kind: "ConfigMap"}}}`:                                                                    `observed.a.b: conflicting values `,
		`observed: _, conditions: Fine: status: 1 / (object.spec.n - 9) > 0`:                                                                                                               `division by zero`,
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			k, err := kindWith(t, "{n!: int & >=0 & <=9}", "{contract.#Status, x?: _, y?: int}", strings.ReplaceAll(behaviour, ", ", "\n"))
			require.NoError(t, err)
			_, err = decideIn(t, k, "", map[string]any{"n": int64(9)}, map[string]any{"a": map[string]any{"b": "text"}})
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "kind.cue:")
		})
	}
}

// Everything that is absent is found, whatever is wrong in parts that are not read.
func TestUndecidedBesideWhatIsNotRead(t *testing.T) {
	t.Parallel()
	k, err := kindWith(t, "{n!: int & >=0 & <=9}", "{contract.#Status}", `
		observed: {c?: _, e?: _}
		_unread: 1 / object.spec.n
		children: {
			if observed.c.d {y: template: {apiVersion: "v1", kind: "ConfigMap"}}
			z: template: {apiVersion: "v1", kind: "ConfigMap", data: a: observed.e}
		}`)
	require.NoError(t, err)
	decision, err := decideIn(t, k, "", map[string]any{"n": int64(0)}, nil)
	require.NoError(t, err)
	require.Contains(t, kind.WaitingFor(decision.Undecided), "observed.c (")
	require.Len(t, decision.Children, 1)
	require.Nil(t, decision.Children[0].Template)

	k, err = kindWith(t, "{n!: int & >=0 & <=9}", "{contract.#Status}", `
		observed: a?: _
		_unread: 1 / object.spec.n
		if observed.a.b {children: x: template: {apiVersion: "v1", kind: "ConfigMap"}}`)
	require.NoError(t, err)
	decision, err = decideIn(t, k, "", map[string]any{"n": int64(0)}, nil)
	require.NoError(t, err)
	require.Contains(t, kind.WaitingFor(decision.Undecided), "observed.a (")
}

// The engine's types of conditions are rejected, wherever they stand.
func TestConditionsOfTheEngine(t *testing.T) {
	t.Parallel()
	for behaviour, want := range map[string]string{
		`conditions: Ready: status: true`:                                `conditions: "Ready" is a condition of the engine`,
		`conditions: {if object.spec.on {Stalled: status: true}}`:        `conditions: "Stalled" is a condition of the engine`,
		`conditions: "not so": status: true`:                             `conditions: "not so" must be in CamelCase`,
		`conditions: Fine: {status: true, reason: "two words"}`:          `two words`,
		`conditions: {if object.spec.on {Fine: status: object.spec.on}}`: "",
	} {
		t.Run(behaviour, func(t *testing.T) {
			t.Parallel()
			_, err := kindWith(t, "{on: *true | bool}", "contract.#Status", behaviour)
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, err, "kind.cue:")
		})
	}
}
