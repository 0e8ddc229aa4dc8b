package load

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// What the API server rejects is rejected, and what it takes is not. TestObjectsOfChildren in e2e asks a real one.
func TestValidateChild(t *testing.T) {
	t.Parallel()
	kinds, err := All(false, corpus.Path(t, "examples/app"))
	require.NoError(t, err)
	for file, isRejected := range map[string]bool{"rejected.yaml": true, "accepted.yaml": false} {
		for _, object := range corpus.Objects(t, "testdata/children/"+file) {
			problems := kinds.ValidateChild(object)
			require.Equal(t, isRejected, len(problems) > 0, "%v: %v", object, problems)
		}
	}
}
