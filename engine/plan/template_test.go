package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

func TestChildObject(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	owner := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	template := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
	object, err := childObject(k, owner, kind.Child{Name: "config", Template: template})
	require.NoError(t, err)
	require.Equal(t, "a-config", object.GetName())
	require.Equal(t, "default", object.GetNamespace())
	require.Equal(t, map[string]string{"a": "b", labelManagedBy: managedBy, labelOwnerUID: "1", labelChild: "config"}, object.GetLabels())
	require.True(t, metav1.IsControlledBy(object, owner))
	require.True(t, IsManaged(object, object))
	require.True(t, isInSync(object, object, NewNormalized()))
	require.Equal(t, map[string]any{"labels": map[string]any{"a": "b"}}, template["metadata"], "the template is not changed")

	template["metadata"] = map[string]any{"namespace": "kube-system"}
	_, err = childObject(k, owner, kind.Child{Name: "config", Template: template})
	require.EqualError(t, err, `metadata.namespace: Invalid value: "kube-system": must be the namespace of its object, "default"`)
}
