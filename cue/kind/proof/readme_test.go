package proof

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"
)

// The kind that the README shows in full is one that loads.
func TestKindInReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```cue\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 1)
	kinds, err := draftsOf(t, string(blocks[0][1]))
	require.NoError(t, err)
	require.Len(t, kinds, 1)
	require.Equal(t, "At", kinds[0].GroupVersionKind.Kind)
}

var (
	// docBlock matches a block of a document: the marker above it, and the text between fences or indented.
	docBlock = regexp.MustCompile("(?m)(?:^<!-- ([a-z]+): ([a-z]+) -->\n\n?)?(?:^```(cue|yaml)\n((?s:.*?))^```|\n((?:(?:    .*|\t.*)?\n)*(?:    .*|\t.*)\n))")
	// startsField matches a line that begins a field in CUE or YAML.
	startsField = regexp.MustCompile(`^(- \{|[\w#"]+[!?]?: )`)
	// startsYAML matches how each YAML block begins, unlike CUE.
	startsYAML = regexp.MustCompile(`^(- \{|apiVersion: |metadata:)`)
	omissions  = strings.NewReplacer(", …}", "}", ", …]", "]", "{…}", "object.spec.rest", "[…]", "object.spec.rest", "…", "object.spec.rest")
)

// Each block of CUE in the documents loads, in its frame if it is a part of a kind, and each of YAML can be read. Blocks
// of commands and of what they print are left out: they do not begin with a field, or are marked as output.
func TestBlocksInDocuments(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("../../../testdata/docs/frames.txtar")
	require.NoError(t, err)
	frames, used := make(map[string]string), make(map[string]bool)
	for _, f := range archive.Files {
		frames[f.Name] = string(f.Data)
	}
	files, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	operating, err := filepath.Glob("../../../docs/operate/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, operating)
	for _, file := range append(append(files, operating...), "../../../README.md") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range docBlock.FindAllStringSubmatch(string(text), -1) {
			marker, name, language, block := m[1], m[2], m[3], m[4]+regexp.MustCompile(`(?m)^    `).ReplaceAllString(m[5], "")
			block = strings.TrimLeft(block, "\n")
			switch {
			case marker == "frame":
				require.Contains(t, frames, name, "%s", file)
				used[name] = true
				_, err := draftsOf(t, strings.Replace(frames[name], "SNIPPET", omissions.Replace(block), 1))
				require.NoError(t, err, "%s: in the frame %s:\n%s", file, name, block)
			case marker != "" || language == "" && !startsField.MatchString(block):
			case language == "cue":
				_, err := draftsOf(t, block)
				require.NoError(t, err, "%s:\n%s", file, block)
			case startsYAML.MatchString(block):
				var value any
				require.NoError(t, yaml.UnmarshalStrict([]byte(block), &value), "%s:\n%s", file, block)
			default:
				require.Fail(t, "a block has no marker", "%s: write <!-- frame: NAME --> above it, of testdata/docs/frames.txtar:\n%s", file, block)
			}
		}
	}
	for name := range frames {
		require.True(t, used[name], "no block is in the frame %s", name)
	}
}
