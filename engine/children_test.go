package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

func TestContains(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	for name, tc := range map[string]struct {
		is, wanted any
		want       bool
	}{
		"equal":               {object{"a": int64(1)}, object{"a": int64(1)}, true},
		"defaulted by server": {object{"a": int64(1), "b": "x"}, object{"a": int64(1)}, true},
		"other value":         {object{"a": int64(2)}, object{"a": int64(1)}, false},
		"missing":             {object{}, object{"a": int64(1)}, false},
		"missing but empty":   {object{}, object{"a": object{}}, true},
		"nested":              {object{"a": list{object{"b": "x", "c": "y"}}}, object{"a": list{object{"b": "x"}}}, true},
		"longer list":         {object{"a": list{"x", "y"}}, object{"a": list{"x"}}, false},
		"empty list missing":  {object{}, object{"a": list{}}, true},
		"empty list emptied":  {object{"a": list{"x"}}, object{"a": list{}}, false},
		"other type":          {object{"a": "1"}, object{"a": object{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, contains(tc.is, tc.wanted))
		})
	}
}

func TestChildObject(t *testing.T) {
	t.Parallel()
	c := &controller{kind: shippedAt(t)}
	owner := &unstructured.Unstructured{Object: at("2020-01-01T00:00:00Z", "")}
	template := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	object, err := c.childObject(owner, kind.Child{Name: "config", Template: template})
	require.NoError(t, err)
	require.Equal(t, "a-config", object.GetName())
	require.Equal(t, "default", object.GetNamespace())
	require.Equal(t, map[string]string{"a": "b", labelManagedBy: managedBy, labelOwnerUID: "1", labelChild: "config"}, object.GetLabels())
	require.True(t, metav1.IsControlledBy(object, owner))
	require.True(t, isOurs(object, object))
	require.True(t, isCorrect(object, object))
	require.Equal(t, map[string]any{"labels": map[string]any{"a": "b"}}, template["metadata"], "the template is not changed")

	template["metadata"] = map[string]any{"namespace": "kube-system"}
	_, err = c.childObject(owner, kind.Child{Name: "config", Template: template})
	require.EqualError(t, err, `metadata.namespace: Invalid value: "kube-system": must be the namespace of its object, "default"`)
}
