package cli

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// repository is the root of the checkout.
const repository = "../.."

// TestOfflineScripts runs the parts of the command line that need no control plane.
func TestOfflineScripts(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs(repository)
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join(repository, "testdata", "offline"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			return nil
		},
	})
}
