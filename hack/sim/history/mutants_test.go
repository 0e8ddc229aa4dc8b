package history

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/mutate"
)

var (
	onlyMutants = flag.String("mutants", "",
		"break the engine in many ways, and ask whether histories show it: all, or a regular expression for the place and the text of a mutant")
	someMutants = flag.Int("some-mutants", 300, "how many of them are tried, in an order that is always the same")
)

// unseenFiles hold what histories do not look at: metrics, health, Events, and texts for people.
var unseenFiles = regexp.MustCompile(`/(metrics|health|warnings|events|sensitive|differences)\.go$`)

var engineMutants = mutate.Source{
	Skip:     regexp.MustCompile(`^(String|Error|.*Text|describe|[cC]alled|logStored|tell|recoverTo)$`),
	Unseen:   regexp.MustCompile(`\b(log|Log|metrics|logger)\.|^panic\(`),
	Messages: regexp.MustCompile(`^(fmt\.Errorf|fmt\.Sprintf|errors\.New|logWarning)$`),
}

// TestMutants breaks the engine and its plans, in one place at a time, and asks whether histories show it, and whether
// the tests of the engine do if these do not.
func TestMutants(t *testing.T) {
	if *onlyMutants == "" {
		t.Skip("it takes more than an hour: make test-engine-mutants")
	}
	source, overlay := engineMutants, mutate.NewOverlay(t)
	for _, dir := range []string{"../../../engine", "../../../engine/children", "../../../engine/plan"} {
		overlay.AddMutants(t, dir, &source, nil)
	}
	wanted, err := regexp.Compile(strings.TrimPrefix(*onlyMutants, "all"))
	require.NoError(t, err)
	var tried []mutate.Mutant
	for _, i := range rand.New(rand.NewPCG(1, 6)).Perm(len(source.Mutants)) {
		m := source.Mutants[i]
		if wanted.MatchString(placed(m)) && len(tried) < *someMutants && !unseenFiles.MatchString(m.File) {
			tried = append(tried, m)
		}
	}
	survivors := overlay.Survivors(t, ".", "TestTheseMutants", tried,
		fmt.Sprint("-histories=", *histories))
	unnoticed := survivors
	for _, dir := range []string{"plan", "children", "reconcile", "simulate", ""} {
		unnoticed = overlay.Unnoticed(t, filepath.Join("../../../engine", dir), unnoticed)
	}
	for _, m := range survivors {
		others := "a test of the engine does"
		if slices.Contains(unnoticed, m) {
			others = "nor does a test of the engine"
		}
		t.Logf("%s: no history shows it, %s", placed(m), others)
	}
	t.Logf("histories show %d of %d mutants, of %d in all, and the tests of the engine %d more", len(tried)-len(survivors), len(tried), len(source.Mutants), len(survivors)-len(unnoticed))
}

// placed returns a mutant with its place, as in "drift.go:75: IsInSync | …".
func placed(m mutate.Mutant) string {
	return fmt.Sprintf("%s:%d: %s", filepath.Base(m.File), m.Line, m.Text())
}

// TestTheseMutants plays histories with mutants: those of other kinds in turns with Ats.
func TestTheseMutants(t *testing.T) {
	if !mutate.Chosen() {
		t.Skip("the engine has no mutants")
	}
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	var cases []func() string
	add := func(of func(seed uint64) Options) {
		seed := uint64(len(cases))
		cases = append(cases, func() (result string) {
			synctest.Test(t, func(*testing.T) {
				r, err := Play(of(seed))
				result = fmt.Sprint(len(r.Violations) > 0, err)
			})
			return result
		})
	}
	kinds := manyKinds(t)
	for range *histories / 10 {
		add(func(seed uint64) Options { return ats(at, seed, 0) })
		for _, of := range kinds {
			add(func(seed uint64) Options { return others(of, seed, 0) })
		}
	}
	require.NotEmpty(t, cases)
	mutate.Try(cases)
}
