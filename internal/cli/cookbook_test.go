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

// maxRecipeLines is how long the kind of a recipe may be, with blank lines: it has to fit on one screen.
const maxRecipeLines = 59

// TestCookbook runs the scenarios of each recipe, checks its object and its length, and that its page shows both files
// as they are. The index has every recipe and nothing else.
func TestCookbook(t *testing.T) {
	if testing.Short() {
		t.Skip("each starts processes that load kinds")
	}
	t.Parallel()
	folder := filepath.Join(repository, "docs", "cookbook")
	index, err := os.ReadFile(filepath.Join(folder, "README.md"))
	require.NoError(t, err)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var recipes, listed []string
	for _, entry := range entries {
		if entry.IsDir() {
			recipes = append(recipes, entry.Name())
		}
	}
	for _, link := range regexp.MustCompile(`(?m)^- \[.+\]\((.+)/README\.md\)$`).FindAllStringSubmatch(string(index), -1) {
		listed = append(listed, link[1])
	}
	slices.Sort(listed)
	require.Equal(t, recipes, listed, "the index in docs/cookbook/README.md")
	for _, name := range recipes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(folder, name)
			requireFolder(t, dir)
			kind, sample, page := readRecipe(t, dir, "kind.cue"), readRecipe(t, dir, "sample.yaml"), readRecipe(t, dir, "README.md")
			require.LessOrEqual(t, strings.Count(kind, "\n"), maxRecipeLines)
			require.Contains(t, page, "```cue\n"+kind+"```\n")
			require.Contains(t, page, "```yaml\n"+sample+"```\n")
			require.Contains(t, readRecipe(t, dir, name+".txtar"), "\n-- sample.yaml --\n"+strings.SplitN(sample, "---\n", 2)[0])
			title := regexp.MustCompile(`^# (.+)\n`).FindStringSubmatch(page)
			require.NotNil(t, title)
			require.Contains(t, string(index), "- ["+title[1]+"]("+name+"/README.md)\n")
			if regexp.MustCompile(`image"?:\s`).MatchString(kind) {
				for _, rule := range []string{"runAsNonRoot: true", `seccompProfile: type: "RuntimeDefault"`, "allowPrivilegeEscalation: false", `capabilities: drop: ["ALL"]`} {
					require.Contains(t, strings.Join(strings.Fields(kind), " "), rule)
				}
			}
		})
	}
}

func readRecipe(t *testing.T, dir, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, file))
	require.NoError(t, err)
	return string(text)
}
