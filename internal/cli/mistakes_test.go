package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// TestMistakes has fescue vet --kinds check kinds with one beginner's mistake each. out/vet is
// what it prints. A mistake is found if a line of it is about the line that ends in "// mistake". The
// command would try each folder in a process of its own first, which TestOfflineScripts has it do.
func TestMistakes(t *testing.T) {
	t.Parallel()
	var all, found atomic.Int32
	t.Run("all", func(t *testing.T) {
		corpus.Run(t, "testdata/mistakes", func(t *testing.T, inputs *txtar.Archive) []txtar.File {
			dir := corpus.Unpack(t, inputs)
			lines := strings.Split(string(inputs.Files[0].Data), "\n")
			wrong := slices.IndexFunc(lines, func(line string) bool { return strings.HasSuffix(line, "// mistake") })
			require.NotEqual(t, -1, wrong, "no line ends in // mistake")
			catalog, err := load.Folders(false, nil, load.Folder{Dir: dir})
			require.NoError(t, err)
			v := newVetter(catalog)
			v.advise(catalog.Added())
			var out, printed strings.Builder
			require.NoError(t, v.report.print(&out, "text"))
			isFound := false
			for line := range strings.Lines(strings.ReplaceAll(out.String(), dir+"/", "")) {
				if !strings.Contains(line, "advice: no upper limit") {
					printed.WriteString(line)
					isFound = isFound || strings.HasPrefix(line, fmt.Sprintf("kind.cue:%d:", wrong+1))
				}
			}
			all.Add(1)
			if isFound {
				found.Add(1)
			} else {
				t.Logf("not found: line %d", wrong+1)
			}
			return []txtar.File{{Name: "out/vet", Data: []byte(printed.String())}}
		})
	})
	t.Logf("%d of %d mistakes are found", found.Load(), all.Load())
	if int(all.Load()) < len(corpus.Archives(t, "testdata/mistakes")) {
		return // -run selects some
	}
	require.Equal(t, all.Load(), found.Load(), "each is to be found")
}
