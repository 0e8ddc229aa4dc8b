package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// clusterScoped are the types of testdata/updates that have no namespace.
var clusterScoped = []string{"StorageClass", "PriorityClass", "IngressClass", "RuntimeClass"}

// The API server rejects the updates of built-in types that a scenario rejects, for the same fields.
func TestAPIServerAgreesOnBuiltInUpdates(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for _, u := range corpus.Updates(t) {
		object := &unstructured.Unstructured{Object: u.Object}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		client := c.objects(resource)
		if slices.Contains(clusterScoped, object.GetKind()) {
			client = c.client.Resource(resource)
		}
		t.Run(fmt.Sprint(object.GetKind(), " ", object.GetName()), func(t *testing.T) {
			_, err := client.Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() { deleteNow(t, client, object.GetName()) })
			_, err = client.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(jsonText(u.Patch)),
				metav1.PatchOptions{})
			if len(u.Fields) == 0 {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			var rejection apierrors.APIStatus
			require.ErrorAs(t, err, &rejection)
			for _, field := range u.Fields { // it names the whole template, the whole spec, or clusterIPs[0]
				require.True(t, slices.ContainsFunc(rejection.Status().Details.Causes, func(cause metav1.StatusCause) bool {
					return strings.HasPrefix(field, cause.Field) || strings.HasPrefix(cause.Field, field)
				}), "%s: %v", field, err)
			}
		})
	}
}

// deleteNow deletes an object, and does not wait for a Pod to end.
func deleteNow(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
}
