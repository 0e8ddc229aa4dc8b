package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/internal/corpus"
)

// TestMistakes has fescue vet --kinds check kinds with one beginner's mistake each. out/vet is
// what it prints. A mistake is found if a line of it is about the line that ends in "// mistake".
func TestMistakes(t *testing.T) {
	if testing.Short() {
		t.Skip("each starts processes that load kinds")
	}
	t.Parallel()
	var all, found atomic.Int32
	t.Run("all", func(t *testing.T) {
		corpus.Run(t, "testdata/mistakes", func(t *testing.T, inputs *txtar.Archive) []txtar.File {
			dir := corpus.Unpack(t, inputs)
			lines := strings.Split(string(inputs.Files[0].Data), "\n")
			wrong := slices.IndexFunc(lines, func(line string) bool { return strings.HasSuffix(line, "// mistake") })
			require.NotEqual(t, -1, wrong, "no line ends in // mistake")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			path, err := exec.LookPath("fescue")
			require.NoError(t, err)
			vet := exec.CommandContext(ctx, path, "vet", "--shipped-kinds=false", "--kinds", ".")
			vet.Dir, vet.Stderr = dir, os.Stderr
			out, _ := vet.Output()
			require.NoError(t, ctx.Err(), "the program does not end")
			var printed strings.Builder
			isFound := false
			for line := range strings.Lines(string(out)) {
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
