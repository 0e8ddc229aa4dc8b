package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// What uninstall reports of an object that it released is what the finalizer of its kind was for.
func TestReleasedFor(t *testing.T) {
	t.Parallel()
	elsewhere := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}
	for want, k := range map[string]*kind.Kind{
		"it has not passed the phases that follow its deletion": {OnDelete: "CLEANING", Elsewhere: elsewhere},
		"its children in other namespaces may be left":          {Elsewhere: elsewhere},
		"its kind does not need the finalizer any more":         {},
	} {
		require.Equal(t, want, heldObject{by: k}.left())
	}
}
