package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// Two files that call each other are a knot, also by a method or a field; one that is only called is in none.
func TestKnot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/a\n\ngo 1.26\n",
		"a.go":      "package a\n\ntype A struct{ b B }\n\nfunc (a A) call() { a.b.back() }\n",
		"b.go":      "package a\n\ntype B struct{ n int }\n\nfunc (b B) back() { b.n = leaf; A{}.call() }\n",
		"leaf.go":   "package a\n\nconst leaf = 1\n",
		"a_test.go": "package a\n\nvar _ = leaf\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	loaded, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.LoadSyntax}, "./...")
	require.NoError(t, err)
	require.Len(t, loaded, 1)
	p := newPackage(loaded[0])
	require.Equal(t, []string{"a.go", "b.go"}, p.knot())
	require.Equal(t, 3, p.arrows())
	require.Contains(t, p.methods, methodSet{"example.com/a.B", 1, 1})
	failures, err := run(dir, []string{"./..."})
	require.NoError(t, err)
	require.Empty(t, failures)
}
