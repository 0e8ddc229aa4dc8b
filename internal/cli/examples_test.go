package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExamples runs the scenarios of each example and checks its object, as its user would, and that
// the table of the examples has its lines.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("each starts processes that load kinds")
	}
	t.Parallel()
	folder := filepath.Join(repository, "examples")
	table, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	path, err := exec.LookPath("fescue")
	require.NoError(t, err)
	comments, examples := regexp.MustCompile(`//.*`), 0
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		examples++
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(folder, entry.Name())
			for _, args := range [][]string{
				{"test", "--shipped-kinds=false", dir},
				{"vet", "--shipped-kinds=false", "--kinds", dir, filepath.Join(dir, "sample.yaml")},
			} {
				out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			source, err := os.ReadFile(filepath.Join(dir, "kind.cue"))
			require.NoError(t, err)
			lines := 0
			for line := range strings.Lines(comments.ReplaceAllString(string(source), "")) {
				if strings.TrimSpace(line) != "" {
					lines++
				}
			}
			require.Regexp(t, `(?m)^\| \[`+entry.Name()+`\].* `+strconv.Itoa(lines)+` \|$`, string(table), "the table in examples/README.md")
			readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
			require.NoError(t, err)
			require.Contains(t, string(readme), entry.Name()+".txtar")
		})
	}
	require.Positive(t, examples)
}
