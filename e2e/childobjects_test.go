package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// TestObjectsOfChildren applies the objects of which TestValidateChild in cue/kind/load says whether the API server
// takes them.
func TestObjectsOfChildren(t *testing.T) {
	t.Parallel()
	c := newClients(t, testcluster.Namespace(t))
	options := metav1.ApplyOptions{FieldManager: "test", DryRun: dryRun.DryRun}
	for file, isRejected := range map[string]bool{"rejected.yaml": true, "accepted.yaml": false} {
		for _, object := range corpus.Objects(t, "testdata/children/"+file) {
			u := &unstructured.Unstructured{Object: object}
			t.Run(file+"/"+u.GetKind()+"/"+u.GetName(), func(t *testing.T) {
				t.Parallel()
				resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
				client := c.objects(resource)
				if u.GetKind() == "ClusterRoleBinding" {
					client = c.client.Resource(resource)
				}
				_, err := client.Apply(t.Context(), u.GetName(), u, options)
				if !isRejected {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err), "%v", err)
			})
		}
	}
}
