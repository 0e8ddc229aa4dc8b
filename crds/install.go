package crds

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// fieldManager owns the fields of installed CRDs.
	fieldManager = "fescue-crds"
	// establishTimeout bounds the wait for the API server to serve a CRD, which
	// takes well under a second on an idle one.
	establishTimeout = 30 * time.Second
)

// Install creates or upgrades the CRDs of kinds by server-side apply and returns when
// the API server serves them all.
func Install(ctx context.Context, client dynamic.Interface, kinds []*kind.Kind) error {
	resource := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	for _, k := range kinds {
		object, err := Object(k, false)
		if err != nil {
			return err
		}
		if _, err := resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("install CRD %s: %w", object.GetName(), err)
		}
	}
	for _, k := range kinds {
		name := k.Name()
		if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, establishTimeout, true, func(ctx context.Context) (bool, error) {
			object, err := resource.Get(ctx, name, metav1.GetOptions{})
			return err == nil && isEstablished(object), err
		}); err != nil {
			return fmt.Errorf("wait until CRD %s is established: %w", name, err)
		}
	}
	return nil
}

func isEstablished(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] == string(apiextensionsv1.Established) && condition["status"] == string(apiextensionsv1.ConditionTrue) {
			return true
		}
	}
	return false
}
