package cli

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary serve as the command fescue, for scripts and for tests that start
// it as a process. It has less garbage collected: the tests load hundreds of kinds.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	testscript.Main(m, map[string]func(){"fescue": func() {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}})
}

func TestErrorsAreOneLineEach(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	printErrors(&out, fmt.Errorf("load: %w", fmt.Errorf("first\nsecond")))
	require.Equal(t, "error: load: first second\n", out.String())
}
