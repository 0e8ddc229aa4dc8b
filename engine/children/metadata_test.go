package children

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// One entry of the metadata is read as GetLabels and GetAnnotations do, without a copy of the others.
func TestMetadataEntries(t *testing.T) {
	object := func(metadata any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
	}
	full := object(map[string]any{"labels": map[string]any{"a": "1", "empty": ""}, "annotations": map[string]any{"b": "2"}})
	require.Zero(t, testing.AllocsPerRun(10, func() { Label(full, "a") }))
	for name, o := range map[string]*unstructured.Unstructured{
		"full": full, "bare": object(map[string]any{}), "none": {Object: map[string]any{}},
		"null": object(map[string]any{"labels": nil, "annotations": nil}), "malformed": object(map[string]any{"labels": "a"}),
	} {
		for _, key := range []string{"a", "b", "empty", "missing"} {
			require.Equal(t, o.GetLabels()[key], Label(o, key), name)
			require.Equal(t, o.GetAnnotations()[key], Annotation(o, key), name)
			_, want := o.GetLabels()[key]
			_, found := entry(o, "labels", key)
			require.Equal(t, want, found, name)
		}
	}
}
