package engine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
)

// readFormer adds the children of types to a view that the kind no longer owns, and that are
// therefore not watched. A type that is not served any more has no objects.
func (r *reconciliation) readFormer(ctx context.Context, object *unstructured.Unstructured, v *plan.View) error {
	for _, gvk := range plan.FormerTypes(r.kind, object) {
		mapping, err := r.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("former children of type %s: %w", kind.TypeName(gvk), err)
		}
		if v.Former == nil {
			v.Former = make(map[schema.GroupVersionKind]error)
		}
		children, err := r.list(ctx, object, mapping.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace,
			gvk.GroupKind())
		if err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("former children of type %s: %w", kind.TypeName(gvk), err)
		}
		v.Former[gvk] = err
		v.Children = append(v.Children, children...)
	}
	return nil
}
