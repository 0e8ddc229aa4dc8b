package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The patches fit the standard library of the toolchain that runs the tests, and each file they need is named once.
func TestWriteFitsThisToolchain(t *testing.T) {
	t.Parallel()
	root, _, err := goRoot()
	require.NoError(t, err)
	path, err := write(root, t.TempDir())
	require.NoError(t, err)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var overlay struct{ Replace map[string]string }
	require.NoError(t, json.Unmarshal(data, &overlay))
	require.Len(t, overlay.Replace, len(patches)+1)
	for _, p := range patches {
		original, err := os.ReadFile(filepath.Join(root, "src", p.file))
		require.NoError(t, err)
		patched, err := os.ReadFile(overlay.Replace[filepath.Join(root, "src", p.file)])
		require.NoError(t, err)
		require.Contains(t, string(patched), "sim", "%s calls what the added file has", p.file)
		require.NotEqual(t, string(original), string(patched))
	}
}

// A standard library that the patches do not know is an error that names the file and the text.
func TestWriteRejectsAnotherLibrary(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"gone": "package sync\n", "twice": strings.Repeat("func throw(string)\n", 2)} {
		_, err := patch{"sync/runtime.go", []replacement{{"func throw(string)\n", ""}}}.apply(text)
		require.ErrorContains(t, err, `sync/runtime.go: "func throw(string)\n" stands there`, name)
	}
	_, err := write(t.TempDir(), t.TempDir())
	require.ErrorContains(t, err, "runtime/rand.go")
}
