package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tests that docs/security.md names exist.
func TestAttacksHaveTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "security.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)\\| `([a-z0-9/]+)` (Test[A-Za-z, ]+) \\|$").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		requireTests(t, filepath.Join("..", row[1]), regexp.MustCompile(`Test\w+`).FindAllString(row[2], -1))
	}
}

// requireTests requires that the test files of a folder have tests of these names.
func requireTests(t *testing.T, dir string, names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	var source []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		source = append(source, text...)
	}
	for _, name := range names {
		require.Contains(t, string(source), "func "+name+"(", dir)
	}
}
