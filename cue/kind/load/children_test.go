package load

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// What the API server rejects is rejected, and what it takes is not. TestObjectsOfChildren in e2e asks a real one.
func TestValidateChild(t *testing.T) {
	t.Parallel()
	kinds, err := All(false, corpus.Path(t, "examples/app"))
	require.NoError(t, err)
	for file, isRejected := range map[string]bool{"rejected.yaml": true, "accepted.yaml": false} {
		path := corpus.Path(t, "testdata/children/"+file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		objects, errs := manifest.Read(path, text)
		require.Empty(t, errs)
		for _, object := range objects {
			problems := kinds.ValidateChild(object.Content)
			require.Equal(t, isRejected, len(problems) > 0, "%s: %v: %v", object.Locate("kind").Value.Position,
				object.Content, problems)
		}
	}
}
