package proof

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// convertingKind loads the kind of testdata/kinds/conversions.txtar.
func convertingKind(t testing.TB) load.Draft {
	kinds, err := load.Drafts(corpus.Unpack(t, corpus.Read(t, corpus.Path(t, "testdata/kinds/conversions.txtar"))))
	require.NoError(t, err)
	require.Len(t, kinds, 1)
	return kinds[0]
}

// TestConversionsLikeCUE compares what conversions state with CUE's evaluator, for generated objects
// of each version.
func TestConversionsLikeCUE(t *testing.T) {
	skipComparison(t)
	t.Parallel()
	k := convertingKind(t)
	compared := 0
	for _, from := range k.Versions {
		sample := from.Sampler()
		for seed := range uint64(*samples) {
			compared += compareConversion(t, k, from, sample(rand.New(rand.NewPCG(seed, 3))))
		}
	}
	require.Greater(t, compared, *samples)
}

// compareConversion compares the stated fields of an object, and returns how many there were.
func compareConversion(t testing.TB, k load.Draft, from *kind.Version, object map[string]any) (compared int) {
	if len(k.Problems(object)) > 0 {
		return 0
	}
	object = from.WithDefaults(k.NewBudget(), object)
	for _, to := range k.Versions {
		if from == to || from != k.Version && to != k.Version {
			continue
		}
		direction, given, c := kind.ToStoredName, behaviour.ObjectName, from.Conversion
		if from == k.Version {
			direction, given, c = kind.FromStoredName, kind.StoredName, to.Conversion
		}
		if c == nil {
			continue
		}
		converted, failures := k.Versions.ConvertOnce(k.NewBudget(), object, from, to)
		require.Empty(t, failures, text(object))
		definition := k.Source.Value.LookupPath(cue.MakePath(cue.Def(c.Name)))
		unified := definition.FillPath(cue.ParsePath(given), cuecontext.New().Encode(object))
		for name := range c.Stated[direction].Fields["spec"].Fields {
			expected := unified.LookupPath(cue.MakePath(cue.Str(direction), cue.Str("spec"), cue.Str(name)))
			ours := converted["spec"].(map[string]any)[name]
			at := fmt.Sprintf("%s.spec.%s of %s", direction, name, text(object))
			if !expected.Exists() || expected.Validate(cue.Concrete(true)) != nil {
				continue // what is absent is carried over, or left out
			}
			var data any
			require.NoError(t, decodeInto(expected, name, &data), at)
			if stated, ok := data.(map[string]any); ok {
				for field, value := range stated {
					require.NoError(t, kind.SameJSON(at, value, ours.(map[string]any)[field]))
				}
			} else {
				require.NoError(t, kind.SameJSON(at, data, ours))
			}
			compared++
		}
	}
	return compared
}

// FuzzConversion converts objects that are generated for each version, with any annotation of former
// conversions: what is stored is not lost on the way there and back, metadata stays the same, and CUE's
// evaluator agrees.
func FuzzConversion(f *testing.F) {
	skipComparison(f)
	k := convertingKind(f)
	for seed := range uint64(20) {
		f.Add(seed, `{"/spec/breed":{"value":"texel","instead":"bde47ca7bef7163e"}}`)
	}
	f.Add(uint64(1), `{"/metadata/name":{"value":"other"},"/kind":{"value":"Other"},"":{"absent":true},"/":{"value":1},"/spec":{"value":1}}`)
	f.Fuzz(func(t *testing.T, seed uint64, annotation string) {
		if len(annotation) > maxFuzzed || strings.ToValidUTF8(annotation, "") != annotation {
			return
		}
		for _, from := range k.Versions {
			sample := from.Sampler()
			compareConversion(t, k, from, sample(rand.New(rand.NewPCG(seed, 3))))
			object := sample(rand.New(rand.NewPCG(seed, 4)))
			if len(k.Problems(object)) > 0 {
				continue
			}
			for _, to := range k.Versions {
				object["metadata"] = map[string]any{"name": "a", "annotations": map[string]any{"conversion.fescue.dev/" + to.GroupVersionKind.Version: annotation}}
				requireSurvives(t, k, object, to)
			}
		}
	})
}

// requireSurvives requires that what is stored of an object is the same after a conversion to a version and
// back, and metadata in all of them. What is not valid as stored may be lost.
func requireSurvives(t testing.TB, k load.Draft, object map[string]any, to *kind.Version) {
	stored, errs := k.Versions.ToStored(k.NewBudget(), object)
	require.Empty(t, errs, text(object))
	if len(k.Problems(stored)) > 0 {
		return
	}
	stored = k.WithDefaults(k.NewBudget(), stored)
	converted, lost, err := k.Versions.Convert(k.NewBudget(), stored, to.GroupVersionKind.GroupVersion().String())
	require.NoError(t, err, text(object))
	require.Empty(t, lost, text(object))
	require.Equal(t, to.GroupVersionKind.GroupVersion().String(), converted["apiVersion"])
	back, errs := k.Versions.ToStored(k.NewBudget(), converted)
	require.Empty(t, errs, text(converted))
	require.NoError(t, kind.SameJSON("differs", stored, back))
	require.Equal(t, object["metadata"], converted["metadata"])
	require.Equal(t, object["metadata"], back["metadata"])
	require.Equal(t, object["kind"], converted["kind"])
}

// TestConvertUnknownVersion requires an error that names the versions.
func TestConvertUnknownVersion(t *testing.T) {
	t.Parallel()
	k := convertingKind(t)
	_, _, err := k.Versions.Convert(k.NewBudget(), map[string]any{"apiVersion": "conversions.example.com/v1", "kind": "Flock"}, "conversions.example.com/v9")
	require.EqualError(t, err, "apiVersion: conversions.example.com/v9 is no version of Flock, which has conversions.example.com/v1, conversions.example.com/v1beta1, conversions.example.com/v2")
	_, _, err = k.Versions.Convert(k.NewBudget(), map[string]any{"kind": "Flock"}, "conversions.example.com/v1")
	require.ErrorContains(t, err, "apiVersion: <nil> is no version")
}

// TestConversionFacts requires that the CRD says what the conversion says of its version.
func TestConversionFacts(t *testing.T) {
	t.Parallel()
	k := convertingKind(t)
	versions := k.Definition().Spec.Versions
	require.Len(t, versions, 3)
	require.True(t, versions[0].Storage)
	require.Equal(t, "v1beta1", versions[1].Name)
	require.True(t, versions[1].Deprecated)
	require.Contains(t, *versions[1].DeprecationWarning, "use v1")
	require.Len(t, versions[1].AdditionalPrinterColumns, 1)
	require.Nil(t, versions[2].DeprecationWarning)
}

// TestUnservedVersion requires that a version that is not served needs toStored alone. The API server prunes
// in it what a manager of fields no longer applies, so it cannot get an object without a part.
func TestUnservedVersion(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, `package kinds

import (
	"strconv"

	"fescue.dev/cue/contract"
)

#A: {
	apiVersion!: "unserved.example.com/v1"
	kind!:       "A"
	metadata!: {...}
	spec!: {n?: int, since?: string}
	status?: {contract.#Status, runs?: int}
}
#AV0: {
	apiVersion!: "unserved.example.com/v0"
	kind!:       "A"
	metadata!: {...}
	spec!: {m?: =~"^[0-9]{1,9}$"}
}
#AV0Conversion: contract.#Conversion & {
	object!: #AV0
	stored!: #A
	let given = object
	toStored: spec: n: strconv.Atoi(given.spec.m)
	served: false
}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
`)
	require.NoError(t, err)
	k := kinds[0]
	object := func(version string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "unserved.example.com/" + version, "kind": "A", "metadata": map[string]any{"name": "a"}, "spec": spec}
	}
	stored, errs := k.Versions.ToStored(k.NewBudget(), object("v0", map[string]any{"m": "7"}))
	require.Empty(t, errs)
	require.Equal(t, map[string]any{"n": int64(7)}, stored["spec"])
	require.Empty(t, k.Versions.Losses(k.NewBudget(), object("v1", map[string]any{"n": int64(7), "since": "x"})))
	_, _, err = k.Versions.Convert(k.NewBudget(), object("v1", map[string]any{"n": int64(7), "since": "x"}), "unserved.example.com/v0")
	require.EqualError(t, err, "unserved.example.com/v0 is not served, and cannot hold spec.n, spec.since: remove what metadata.managedFields lists of unserved.example.com/v0")
	empty, lost, err := k.Versions.Convert(k.NewBudget(), object("v1", map[string]any{}), "unserved.example.com/v0")
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, object("v0", map[string]any{}), empty)
}
