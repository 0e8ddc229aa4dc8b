package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// docs/reference/errors.md has each check of vet, with its cause and how to mend it.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, group := range mistake.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\nMore on these: [%s](../%s).\n", group.Title, filepath.Base(group.Page), group.Page)
		require.FileExists(t, filepath.Join(repository, "docs", group.Page))
		for _, e := range group.Explanations {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n\n%s\n", e.Check, e.Cause, e.Fix)
			if e.Before != "" {
				fmt.Fprintf(&b, "\nBefore:\n\n```\n%s\n```\n\nAfter:\n\n```\n%s\n```\n", e.Before, e.After)
			}
		}
	}
	page := filepath.Join(repository, "docs", "reference", "errors.md")
	corpus.GoldenRest(t, page, "<!-- Generated from cue/kind/mistake: go test ./internal/cli -run TestErrorsPage -update -->", b.String())
}

// Everything that vet finds in testdata/mistakes comes from a check that is explained, and each explained check is shown by a
// mistake, or by a script of testdata/offline: what depends on objects, and on the limits of loading.
func TestChecksAreShown(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\\?\[([a-z0-9]+(?:-[a-z0-9]+)+)\\?\]\$?'?$`)
	shown := make(map[string]bool)
	for _, folder := range []string{"testdata/mistakes", "testdata/offline"} {
		for _, file := range corpus.Archives(t, folder) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for line := range strings.Lines(string(text)) {
				found := name.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
				if found != nil {
					shown[found[1]] = true
				}
				if folder == "testdata/mistakes" && strings.HasPrefix(line, ">") {
					require.NotNil(t, found, "the finding of a check: %s", line)
					require.NotEmpty(t, explainCheck(found[1]), found[1])
				}
			}
		}
	}
	for _, e := range mistake.All() {
		assert.True(t, shown[string(e.Check)], "a mistake that shows %s", e.Check)
		require.NotEmpty(t, e.Cause+e.Fix, e.Check)
	}
}
