package cli

import (
	"testing"

	"github.com/fescue-dev/fescue/internal/testing/tutorial"
)

// TestTutorial runs what the tutorial does without a control plane. TestTutorial in e2e runs all of it.
func TestTutorial(t *testing.T) {
	t.Parallel()
	(&tutorial.Reader{}).Run(t)
}
