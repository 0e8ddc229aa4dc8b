package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// TestMain makes the test binary serve as the command fescue, for scripts and for tests that start
// it as a process.
func TestMain(m *testing.M) {
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
