package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/manifest"
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
		path := corpus.Path(t, "testdata/children/"+file)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		objects, errs := manifest.Read(path, text)
		require.Empty(t, errs)
		for _, object := range objects {
			u := &unstructured.Unstructured{Object: object.Content}
			t.Run(file+"/"+u.GetKind()+"/"+u.GetName(), func(t *testing.T) {
				t.Parallel()
				resource, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
				_, err := c.objects(resource).Apply(t.Context(), u.GetName(), u, options)
				if !isRejected {
					require.NoError(t, err)
					return
				}
				require.Error(t, err)
				require.True(t, apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err), "%v", err)
			})
		}
	}
}
