package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/children"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	object := func(annotations, labels, data map[string]any, references ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"annotations": annotations, "labels": labels, "ownerReferences": references},
			"data":     data,
		}}
	}
	wanted := object(
		map[string]any{children.AnnotationOwner: "w", children.AnnotationTemplate: "1"}, map[string]any{children.LabelManagedBy: children.ManagedBy},
		map[string]any{"a": "1", "b": map[string]any{"c": []any{"2"}}, "d": "3", "empty": map[string]any{}},
		map[string]any{"uid": "owner"})
	live := object(
		map[string]any{children.AnnotationOwner: "other", children.AnnotationTemplate: "2"}, nil,
		map[string]any{"a": "1", "b": map[string]any{"c": []any{"3"}}, "e": "stays"})
	for verb, want := range map[Verb][][]string{
		Apply: {
			{"data", "b", "c"}, {"data", "d"},
			{"metadata", "annotations", children.AnnotationOwner}, {"metadata", "annotations", children.AnnotationTemplate}, {"metadata", "labels", children.LabelManagedBy},
		},
		Adopt: {{"metadata", "annotations", children.AnnotationOwner}, {"metadata", "labels", children.LabelManagedBy}},
	} {
		require.Equal(t, want, Step{Verb: verb, Wanted: wanted}.Differences(live), verb)
		require.Equal(t, "1", Step{Verb: verb, Wanted: wanted}.Template())
	}
	require.Equal(t, [][]string{{"metadata", "ownerReferences"}}, Step{Verb: Adopt, Wanted: wanted}.Differences(object(map[string]any{children.AnnotationOwner: "w"}, map[string]any{children.LabelManagedBy: children.ManagedBy}, nil)))
	require.Empty(t, Step{Verb: Apply, Wanted: wanted}.Differences(wanted))
	require.Empty(t, Step{Verb: Delete, Live: live}.Differences(live))
	require.Empty(t, Step{Verb: Delete, Live: live}.Template())
}
