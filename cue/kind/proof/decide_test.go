package proof

import (
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

var (
	decisions = flag.Int("decisions", 60, "pairs of an object and its children that are generated for each kind in TestDecisionsLikeCUE")
	onlyKinds = flag.String("only-kinds", "", "regular expression for the archives and kinds in TestDecisionsLikeCUE, as in shipped/At")
)

// kubernetesTypes are the types that Kubernetes itself serves.
var kubernetesTypes = sync.OnceValue(func() *types.Catalog {
	known, err := types.New()
	if err != nil {
		panic(err)
	}
	return known
})

// newLikelyPairs returns a generator half of whose objects are like those that people wrote.
func newLikelyPairs(k load.Draft, samples []map[string]any) *pairs {
	p := newPairs(k, kubernetesTypes())
	random := p.sample
	if len(samples) > 0 {
		p.sample = func(r *rand.Rand) map[string]any {
			object := random(r)
			if r.IntN(2) == 0 {
				object = p.mixed(samples[r.IntN(len(samples))], object)
			}
			return object
		}
	}
	return p
}

// mixed returns an object with most fields of one, and some of another.
func (p *pairs) mixed(most, some map[string]any) map[string]any {
	object := make(map[string]any)
	names := slices.AppendSeq(slices.Collect(maps.Keys(most)), maps.Keys(some))
	slices.Sort(names) // the same seed makes the same object
	for _, name := range slices.Compact(names) {
		a, isInMost := most[name]
		b, isInSome := some[name]
		inner, isStruct := a.(map[string]any)
		other, isOtherStruct := b.(map[string]any)
		switch {
		case isStruct && isOtherStruct:
			object[name] = p.mixed(inner, other)
		case isInMost && p.random.IntN(5) > 0:
			object[name] = a
		case isInSome:
			object[name] = b
		}
	}
	return object
}

// compare compares everything, also what a proof leaves out.
func compare(k *comparison, object, observed map[string]any) (decides bool, err error) {
	_, failed := k.Decide(k.NewBudget(), object, observed)
	return failed == nil, k.compare(object, observed)
}

// TestDecisionsLikeCUE generates objects and their children for each kind, shipped, in the corpus and
// in the examples, and compares the decisions of the compiled behaviour with those of CUE's evaluator.
func TestDecisionsLikeCUE(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	only := regexp.MustCompile(*onlyKinds)
	for name, source := range kindSources(t) {
		for _, k := range source.kinds {
			name := name + "/" + k.GroupVersionKind.Kind
			if !only.MatchString(name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p, c := newLikelyPairs(k, source.samplesOf(k)), newComparison(k)
				values, failures, exceeding := 0, 0, 0
				for i := range uint64(*decisions) {
					seed := *firstSeed + i
					p.random = rand.New(rand.NewPCG(seed, 2))
					object, observed := p.next()
					decides, err := compare(c, object, observed)
					switch {
					case errors.Is(err, errNotCompared):
						exceeding++
					case err != nil:
						require.NoError(t, err, "seed %d: %s\nobserved %s", seed, text(object), text(observed))
					case decides:
						values++
					default:
						failures++
					}
				}
				t.Logf("%d pairs: %d decisions, %d errors, %d not compared: they take many steps", *decisions, values, failures, exceeding)
				require.Less(t, exceeding*3, *decisions)
			})
		}
	}
}

// A child may be named by a text that is also the name of a field of the object, here in its status.
func TestChildNamedLikeAFieldOfItsObject(t *testing.T) {
	t.Parallel()
	kinds, err := load.Drafts(filepath.Join(root(), "examples/workerpool"))
	require.NoError(t, err)
	object := objectOf(kinds[0], map[string]any{"workers": []any{"other", "web"}, "image": "i"})
	object["status"] = map[string]any{"childInventory": map[string]any{"created": map[string]any{"web": "uid"}}}
	decides, err := compare(newComparison(kinds[0]), object, nil)
	require.NoError(t, err)
	require.True(t, decides)
}

// kindSource are the kinds of a package, and objects that people wrote.
type kindSource struct {
	kinds   []load.Draft
	samples []map[string]any
}

// samplesOf returns the objects of a kind.
func (s kindSource) samplesOf(k load.Draft) (samples []map[string]any) {
	for _, object := range s.samples {
		if k.GroupVersionKind == (&unstructured.Unstructured{Object: object}).GroupVersionKind() {
			samples = append(samples, object)
		}
	}
	return samples
}

func kindSources(t *testing.T) map[string]kindSource {
	sources := make(map[string]kindSource)
	for name, loaded := range allKinds(t) {
		source := kindSource{kinds: loaded}
		if strings.HasPrefix(name, "examples/") {
			documents, err := os.ReadFile(filepath.Join(root(), name, "sample.yaml"))
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(documents), "\n---\n") {
				var object unstructured.Unstructured // whole numbers are int64
				require.NoError(t, yaml.Unmarshal([]byte(document), &object))
				source.samples = append(source.samples, object.Object)
			}
		}
		sources[name] = source
	}
	return sources
}

// root is the folder of the repository.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../..")
}
