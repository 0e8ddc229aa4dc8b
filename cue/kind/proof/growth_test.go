package proof

import (
	"crypto/rand"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var manyDecisions = flag.Int("many-decisions", 20_000, "decisions, each with new names, in TestDecisionsKeepNothing")

// A kind that has served many objects holds no more memory than before. It is not
// parallel, so that no other test allocates meanwhile.
func TestMemoryDoesNotGrow(t *testing.T) {
	k := shippedKind(t, "At")
	serve := func(from, to int) {
		for i := from; i < to; i++ {
			object := map[string]any{
				"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
				"metadata": map[string]any{"name": fmt.Sprintf("a-%d", i)},
				"spec":     map[string]any{"schedule": "2020-11-16T10:12:00Z", "command": fmt.Sprintf("echo %d", i)},
				"status":   map[string]any{"phase": "RUNNING"},
			}
			require.Empty(t, k.Validate(object))
			_, err := k.Decide(k.NewBudget(), k.Default(object), observedPod)
			require.NoError(t, err)
		}
	}
	const rounds = 2000
	serve(0, rounds)
	before := heap()
	serve(rounds, 2*rounds)
	grown := int64(heap()) - int64(before)
	// A context that kept what it evaluated would hold some 10 KB for each object.
	require.Less(t, grown/rounds, int64(500), "bytes per object")
}

// Validating objects that each have a key of their own takes no more memory either: no
// names may be kept. A hundred thousand of them would hold 5 MB at least, so that 100 KB,
// which leaves room for what the runtime does meanwhile, distinguishes the two.
func TestNamesAreNotKept(t *testing.T) {
	k := shippedKind(t, "Watcher")
	validate := func(rounds int) {
		for range rounds {
			key := rand.Text()
			errs := k.Validate(map[string]any{
				"apiVersion": "watch.fescue.dev/v1alpha1", "kind": "Watcher",
				"metadata": map[string]any{"name": "a", "labels": map[string]any{key: key}},
				"spec": map[string]any{
					"container":  map[string]any{"name": "a"},
					"configData": map[string]any{key: key},
				},
			})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
		}
	}
	rounds, bound := 100_000, int64(100<<10)
	validate(1000)
	before := heap()
	validate(rounds)
	require.Less(t, int64(heap())-int64(before), bound, "bytes")
}

// Decisions with new names take no memory that stays, as above.
func TestDecisionsKeepNothing(t *testing.T) {
	k := shippedKind(t, "Watcher")
	decide := func(rounds int) {
		for range rounds {
			key := rand.Text()
			object := map[string]any{
				"apiVersion": "watch.fescue.dev/v1alpha1", "kind": "Watcher",
				"metadata": map[string]any{"name": key, "labels": map[string]any{key: key}},
				"spec":     map[string]any{"mode": "Native", "container": map[string]any{"name": "a", key: key}, "configData": map[string]any{key: key}},
			}
			if _, err := k.Decide(k.NewBudget(), object, map[string]any{"config": map[string]any{key: key}}); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Injection(k.NewBudget(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	rounds, bound := *manyDecisions, int64(1<<20)
	decide(1000)
	before := heap()
	decide(rounds)
	require.Less(t, int64(heap())-int64(before), bound, "bytes")
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// A pattern that stands in an object is compiled for one evaluation: it is not kept, and its length counts.
func TestPatternsOfObjectsAreNotKept(t *testing.T) {
	kinds, err := draftsOf(t, `package kinds

import "fescue.dev/cue/contract"

#Match: {
	apiVersion!: "match.example.com/v1"
	kind!:       "Match"
	metadata!: {...}
	spec!: pattern!: string
	status?: contract.#Status
}
#MatchController: contract.#Controller & {
	object!: #Match
	names: plural: "matches"
	children: c: template: {apiVersion: "v1", kind: "ConfigMap", data: found: "\("a" =~ object.spec.pattern)"}
}
`)
	require.NoError(t, err)
	k := kinds[0]
	decide := func(bytes int) error {
		pattern := rand.Text() + strings.Repeat("(a|b)", bytes/5)
		_, err := k.Decide(k.NewBudget(), objectOf(k, map[string]any{"pattern": pattern}), nil)
		return err
	}
	require.NoError(t, decide(100))
	before := heap()
	for range 20 {
		require.NoError(t, decide(20_000))
	}
	require.Less(t, int64(heap())-int64(before), int64(1<<20), "bytes")
	require.ErrorContains(t, decide(200_000), "takes more than")
}
