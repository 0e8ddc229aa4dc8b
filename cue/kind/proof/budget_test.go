package proof

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/budget"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// costly is a kind that reads, and has a child in a namespace that its author submits.
const costly = `package k

import "fescue.dev/cue/contract"

#Pool: {
	apiVersion!: "budget.example.com/v1"
	kind!:       "Pool"
	metadata!: {name!: string, namespace?: string, ...}
	spec!: {team!: string, items: *["a"] | [...string]}
	status?: {contract.#Status, n?: int}
}
#PoolController: contract.#Controller & {
	object!: #Pool
	names: plural: "pools"
	reads: config: {apiVersion: "v1", kind: "ConfigMap", name: object.spec.team}
	children: there: template: {apiVersion: "v1", kind: "Secret", metadata: namespace: object.spec.team}
	status: n: len([for i in object.spec.items {i}])
}
`

// All that is computed for an object takes steps of one budget, and reports one that is used up, with the kind
// and what to do.
func TestOneBudgetForAll(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, costly)
	require.NoError(t, err)
	pool, flock, watcher := kinds[0], convertingKind(t), shippedKind(t, "Watcher")
	known, err := types.New()
	require.NoError(t, err)
	require.Empty(t, check.Behaviour(pool.Kind, pool.Source, known))
	object := objectOf(pool, map[string]any{"team": "red", "items": listOf(50, func(int) any { return "a" })})
	stored := objectOf(flock, map[string]any{"count": int64(1), "grazing": map[string]any{"hours": int64(3)}})
	stored["apiVersion"] = "conversions.example.com/v1"
	watching := watcher.Default(objectOf(watcher, map[string]any{"container": map[string]any{"name": "a", "image": "i"}}))
	for name, test := range map[string]struct {
		kind load.Draft
		do   func(*kind.Budget) error
	}{
		"check": {pool, func(b *kind.Budget) error { return pool.Check(b, object).Errors.ToAggregate() }},
		"check of an update": {pool, func(b *kind.Budget) error {
			return pool.Check(b, object).ValidateUpdate(pool.Check(pool.NewBudget(), object)).ToAggregate()
		}},
		"decision": {pool, func(b *kind.Budget) error { _, err := pool.Decide(b, object, nil); return err }},
		"reads":    {pool, func(b *kind.Budget) error { _, err := pool.LookupsOf(b, object); return err }},
		"places":   {pool, func(b *kind.Budget) error { _, err := pool.PlacesOf(b, object); return err }},
		"conversion": {flock, func(b *kind.Budget) error {
			_, lost, err := flock.Versions.Convert(b, stored, "conversions.example.com/v1beta1")
			return errors.Join(err, lost.ToAggregate())
		}},
		"injection": {watcher, func(b *kind.Budget) error { _, err := watcher.Injection(b, watching); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := test.kind.NewBudget()
			require.NoError(t, test.do(b))
			require.False(t, b.IsLow())
			times, err := 1, error(nil)
			for ; err == nil && times < budget.Steps; times++ {
				err = test.do(b)
			}
			require.ErrorContains(t, err, test.kind.Title()+" takes more than 500000 steps: make the object smaller, or have its kind compute less")
			require.Less(t, times, budget.Steps/5)
			require.Error(t, test.do(b), "it stays used up")
			require.NoError(t, test.do(test.kind.NewBudget()))
		})
	}
}

// A small object can replace one that exceeds the budget.
func TestUpdateOfAnObjectThatExceedsTheBudget(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, costly)
	require.NoError(t, err)
	k := kinds[0]
	of := func(n int) *kind.Checked {
		return k.Check(k.NewBudget(), objectOf(k, map[string]any{"team": "red", "items": listOf(n, func(int) any { return "a" })}))
	}
	large := of(budget.Steps)
	require.Len(t, large.Errors, 1)
	require.Equal(t, "spec", large.Errors[0].Field)
	require.Empty(t, of(1).ValidateUpdate(large))
	require.Len(t, large.ValidateUpdate(of(1)), 1)
}

// slow is a kind whose objects can take much to validate.
const slow = `package k

import ("list", "strings", "fescue.dev/cue/contract")

#Slow: {
	apiVersion!: "budget.example.com/v1"
	kind!:       "Slow"
	metadata!: {name!: string, ...}
	spec!: {
		text?: string
		// Each item matches the text.
		matching?: [...{x?: int, if text != _|_ if text =~ "^(a|b)*$" {y?: int}}]
		patterns?: [...=~"^(a|b)*$" & =~"^(a|c)*$" & strings.MinRunes(1)]
		unique?: list.UniqueItems() & [...[...string]]
		flags?: [...#Flags]
		names?: [...{[=~"^(a|b)*$"]: int}]
	}
	status?: contract.#Status
}
#Flags: {
	a?: bool, b?: bool, c?: bool, d?: bool, e?: bool, f?: bool, g?: bool, h?: bool, i?: bool, j?: bool, k?: bool, l?: bool
	if a != _|_ {a1?: int}
	if b != _|_ {b1?: int}
	if c != _|_ {c1?: int}
	if d != _|_ {d1?: int}
	if e != _|_ {e1?: int}
	if f != _|_ {f1?: int}
	if g != _|_ {g1?: int}
	if h != _|_ {h1?: int}
	if i != _|_ {i1?: int}
	if j != _|_ {j1?: int}
	if k != _|_ {k1?: int}
	if l != _|_ {l1?: int}
}
#SlowController: contract.#Controller & {object!: #Slow, names: plural: "slows"}
`

// The worst that a schema can be made to do takes steps, though the object has few values.
func TestWorkOfSchemasIsCounted(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, slow)
	require.NoError(t, err)
	k := kinds[0]
	long := strings.Repeat("ab", 1<<19)
	for name, spec := range map[string]map[string]any{
		"a text that each item matches": {"text": long, "matching": listOf(1000, func(int) any { return map[string]any{} })},
		"long texts":                    {"patterns": listOf(3, func(int) any { return long })},
		"long items":                    {"unique": listOf(100, func(int) any { return []any{long} })},
		"a long name":                   {"names": listOf(3, func(int) any { return map[string]any{long: int64(1)} })},
		"forms of a struct": {"flags": listOf(1<<12, func(i int) any {
			flags := map[string]any{}
			for bit, name := range "abcdefghijkl" {
				if i&(1<<bit) != 0 {
					flags[string(name)] = true
				}
			}
			return flags
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := k.Validate(objectOf(k, spec))
			require.Len(t, errs, 1)
			require.Contains(t, errs[0].Detail, "Slow takes more than 500000 steps")
		})
	}
}
