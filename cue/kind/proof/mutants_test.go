package proof

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/mutate"
)

// pairsOfMutants are the pairs of each kind with which mutants of the evaluator are tried.
var pairsOfMutants = flag.Int("mutant-pairs", 6, "pairs of an object and its children for each kind in TestTheseMutants")

// TestTheseMutants tries mutants of the evaluator (TestMutants in behaviour) with whole kinds, if there are some: those of
// allKinds, and generated ones.
func TestTheseMutants(t *testing.T) {
	if !mutate.Chosen() {
		t.Skip("the evaluator has no mutants")
	}
	var cases []func() string
	add := func(k load.Draft, next func(p *pairs) pair, p *pairs) {
		var agreed []pair
		for seed := range *pairsOfMutants {
			p.random = rand.New(rand.NewPCG(uint64(seed), 7))
			made := next(p)
			if made.object == nil {
				break
			}
			if v, _, _ := judge(k, made); v == same {
				agreed = append(agreed, made)
			}
		}
		if len(agreed) > 0 {
			cases = append(cases, func() string { return resultsOfPairs(k, agreed) })
		}
	}
	loaded := allKinds(t)
	for _, name := range slices.Sorted(maps.Keys(loaded)) {
		for _, k := range loaded[name] {
			add(k, func(p *pairs) (made pair) {
				made.object, made.observed = p.next()
				return made
			}, newLikelyPairs(k, nil))
		}
	}
	for seed := *firstKind; seed < *firstKind+*generatedKinds; seed++ {
		made := generate(seed)
		if k, err := loadSource(made.Source); err == nil {
			add(k, func(p *pairs) pair { return pairOf(p, made.Children) }, newPairs(k, nil))
		}
	}
	require.NotEmpty(t, cases)
	mutate.Try(cases)
}

// resultsOfPairs compiles the behaviour of a kind again, and describes what it decides about pairs.
func resultsOfPairs(loaded load.Draft, made []pair) string {
	alone := *loaded.Kind
	k := load.Draft{Kind: &alone, Source: loaded.Source}
	if err := load.CompileBehaviour(k); err != nil {
		return "does not compile: " + err.Error()
	}
	var results []string
	note := func(value any, err error) {
		if err != nil {
			value = "is wrong"
		}
		results = append(results, text(map[string]any{"": sorted(value)}))
	}
	for _, p := range made {
		decision, err := k.Decide(k.NewBudget(), p.object, p.observed)
		note(decisionResult(decision), err)
		if err != nil {
			compiled := k.Run(k.NewBudget(), p.object, p.observed)
			for _, path := range slices.Concat(partsOfChildren, partsOfStatus) {
				note(outcomeOf(partAt(compiled, path), ""), nil)
			}
		}
		if k.Injects() {
			injection, err := k.Injection(k.NewBudget(), p.object)
			note(injection, err)
		}
		if len(k.Lookups) > 0 {
			lookups, err := k.LookupsOf(k.NewBudget(), p.object)
			note(lookupResult(lookups), err)
		}
	}
	return strings.Join(results, "\n")
}
