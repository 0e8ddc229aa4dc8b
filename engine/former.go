package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/plan"
)

// readFormer adds the children of types to a view that the kind no longer owns, and that are
// therefore not watched. A type that is not served any more has no objects.
func (c *controller) readFormer(ctx context.Context, object *unstructured.Unstructured, v *plan.View) error {
	for _, gvk := range plan.FormerTypes(c.kind, object) {
		mapping, err := c.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("former children of type %s: %w", gvk, err)
		}
		if v.Former == nil {
			v.Former = make(map[schema.GroupVersionKind]error)
		}
		list, err := c.config.Client.Resource(mapping.Resource).Namespace(object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: plan.OwnerSelector(object)})
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("former children of type %s: %w", gvk, err)
		}
		v.Former[gvk] = err
		if err != nil {
			continue
		}
		for i := range list.Items {
			if plan.IsKeptBy(c.kind, &list.Items[i]) {
				v.Children = append(v.Children, plan.Live(mapping.Resource, &list.Items[i]))
			}
		}
	}
	return nil
}
