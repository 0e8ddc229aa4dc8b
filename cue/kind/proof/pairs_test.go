package proof

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// A behaviour can read the elements of a list as it reads the list itself.
func TestPartsOfChildrenEnd(t *testing.T) {
	t.Parallel()
	endless := &kind.Read{}
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
