package schema_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// A schema never changes: a CRD with fewer CEL rules does not change another.
func TestOpenAPIChangesNoSchema(t *testing.T) {
	t.Parallel()
	k := kindWithSpec(t, `{text!: string @kube(immutable)}`)
	by := func(v *kind.Version) schema.Enforcer {
		all := v.Enforcement()
		i := slices.IndexFunc(all, func(e schema.Enforcement) bool { return e.Text == "@kube(immutable)" })
		return all[i].By
	}
	v := k.Version
	fewer := *v
	without := sets.New[string]()
	for _, rule := range load.SetOpenAPI(&fewer, nil).Rules {
		without.Insert(rule.ID)
	}
	require.Empty(t, load.SetOpenAPI(&fewer, without).Rules)
	require.Equal(t, schema.Admission, by(&fewer))
	require.Equal(t, schema.CRDRule, by(v))
}

// A line of CUE that requires several things of a field is one rule: here a string, and a time.
func TestEnforcementListsEachLineOnce(t *testing.T) {
	t.Parallel()
	type line struct {
		field, words string
		at           place.Position
	}
	seen := make(map[line]bool)
	for _, k := range kindtest.Shipped(t) {
		for _, e := range k.Enforcement() {
			p := line{e.Field, e.Words, e.Position}
			require.False(t, seen[p], p)
			seen[p] = true
		}
		clear(seen)
	}
}
