package simulate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// An update of a built-in type is rejected for the fields that nobody may change. TestAPIServerAgreesOnBuiltInUpdates
// holds the same updates against the API server.
func TestUpdatesOfBuiltInTypes(t *testing.T) {
	t.Parallel()
	for _, u := range corpus.Updates(t) {
		object := &unstructured.Unstructured{Object: u.Object}
		t.Run(fmt.Sprint(object.GetKind(), " ", object.GetName()), func(t *testing.T) {
			t.Parallel()
			c := New(nil, now)
			require.NoError(t, c.Apply(object))
			require.NoError(t, c.Settle())
			live := get(t, c, object.GetKind(), object.GetName())
			changed, err := patched(live, u.Patch)
			require.NoError(t, err)
			var fields []string
			for _, err := range immutableErrors(live, changed) {
				fields = append(fields, err.Field)
			}
			require.ElementsMatch(t, u.Fields, fields)
			require.Equal(t, len(u.Fields) > 0, c.Patch(live, u.Patch) != nil)
		})
	}
}
