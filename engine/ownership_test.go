package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestUnowned(t *testing.T) {
	t.Parallel()
	type fields = map[string]any
	object := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fields{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": "d"}, "status": fields{"replicas": int64(1)},
			"spec": fields{
				"strategy": fields{"type": "RollingUpdate", "rollingUpdate": fields{"maxSurge": "25%"}},
				"containers": []any{
					fields{"name": "c", "args": []any{"x"}, "imagePullPolicy": "Always", "ports": []any{fields{"containerPort": int64(80), "protocol": "TCP"}}},
					fields{"name": "theirs", "imagePullPolicy": "Always"},
				},
				"tolerations": []any{fields{"key": "k"}},
			},
		}}
	}
	for name, tc := range map[string]struct {
		managed []string
		want    []string
	}{
		"nobody": {nil, []string{
			".spec", ".spec.containers", ".spec.strategy", ".spec.strategy.rollingUpdate", ".spec.strategy.rollingUpdate.maxSurge",
			".spec.strategy.type", ".spec.tolerations",
		}},
		"two managers": {[]string{
			`{"f:spec":{"f:strategy":{"f:type":{}},"f:tolerations":{}}}`,
			`{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:args":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}`,
		}, []string{
			`.spec.containers[name="c"].imagePullPolicy`, `.spec.containers[name="c"].ports[containerPort=80,protocol="TCP"].protocol`,
			".spec.strategy.rollingUpdate", ".spec.strategy.rollingUpdate.maxSurge",
		}},
		"a field as a whole": {[]string{`{"f:spec":{}}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := object()
			var entries []metav1.ManagedFieldsEntry
			for _, text := range tc.managed {
				entries = append(entries, metav1.ManagedFieldsEntry{Manager: "m", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text)})
			}
			live.SetManagedFields(entries)
			found, err := unowned(live)
			require.NoError(t, err)
			var paths []string
			for path := range found.All() {
				paths = append(paths, path.String())
			}
			slices.Sort(paths)
			require.Equal(t, tc.want, paths)
		})
	}
}
