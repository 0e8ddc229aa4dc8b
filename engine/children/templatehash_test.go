package children

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Fields are handed over to apply before a template is applied that may have dropped some, or by which others are
// defaulted, and only then.
func TestTakesOver(t *testing.T) {
	t.Parallel()
	stored := func(t *testing.T, fields map[string]any) *unstructured.Unstructured {
		t.Helper()
		template := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{}, "data": fields}}
		if spec, ok := fields["spec"]; ok {
			template.Object["spec"] = spec
		}
		hash, err := hashOf(template.Object)
		require.NoError(t, err)
		template.SetAnnotations(map[string]string{AnnotationTemplate: hash})
		return template
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
			require.Equal(t, tc.takesOver, TakesOver(live, wanted))
			require.Equal(t, name == "the same", HasTemplateOf(live, wanted))
		})
	}

	type fields = map[string]any
	spec := func(value string) fields { return fields{"spec": fields{"strategy": fields{"type": value}}} }
	require.True(t, TakesOver(stored(t, spec("RollingUpdate")), stored(t, spec("Recreate"))), "a default may follow from any value of spec")
	require.False(t, TakesOver(stored(t, spec("Recreate")), stored(t, spec("Recreate"))))

	live := stored(t, before)
	for _, changed := range []string{"theirs", TemplateHash(live)} {
		live.SetAnnotations(map[string]string{AnnotationTemplate: changed})
		require.True(t, TakesOver(live, stored(t, before)), "others have changed what was recorded")
		require.Equal(t, changed != "theirs", IsInSync(live, stored(t, before), NewNormalized()), "an earlier version has written it")
	}
}
