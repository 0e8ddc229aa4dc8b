package proof

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	k := shippedKind(t, "At")
	require.Zero(t, k.Counts(), "loading a kind counts nothing")
	_, err := k.Decide(k.NewBudget(), k.Default(at), nil)
	require.NoError(t, err)
	_, err = k.Decide(k.NewBudget(), map[string]any{"status": map[string]any{"phase": "OTHER"}}, nil)
	require.Error(t, err)
	require.Equal(t, kind.Counts{Decisions: 1, Failures: 1}, k.Counts())
}
