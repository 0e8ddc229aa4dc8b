package proof

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

var behaviourMutations = flag.Int("behaviour-mutations", 8, "ways in which TestMutationsOfBehaviours breaks each behaviour")

// neededOfBehaviours is the part of the broken behaviours that has to be noticed. The others cannot
// be noticed, like another element of a list whose length alone counts, or need a rare object.
const neededOfBehaviours = 0.85

// neededOfProofs is the part of them that the few pairs of a proof have to show.
const neededOfProofs = 0.6

// swaps are the ways to break an expression.
var swaps = map[string]string{
	"==": "!=", "!=": "==", ">": "<=", "<": ">=", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "", "0": "7", "1": "8", "true": "false", "false": "true",
}

var tokens = regexp.MustCompile(`==|!=|&&|\|\||[<>](?:=)?|\b[01]\b|\btrue\b|\bfalse\b|"[A-Za-z]+"| [+] | [-] `)

// ofTheKind are lines that state something about the kind, not about one object.
var ofTheKind = regexp.MustCompile(`terminal|failed|owns|initial|names:|columns`)

// TestMutationsOfBehaviours asks whether the comparison of TestDecisionsLikeCUE would notice an
// error of the compiler: it compiles a behaviour that is broken in one place, and compares it with
// CUE's evaluator on the one that is not.
func TestMutationsOfBehaviours(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	for _, name := range []string{"absent.txtar", "phases.txtar"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := corpus.Unpack(t, corpus.Read(t, filepath.Join(root(), "testdata/kinds", name)))
			file := filepath.Join(dir, "kind.cue")
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			kinds, err := load.Drafts(dir)
			require.NoError(t, err)
			start := strings.Index(string(source), "Controller: contract.")
			places := tokens.FindAllStringIndex(string(source[start:]), -1)
			random := rand.New(rand.NewPCG(1, 1))
			random.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
			var noticed, proved, tried int
			var survivors []string
			for _, place := range places {
				if tried == *behaviourMutations {
					break
				}
				from, to := start+place[0], start+place[1]
				old := string(source[from:to])
				line := 1 + strings.Count(string(source[:from]), "\n")
				if ofTheKind.MatchString(strings.Split(string(source), "\n")[line-1]) {
					continue
				}
				broken, known := swaps[strings.TrimSpace(old)]
				if !known {
					broken = `"Other"`
				}
				require.NoError(t, os.WriteFile(file, []byte(string(source[:from])+broken+string(source[to:])), 0o600))
				mutants, err := load.Drafts(dir)
				if err != nil || len(mutants) != 1 {
					continue // it does not load
				}
				tried++
				alone := *kinds[0].Kind
				k := load.Draft{Kind: &alone, Source: kinds[0].Source}
				k.Program = mutants[0].Program
				if Prove(k, kubernetesTypes()).Difference != nil {
					proved++
				}
				p, c := newPairs(k, kubernetesTypes()), newComparison(k)
				p.random = rand.New(rand.NewPCG(1, 3))
				found := false
				for range 3000 {
					object, observed := p.next()
					_, err := compare(c, object, observed)
					if found = err != nil && !errors.Is(err, errNotCompared); found {
						break
					}
				}
				if found {
					noticed++
					continue
				}
				survivors = append(survivors, fmt.Sprintf("%d: %s -> %s", line, old, broken))
			}
			t.Logf("%d of %d errors are noticed, %d of them by a proof, survivors: %v", noticed, tried, proved, survivors)
			require.Positive(t, tried)
			require.GreaterOrEqual(t, float64(proved)/float64(tried), neededOfProofs)
			require.GreaterOrEqual(t, float64(noticed)/float64(tried), neededOfBehaviours, "survivors: %v", survivors)
		})
	}
}
