package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kindsOfDocuments are the folders of testdata/docs with the kinds that documents show, and those documents.
var kindsOfDocuments = map[string]string{
	"handbook": "docs/concepts.md",
	"web":      "docs/coming-from/*.md",
}

// TestKindsOfDocuments runs the scenarios of the kinds that documents show, and checks their objects, as a user would.
func TestKindsOfDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("each starts processes that load kinds")
	}
	t.Parallel()
	for name := range kindsOfDocuments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireFolder(t, filepath.Join(repository, "testdata", "docs", name))
		})
	}
}

// shown matches a block of CUE of Fescue in a document. One of another tool has the marker "there".
var shown = regexp.MustCompile("(?s)(<!-- there -->\n\n)?```cue\n(.*?)```")

// TestDocumentsShowTheirKinds checks that all lines of each block of CUE in a document are in the kind that it shows, in the
// same order.
func TestDocumentsShowTheirKinds(t *testing.T) {
	t.Parallel()
	for name, pattern := range kindsOfDocuments {
		kind, err := os.ReadFile(filepath.Join(repository, "testdata", "docs", name, "kind.cue"))
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(repository, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			document, err := os.ReadFile(file)
			require.NoError(t, err)
			blocks := 0
			for _, m := range shown.FindAllStringSubmatch(string(document), -1) {
				if m[1] != "" {
					continue
				}
				blocks++
				require.Empty(t, missing(linesOf(string(kind)), linesOf(m[2])), "%s: lines that %s/kind.cue has not, or not in this order", file, name)
			}
			require.Positive(t, blocks, file)
		}
	}
}

// missing returns the lines of a block from the first one on that a text has not after the former ones.
func missing(text, block []string) []string {
	for i, line := range block {
		at := slices.Index(text, line)
		if at < 0 {
			return block[i:]
		}
		text = text[at+1:]
	}
	return nil
}

// linesOf returns the lines of a text without indentation, and without those that are empty.
func linesOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
