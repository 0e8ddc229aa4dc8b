package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind/types"
	"github.com/fescue-dev/fescue/internal/corpus"
)

// requireNoMistakes fails for each mistake that is found in valid kinds.
func requireNoMistakes(t *testing.T, kinds []*Kind) {
	t.Helper()
	known, err := types.New()
	require.NoError(t, err)
	for _, k := range kinds {
		for _, mistake := range k.checkBehaviour(known) {
			t.Errorf("%v", mistake)
		}
		for _, a := range k.BehaviourAdvice() {
			t.Logf("%s:%d: %s", a.Position.File, a.Position.Line, a.Text)
		}
	}
}

// In kinds that run, no mistake is found: in the shipped ones, those of the docs, and the corpus.
func TestValidKindsHaveNoMistakes(t *testing.T) {
	t.Parallel()
	t.Run("shipped", func(t *testing.T) {
		t.Parallel()
		kinds, err := Shipped()
		require.NoError(t, err)
		requireNoMistakes(t, kinds)
	})
	for _, file := range []string{"../../README.md", "../../docs/kinds.md", "../../docs/children.md", "../../docs/sidecars.md"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, block := range strings.Split(string(text), "```cue\n")[1:] {
				block, _, _ = strings.Cut(block, "```")
				if !strings.HasPrefix(block, "package ") {
					continue
				}
				kinds, err := kindsOf(t, block)
				require.NoError(t, err)
				requireNoMistakes(t, kinds)
			}
		})
	}
	archives, err := filepath.Glob("../../testdata/kinds/*.txtar")
	require.NoError(t, err)
	for _, file := range archives {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			require.NoError(t, err)
			kinds, _ := FromDir(corpus.Unpack(t, archive))
			requireNoMistakes(t, kinds)
		})
	}
	folders, err := filepath.Glob("../../testdata/sources/*")
	require.NoError(t, err)
	for _, dir := range folders {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			kinds, err := FromDir(dir)
			require.NoError(t, err)
			requireNoMistakes(t, kinds)
		})
	}
}
