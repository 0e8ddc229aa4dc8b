package kind

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/corpus"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	kinds, err := FromDir(corpus.Unpack(t, corpus.Read(t, "../../testdata/kinds/evaluated.txtar")))
	require.NoError(t, err)
	k := kinds[0]
	require.Zero(t, k.Counts(), "loading a kind counts nothing")
	object := func(spec string) map[string]any {
		return map[string]any{
			"apiVersion": "evaluated.example.com/v1", "kind": "Evaluated",
			"metadata": map[string]any{"name": "a"}, "spec": corpus.Object(t, []byte(spec)),
		}
	}
	require.Empty(t, k.Validate(object(`{names: []}`)))
	require.NotEmpty(t, k.Validate(object(`{names: [], letters: z}`)), "only the evaluator finds this")
	require.NotEmpty(t, k.Validate(object(`{names: [], plain: -1}`)), "this needs no evaluator")
	defaulted, err := k.Default(object(`{names: []}`))
	require.NoError(t, err)
	require.Equal(t, Counts{Fallbacks: 3}, k.Counts())
	_, err = k.Decide(defaulted, nil)
	require.NoError(t, err)
	_, err = k.Decide(map[string]any{"status": map[string]any{"phase": "OTHER"}}, nil)
	require.Error(t, err)
	require.Equal(t, Counts{Decisions: 1, Failures: 1, Fallbacks: 3}, k.Counts())
}
