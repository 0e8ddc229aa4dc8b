// Package enginetest has the kinds and objects that the tests of the engine and of its
// parts share.
package enginetest

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Shipped returns the shipped kind of a name.
func Shipped(tb testing.TB, name string) *kind.Kind {
	tb.Helper()
	kinds, err := kind.Shipped()
	require.NoError(tb, err)
	i := slices.IndexFunc(kinds, func(k *kind.Kind) bool { return k.GroupVersionKind.Kind == name })
	require.GreaterOrEqual(tb, i, 0)
	return kinds[i]
}

// Corpus loads the kind of an archive of testdata/kinds.
func Corpus(tb testing.TB, name string) *kind.Kind {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	archive, err := txtar.ParseFile(filepath.Join(filepath.Dir(here), "../../../testdata/kinds", name+".txtar"))
	require.NoError(tb, err)
	require.Equal(tb, "kind.cue", archive.Files[0].Name)
	return Kind(tb, string(archive.Files[0].Data))
}

// Kind loads a kind from its text.
func Kind(tb testing.TB, text string) *kind.Kind {
	tb.Helper()
	dir := tb.TempDir()
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "kind.cue"), []byte(text), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(tb, err)
	return kinds[0]
}

// At returns an At in a phase; it has no status if that is empty.
func At(schedule, phase string) map[string]any {
	object := map[string]any{
		"apiVersion": "cnat.fescue.dev/v1alpha1", "kind": "At",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "generation": int64(1)},
		"spec":     map[string]any{"schedule": schedule, "command": "echo"},
	}
	if phase != "" {
		object["status"] = map[string]any{"phase": phase}
	}
	return object
}
