package children

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// What a decision, a comparison or a report reads of a child makes a difference, and nothing else.
func TestIsSameChild(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind  string
		child map[string]any
		set   map[string]any // what differs, by its path
		same  bool
	}{
		"nothing":                     {kind: "At", same: true},
		"its version":                 {kind: "At", set: map[string]any{"metadata.resourceVersion": "2"}, same: true},
		"its node":                    {kind: "At", set: map[string]any{"spec.nodeName": "a"}, same: true},
		"its address":                 {kind: "At", set: map[string]any{"status.podIP": "10.0.0.1"}, same: true},
		"its phase, which is read":    {kind: "At", set: map[string]any{"status.phase": "Failed"}},
		"a label":                     {kind: "At", set: map[string]any{"metadata.labels": map[string]any{"a": "b"}}},
		"a finalizer":                 {kind: "At", set: map[string]any{"metadata.finalizers": []any{"a/b"}}},
		"its deletion":                {kind: "At", set: map[string]any{"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"}},
		"another of its name":         {kind: "At", set: map[string]any{"metadata.uid": "2"}},
		"data, which is corrected":    {kind: "Watcher", set: map[string]any{"data": map[string]any{"a": "c"}}},
		"the version of a ConfigMap":  {kind: "Watcher", set: map[string]any{"metadata.resourceVersion": "2"}, same: true},
		"the managers of a ConfigMap": {kind: "Watcher", set: map[string]any{"metadata.managedFields": []any{}}, same: true},
		"the readiness of a member":   {kind: "Customcluster", set: map[string]any{"status.conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}},
		"the address of a member":     {kind: "Customcluster", set: map[string]any{"status.podIP": "10.0.0.1"}, same: true},
		"the end of a member":         {kind: "Customcluster", set: map[string]any{"status.phase": "Succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := enginetest.Shipped(t, tc.kind)
			child, childName := "Pod", map[string]string{"At": "pod", "Customcluster": "pods", "Watcher": "config"}[tc.kind]
			if tc.kind == "Watcher" {
				child = "ConfigMap"
			}
			before := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": child, "metadata": map[string]any{"name": "a", "uid": "1", "resourceVersion": "1", "generation": int64(1), "labels": map[string]any{LabelChild: childName}},
				"spec": map[string]any{}, "status": map[string]any{"phase": "Running"}, "data": map[string]any{"a": "b"},
			}}
			after := before.DeepCopy()
			for path, value := range tc.set {
				require.NoError(t, unstructured.SetNestedField(after.Object, value, strings.Split(path, ".")...))
			}
			require.Equal(t, tc.same, IsSame(k, before, after))
		})
	}
}
