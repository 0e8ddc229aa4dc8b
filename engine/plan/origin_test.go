package plan

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A mark that is missing decides nothing, and one that names something else makes an object a copy.
func TestMarksOfChildren(t *testing.T) {
	t.Parallel()
	const owner = "1"
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
				object.SetLabels(map[string]string{labelChild: test.child})
			}
			if test.record != "" {
				object.SetAnnotations(map[string]string{annotationCreatedAs: test.record})
			}
			object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "far.example.com/v1", Kind: "Far", Name: "a", UID: "1", Controller: new(true)}})
			if test.reference != owner {
				object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "far.example.com/v1", Kind: "Far", Name: "b", UID: "2", Controller: new(true)}})
			}
			f := newFar(t)
			is := Live(configs, object).isOriginal() && IsOwnedBy(object, f.owner)
			require.Equal(t, test.isChild, is)
		})
	}
}

// The name of a child may come from the object, and be anything.
func TestNamesOfChildren(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	for _, name := range []string{"config", "a/b", "a/Orphan", "a@b/c", "50%", "50%2F", "", "-", strings.Repeat("x", 64), "Käse"} {
		for _, o := range []origin{{child: name}, {child: name, phase: "P"}, {child: name, phase: "P", outlives: true}, {child: name, outlives: true}} {
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "default"}}}
			o.mark(f.kind, f.owner, object)
			require.Empty(t, validation.IsValidLabelValue(Label(object, labelChild)), name)
			is, isOriginal := originOf(object)
			require.True(t, isOriginal)
			require.Equal(t, o, is)
			require.Equal(t, name, ChildName(object))
		}
	}
}
