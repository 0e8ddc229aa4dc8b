package children

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// A mark that is missing decides nothing, and one that names something else makes an object a copy.
func TestMarksOfChildren(t *testing.T) {
	t.Parallel()
	const owner = "1"
	of := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	for name, test := range map[string]struct {
		namespace                string
		reference, child, record string // empty: it has none
		isChild                  bool
	}{
		"all marks":                                {"default", owner, "config", "ConfigMap/c/config", true},
		"no record":                                {"default", owner, "config", "", true},
		"no label":                                 {"default", owner, "", "ConfigMap/c/config", true},
		"a reference alone":                        {"default", owner, "", "", false},
		"a record for another name":                {"default", owner, "config", "ConfigMap/d/config", false},
		"a record for another type":                {"default", owner, "config", "Secret/c/config", false},
		"a record for another place":               {"default", owner, "config", "ConfigMap/c@team-a/config", false},
		"another owner":                            {"default", "2", "config", "ConfigMap/c/config", false},
		"elsewhere, all that can be forged":        {"team-a", owner, "config", "ConfigMap/c@team-a/config", false},
		"elsewhere, a reference and a label alone": {"team-a", owner, "config", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": test.namespace}}}
			if test.child != "" {
				object.SetLabels(map[string]string{LabelChild: test.child})
			}
			if test.record != "" {
				object.SetAnnotations(map[string]string{AnnotationCreatedAs: test.record})
			}
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cnat.fescue.dev/v1alpha1", Kind: "At", Name: "a", UID: "1", Controller: new(true)}})
			if test.reference != owner {
				object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cnat.fescue.dev/v1alpha1", Kind: "At", Name: "b", UID: "2", Controller: new(true)}})
			}
			is := Of(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, object).IsOriginal() && IsOwnedBy(object, of)
			require.Equal(t, test.isChild, is)
		})
	}
}

// The name of a child may come from the object, and be anything.
func TestNamesOfChildren(t *testing.T) {
	t.Parallel()
	k, owner := enginetest.Shipped(t, "At"), &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	for _, name := range []string{"config", "a/b", "a/Orphan", "a@b/c", "50%", "50%2F", "", "-", strings.Repeat("x", 64), "Käse"} {
		for _, o := range []Origin{{Child: name}, {Child: name, Phase: "P"}, {Child: name, Phase: "P", Outlives: true}, {Child: name, Outlives: true}} {
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "default"}}}
			o.Mark(k, owner, object)
			require.Empty(t, validation.IsValidLabelValue(Label(object, LabelChild)), name)
			is, isOriginal := OriginOf(object)
			require.True(t, isOriginal)
			require.Equal(t, o, is)
			require.Equal(t, name, NameInKind(object))
		}
	}
}
