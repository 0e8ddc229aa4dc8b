package kind

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kind that the README shows in full is one that loads.
func TestKindInReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```cue\n(.*?)```").FindAllSubmatch(readme, -1)
	require.Len(t, blocks, 1)
	kinds, err := kindsOf(t, string(blocks[0][1]))
	require.NoError(t, err)
	require.Len(t, kinds, 1)
	require.Equal(t, "At", kinds[0].GroupVersionKind.Kind)
}
