package cli

import (
	"bytes"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without the linker's version, that of the module is printed, unless Go does not know it or the program is another.
func TestInstalledVersion(t *testing.T) {
	t.Parallel()
	of := func(path, version string) string {
		return installedVersion(&debug.BuildInfo{Main: debug.Module{Path: path, Version: version}}, true)
	}
	require.Equal(t, "v1.2.3", of(module, "v1.2.3"))
	require.Empty(t, of(module, "(devel)"))
	require.Empty(t, of("example.com/other", "v1.2.3"))
	require.Empty(t, installedVersion(nil, false))
}

// A plugin of kubectl shows the command that its users type, and completes like any other program.
func TestPluginName(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"/bin/kubectl-fescue": "kubectl fescue status", `fescue`: "fescue status"} {
		root := NewCommand()
		nameAsPlugin(root, program)
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"status", "--help"})
		require.NoError(t, root.Execute())
		require.Contains(t, out.String(), "\n  "+want+" [flags]\n")

		out.Reset()
		root.SetArgs([]string{"__complete", "sta"})
		require.NoError(t, root.Execute())
		require.Contains(t, out.String(), "status\tShow")
	}
}
