package proof

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/types"
	"github.com/fescue-dev/fescue/internal/parts"
)

// A behaviour can read the elements of a list as it reads the list itself.
func TestPartsOfChildrenEnd(t *testing.T) {
	t.Parallel()
	endless := &parts.Set{}
	endless.Elements = endless
	p := &pairs{random: rand.New(rand.NewPCG(1, 1)), texts: []string{"x"}, numbers: []int64{1}}
	for range 20 {
		require.LessOrEqual(t, depthOf(p.part(endless, types.Unknown, 0)), maxPartDepth+1)
	}
}

// depthOf returns how deep a value is nested.
func depthOf(value any) (depth int) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			depth = max(depth, 1+depthOf(field))
		}
	case []any:
		for _, element := range value {
			depth = max(depth, 1+depthOf(element))
		}
	}
	return depth
}

// What the members of a set wait for may be described in other words, and places.
func TestMembersThatWaitAreComparedWithoutPlaces(t *testing.T) {
	t.Parallel()
	result := func(absent ...kind.Absence) any {
		return decisionResult(&kind.Decision{Children: []kind.Child{{Name: "c", Set: &kind.Set{Absent: absent}}}})
	}
	require.Equal(t, result(kind.Absence{Path: "a"}), result(kind.Absence{Path: "b"}))
	require.NotEqual(t, result(), result(kind.Absence{Path: "a"}))
}

// A proof makes no value that the API server would reject: where one part of a text is absent and another has a wrong type,
// Fescue and CUE are known to differ, which must not keep a kind from running.
func TestProofsKeepTypes(t *testing.T) {
	t.Parallel()
	kinds, err := draftsOf(t, `package k

import "fescue.dev/cue/contract"

#K: {apiVersion!: "example.com/v1", kind!: "K", metadata!: {name!: string, ...}, spec: {}, status?: {contract.#Status, host?: string}}
#KController: contract.#Controller & {
	object!: #K
	observed: _
	names: plural: "ks"
	reads: settings: {apiVersion: "v1", kind: "ConfigMap", name: "settings"}
	_host: "\(object.metadata.name)-\(object.metadata.namespace).\(observed.settings.data.domain)"
	status: host: _host
}
`)
	require.NoError(t, err)
	p, c := newPairs(kinds[0], kubernetesTypes()), newComparison(kinds[0])
	p.keepsTypes = true
	seen := 0
	for seed := range uint64(2000) {
		p.random = rand.New(rand.NewPCG(seed, 1))
		object, observed := p.next()
		if domain, found, _ := unstructured.NestedFieldNoCopy(observed, "settings", "data", "domain"); found {
			seen++
			require.IsType(t, "", domain)
		}
		if seed < 200 {
			require.NoError(t, c.compare(object, observed))
		}
	}
	require.Positive(t, seen)
}
