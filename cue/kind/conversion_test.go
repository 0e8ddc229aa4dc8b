package kind

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"cuelang.org/go/cue"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/corpus"
)

// convertingKind loads the kind of testdata/kinds/conversions.txtar.
func convertingKind(t testing.TB) *Kind {
	kinds, err := FromDir(corpus.Unpack(t, corpus.Read(t, corpus.Path(t, "testdata/kinds/conversions.txtar"))))
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
func compareConversion(t testing.TB, k *Kind, from *Version, object map[string]any) (compared int) {
	if len(k.Problems(object)) > 0 {
		return 0
	}
	object = from.withDefaults(object)
	for _, to := range k.Versions {
		if from == to || from != k.Version && to != k.Version {
			continue
		}
		direction, given, c := toStoredName, objectName, from.conversion
		if from == k.Version {
			direction, given, c = fromStoredName, storedName, to.conversion
		}
		if c == nil {
			continue
		}
		converted, err := k.convertOnce(object, from, to)
		require.NoError(t, err, text(object))
		definition := k.source.value.LookupPath(cue.MakePath(cue.Def(c.name)))
		unified := definition.FillPath(cue.ParsePath(given), k.source.value.Context().Encode(object))
		for name := range c.stated[direction].fields["spec"].fields {
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
					require.Equal(t, fingerprint(value), fingerprint(ours.(map[string]any)[field]), at)
				}
			} else {
				require.Equal(t, fingerprint(data), fingerprint(ours), at)
			}
			compared++
		}
	}
	return compared
}

// FuzzConversion converts objects that are generated for each version, with any annotations: nothing
// is lost on the way there and back, metadata stays the same, and CUE's evaluator agrees.
func FuzzConversion(f *testing.F) {
	skipComparison(f)
	k := convertingKind(f)
	for seed := range uint64(20) {
		f.Add(seed, `{"/spec/breed":{"value":"texel","instead":"bde47ca7bef7163e"}}`)
	}
	f.Add(uint64(1), `{"/metadata/name":{"value":"other"},"/kind":{"value":"Other"},"":{"absent":true},"/":{"value":1},"/spec":{"value":1}}`)
	f.Add(uint64(2), `{"/spec/count":{"absent":true,"instead":""},"/status/conditions/0":{"value":{}},"/spec/grazing~1":null}`)
	f.Add(uint64(3), `[]`)
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
				roundTripOf(t, k, object, from, to)
				forged := withAnnotations(object, map[string]any{KeptPrefix + to.GroupVersionKind.Version: annotation})
				converted, err := k.Convert(forged, to.GroupVersionKind.GroupVersion().String())
				if err == nil {
					requireSameMetadata(t, forged, converted)
				}
			}
		}
	})
}

// roundTripOf requires that an object is the same after a conversion to a version and back.
func roundTripOf(t testing.TB, k *Kind, object map[string]any, from, to *Version) {
	object = withAnnotations(from.withDefaults(object), nil)
	converted, err := k.Convert(object, to.GroupVersionKind.GroupVersion().String())
	require.NoError(t, err, text(object))
	require.Equal(t, to.GroupVersionKind.GroupVersion().String(), converted["apiVersion"])
	requireSameMetadata(t, object, converted)
	back, err := k.Convert(converted, from.GroupVersionKind.GroupVersion().String())
	require.NoError(t, err, text(converted))
	for _, v := range k.Versions {
		_, back = keptOf(back, v.GroupVersionKind.Version)
	}
	require.NoError(t, sameJSON("differs", object, back))
}

func requireSameMetadata(t testing.TB, object, converted map[string]any) {
	require.Equal(t, withAnnotations(object, nil)["metadata"], withAnnotations(converted, nil)["metadata"])
	require.Equal(t, object["kind"], converted["kind"])
}

// TestKeptFieldIsRestoredUnlessChanged changes an object in the version that cannot say all of it:
// what was changed is changed, and the rest comes back.
func TestKeptFieldIsRestoredUnlessChanged(t *testing.T) {
	t.Parallel()
	k := convertingKind(t)
	stored := map[string]any{
		"apiVersion": "conversions.example.com/v1", "kind": "Flock", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{
			"count": int64(1), "breed": "texel", "grazing": map[string]any{"hours": int64(3)},
			"owners": []any{map[string]any{"name": "ann", "phone": "1"}},
		},
	}
	older, err := k.Convert(stored, "conversions.example.com/v1beta1")
	require.NoError(t, err)
	older["spec"].(map[string]any)["owners"] = []any{"bob"}
	changed, err := k.ToStored(older)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"count": int64(1), "breed": "texel", "grazing": map[string]any{"hours": int64(3)},
		"owners": []any{map[string]any{"name": "bob"}},
	}, changed["spec"])
	require.NotContains(t, annotationsOf(changed), KeptPrefix+"v1")
	require.Equal(t, "texel", stored["spec"].(map[string]any)["breed"], "the object is not changed")
}

// TestAnnotationsHaveALimit requires an error where the annotation cannot hold what a version cannot
// say: the API server would reject the object.
func TestAnnotationsHaveALimit(t *testing.T) {
	t.Parallel()
	_, err := kept{"/spec/text": {Value: strings.Repeat("a", maxAnnotations)}, "/spec/b": {Value: "b"}}.keep(map[string]any{}, "v1")
	require.ErrorContains(t, err, "conversion.fescue.dev/v1 keeps, such as spec.text: must have at most 262144")
}

// TestConvertUnknownVersion requires an error that names the versions.
func TestConvertUnknownVersion(t *testing.T) {
	t.Parallel()
	k := convertingKind(t)
	_, err := k.Convert(map[string]any{"apiVersion": "conversions.example.com/v1", "kind": "Flock"}, "conversions.example.com/v9")
	require.EqualError(t, err, "apiVersion: conversions.example.com/v9 is no version of Flock, which has conversions.example.com/v1, conversions.example.com/v1beta1, conversions.example.com/v2")
	_, err = k.ToStored(map[string]any{"kind": "Flock"})
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
	require.Empty(t, versions[1].AdditionalPrinterColumns, "v1beta1 has no breed")
	require.Nil(t, versions[2].DeprecationWarning)
}
