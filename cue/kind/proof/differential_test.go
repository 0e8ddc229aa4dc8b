package proof

import (
	"flag"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

var (
	samples   = flag.Int("samples", 100, "objects that are generated for each kind in TestDifferential")
	firstSeed = flag.Uint64("first-seed", 0, "seed of the first of them, so that several processes can share a large number")

	foreignKinds = flag.String("kinds", "", "folder with folders of kinds, which TestForeignKinds loads and compares")
)

// skipComparison skips a test with -short: it compares the compiled form with CUE's evaluator for
// many objects.
func skipComparison(t testing.TB) {
	if testing.Short() {
		t.Skip("it takes many objects")
	}
}

// TestDifferential generates objects for each kind, shipped, in the corpus and in the examples, and
// compares what the compiled form, CUE's evaluator and the API server's library for CRDs
// return for them.
func TestDifferential(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	for name, kinds := range allKinds(t) {
		for _, k := range kinds {
			t.Run(name+"/"+k.GroupVersionKind.Kind, func(t *testing.T) {
				t.Parallel()
				require.Positive(t, compareSamples(t, k))
			})
		}
	}
}

// TestForeignKinds compares as TestDifferential does, for the kinds in the folders of a folder, for
// example those that tools generated from CRDs:
//
//	go test ./cue/kind/proof -run TestForeignKinds -kinds DIR -samples 100
//
// It fails for a folder of which not every kind loads.
func TestForeignKinds(t *testing.T) {
	if *foreignKinds == "" {
		t.Skip("it needs kinds: -kinds DIR")
	}
	t.Parallel()
	for _, folder := range corpus.FoldersIn(t, *foreignKinds) {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			t.Parallel()
			kinds, err := load.Drafts(folder)
			require.NoError(t, err)
			for _, k := range kinds {
				compareSamples(t, k)
			}
		})
	}
}

// compareSamples compares the parties on generated objects of a kind, and returns how many of these
// are valid.
func compareSamples(t *testing.T, k load.Draft) int {
	t.Helper()
	crd, err := newCRDOracle(k.Schema)
	require.NoError(t, err)
	valid, sample := 0, sampler(k)
	for i := range uint64(*samples) {
		seed := *firstSeed + i
		object := sample(seed)
		require.NoError(t, disagreement(k, crd, object), "seed %d: %s", seed, text(object))
		if len(k.Problems(object)) == 0 {
			valid++
		}
	}
	t.Logf("%s: %d objects, %d of them valid", k.GroupVersionKind.Kind, *samples, valid)
	return valid
}

// TestDifferentialOfSeeds compares as TestDifferential does, for the schemas that FuzzSchema
// begins with: they have each construct, and each that was a mistake once.
func TestDifferentialOfSeeds(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	for _, spec := range schemaSeeds {
		k := kindWithSpec(t, spec)
		if k.Kind == nil {
			continue
		}
		crd, err := newCRDOracle(k.Schema)
		require.NoError(t, err)
		sample := sampler(k)
		for seed := range uint64(*samples) {
			object := sample(seed)
			require.NoError(t, disagreement(k, crd, object), "%s: seed %d: %s", spec, seed, text(object))
		}
	}
}

// sampler returns a generator of objects of a kind from numbers.
func sampler(k load.Draft) func(seed uint64) map[string]any {
	s := schema.NewSampler(k.Compiled)
	return func(seed uint64) map[string]any { return s.Sample(rand.New(rand.NewPCG(seed, 1))) }
}

// corpusKinds loads the shipped kinds and those of the corpus that load.
func corpusKinds(t testing.TB) map[string][]load.Draft {
	shipped, err := load.ShippedDrafts()
	require.NoError(t, err)
	kinds := map[string][]load.Draft{"shipped": shipped}
	for _, file := range corpus.Archives(t, "testdata/kinds") {
		// Kinds of the corpus that do not load are tested by TestCorpus.
		if loaded, _ := load.Drafts(corpus.Unpack(t, corpus.Read(t, file))); len(loaded) > 0 {
			kinds[filepath.Base(file)] = loaded
		}
	}
	return kinds
}

// allKinds are those of corpusKinds and of the examples, by the folder of each.
func allKinds(t testing.TB) map[string][]load.Draft {
	kinds := corpusKinds(t)
	for _, file := range exampleFiles(t) {
		loaded, err := load.Drafts(filepath.Dir(file))
		require.NoError(t, err)
		kinds["examples/"+filepath.Base(filepath.Dir(file))] = loaded
	}
	return kinds
}

// exampleFiles returns the paths of the kinds of the examples.
func exampleFiles(t testing.TB) []string {
	files, err := filepath.Glob(filepath.Join(corpus.Path(t, "examples"), "*/kind.cue"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}
