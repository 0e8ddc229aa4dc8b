package children

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

func TestChildObject(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	template := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	object, err := Complete(k, owner, kind.Child{Name: "config", Template: template}, true)
	require.NoError(t, err)
	require.Equal(t, "a-config", object.GetName())
	require.Equal(t, "default", object.GetNamespace())
	require.Equal(t, map[string]string{"a": "b", LabelManagedBy: ManagedBy, LabelOwnerUID: "1", LabelChild: "config"}, object.GetLabels())
	require.True(t, metav1.IsControlledBy(object, owner))
	require.True(t, IsManaged(object, object))
	require.True(t, IsInSync(object, object, NewNormalized()))
	require.Equal(t, map[string]any{"labels": map[string]any{"a": "b"}}, template["metadata"], "the template is not changed")

	template["metadata"] = map[string]any{"namespace": "kube-system"}
	_, err = Complete(k, owner, kind.Child{Name: "config", Template: template}, true)
	require.EqualError(t, err, `metadata.namespace: Invalid value: "kube-system": must be the namespace of its object, "default"`)
}

// An object that nothing controls is adopted by its label with the UID, or by its annotation with the name if it has a
// label of a child as well: someone who removes both labels releases it.
func TestMarksThatAreEnoughForAdoption(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	named := map[string]string{AnnotationOwner: OwnerPrefix(k) + "a"}
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		adopted             bool
	}{
		"the UID alone":                       {map[string]string{LabelOwnerUID: "1"}, nil, true},
		"another UID alone":                   {map[string]string{LabelOwnerUID: "2"}, nil, false},
		"the name alone":                      {nil, named, false},
		"the name, and who manages it":        {map[string]string{LabelManagedBy: ManagedBy}, named, true},
		"the name, and who else manages it":   {map[string]string{LabelManagedBy: "Helm"}, named, false},
		"the name, and the UID of another":    {map[string]string{LabelOwnerUID: "2"}, named, true},
		"another name, and who manages it":    {map[string]string{LabelManagedBy: ManagedBy}, map[string]string{AnnotationOwner: OwnerPrefix(k) + "b"}, false},
		"the name, and the name of the child": {map[string]string{LabelChild: "pod"}, named, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
			object.SetNamespace("default")
			object.SetName("a-pod")
			object.SetLabels(test.labels)
			object.SetAnnotations(test.annotations)
			require.Equal(t, test.adopted, IsChildOf(object, owner, k))
		})
	}
}

// A child of a cluster-scoped object is where its template says, and a copy of it elsewhere is none.
func TestChildObjectElsewhere(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	owner.SetNamespace("")
	wanted := func(namespace any) kind.Child {
		template := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}
		if namespace != nil {
			template["metadata"].(map[string]any)["namespace"] = namespace
		}
		return kind.Child{Name: "config", Template: template}
	}
	object, err := Complete(k, owner, wanted("team-a"), true)
	require.NoError(t, err)
	require.Equal(t, "team-a", object.GetNamespace())
	require.True(t, metav1.IsControlledBy(object, owner))
	require.Equal(t, "ConfigMap/c@team-a/config", object.GetAnnotations()[AnnotationCreatedAs])
	require.True(t, IsChildOf(object, owner, k))
	require.Equal(t, "team-a/c", Called(object, owner))
	require.False(t, IsOwnedBy(object, owner), "anyone could have written it")
	owner.Object["status"] = map[string]any{"childInventory": map[string]any{"elsewhere": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "team-a"},
	}}}
	require.True(t, IsOwnedBy(object, owner))
	copied := object.DeepCopy()
	copied.SetNamespace("team-b")
	require.True(t, IsCopy(copied))

	_, err = Complete(k, owner, wanted(nil), true)
	require.EqualError(t, err, "metadata.namespace: Required value: a ConfigMap is namespaced, and its object is not")
	_, err = Complete(k, owner, wanted(int64(1)), true)
	require.EqualError(t, err, "metadata.namespace: Invalid value: 1: must be a name")
	_, err = Complete(k, owner, wanted("team-a"), false)
	require.EqualError(t, err, `metadata.namespace: Invalid value: "team-a": a ConfigMap has no namespace`)
	object, err = Complete(k, owner, wanted(nil), false)
	require.NoError(t, err)
	require.Equal(t, "ConfigMap/c/config", object.GetAnnotations()[AnnotationCreatedAs])
}
