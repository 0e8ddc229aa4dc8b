package parts

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var sets = map[string]*Set{
	"nothing":    Of(),
	"everything": Everything(),
	"metadata":   Of([]string{"metadata"}),
	"pod":        Of([]string{"metadata", "labels"}, []string{"status", "conditions", Each, "type"}, []string{"spec", "containers"}),
	"each":       Of([]string{"spec", Each, "name"}, []string{"spec", "containers", Each, "image"}, []string{Each, "a"}),
	"lengths":    {Fields: map[string]*Set{"spec": {Fields: map[string]*Set{"containers": {Elements: &Set{}}}}}},
}

func TestUnionAndCovers(t *testing.T) {
	t.Parallel()
	for _, a := range sets {
		require.True(t, a.Covers(a))
		require.True(t, a.Covers(nil))
		require.Same(t, a, a.Union(nil))
		for _, b := range sets {
			both := a.Union(b)
			require.True(t, both.Covers(a))
			require.True(t, both.Covers(b))
			if a.Covers(b) {
				require.True(t, a.Covers(both))
			}
		}
	}
	require.False(t, Of([]string{"a"}).Covers(Of([]string{"b"})))
	require.False(t, Of([]string{"a", "b"}).Covers(Of([]string{"a"})))
	require.False(t, Of([]string{"a", "b"}).Covers(Of([]string{"a", Each})))
	require.True(t, Of([]string{"a", Each}).Covers(Of([]string{"a", "b", "c"})))
	var none *Set
	require.False(t, none.Covers(Of()))
	require.Same(t, Everything(), none.Union(Everything()))
}

// A union has what either has, and what is in a value is in it again.
func TestIn(t *testing.T) {
	t.Parallel()
	pod := map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"x": "y"}, "a": int64(1)},
		"spec": map[string]any{"name": "n", "containers": []any{
			map[string]any{"image": "i", "name": "c", "a": nil}, map[string]any{}, "odd",
		}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}
	for name, want := range map[string]any{
		"nothing":    map[string]any{},
		"everything": pod,
		"metadata":   map[string]any{"metadata": pod["metadata"]},
		"pod": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"x": "y"}},
			"spec":     map[string]any{"containers": pod["spec"].(map[string]any)["containers"]},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready"}}},
		},
		"each": map[string]any{
			"metadata": map[string]any{"a": int64(1)},
			"spec": map[string]any{"name": "n", "containers": []any{
				map[string]any{"image": "i"}, map[string]any{}, "odd",
			}},
			"status": map[string]any{},
		},
		"lengths": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{}, map[string]any{}, "odd"}}},
	} {
		require.Equal(t, want, sets[name].In(pod), name)
		require.Equal(t, want, sets[name].In(want), name)
		require.Equal(t, want, sets[name].Union(sets[name]).Union(nil).In(pod), name)
	}
}
