package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What a POST has set is handed over to apply before a template is applied that may have dropped
// some of it, and only then.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	template := func(data map[string]any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{}, "data": data}
	}
	stored := func(t *testing.T, data map[string]any) *unstructured.Unstructured {
		t.Helper()
		hash, err := hashOf(template(data))
		require.NoError(t, err)
		return annotated(&unstructured.Unstructured{Object: template(data)}, annotationTemplate, hash.String())
	}
	before := map[string]any{"a": "1", "b": map[string]any{"c": int64(1)}, "list": []any{map[string]any{"name": "x", "value": "1"}}}
	for name, tc := range map[string]struct {
		after     map[string]any
		takesOver bool
	}{
		"the same":         {before, false},
		"another value":    {map[string]any{"a": "2", "b": map[string]any{"c": int64(2)}, "list": before["list"]}, false},
		"a field is gone":  {map[string]any{"a": "1", "b": map[string]any{}, "list": before["list"]}, true},
		"a field is new":   {map[string]any{"a": "1", "b": map[string]any{"c": int64(1), "d": "x"}, "list": before["list"]}, true},
		"an item is gone":  {map[string]any{"a": "1", "b": before["b"], "list": []any{}}, true},
		"an item is other": {map[string]any{"a": "1", "b": before["b"], "list": []any{map[string]any{"name": "y", "value": "1"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live, wanted := stored(t, before), stored(t, tc.after)
			applied, takesOver := applicable(live, wanted)
			require.Equal(t, tc.takesOver, takesOver)
			require.Equal(t, wanted.Object["data"], applied.Object["data"])
			require.Equal(t, name == "the same", sameTemplate(live, applied))

			// What is applied then is not handed over again, and in sync with itself.
			again, takesOver := applicable(applied, wanted)
			require.False(t, takesOver)
			require.Equal(t, applied.Object, again.Object)
			next, takesOver := applicable(applied, stored(t, map[string]any{"a": "3"}))
			require.Equal(t, !tc.takesOver, takesOver)
			require.NotContains(t, next.GetAnnotations()[annotationTemplate], "-")
		})
	}

	live := annotated(stored(t, before), annotationTemplate, "theirs")
	_, takesOver := applicable(live, stored(t, before))
	require.True(t, takesOver, "others have changed what was recorded")
}
