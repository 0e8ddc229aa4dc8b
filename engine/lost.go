package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// readLost adds the children to a view that are not in the caches and exist nevertheless: those that an event has shown
// to be lost, and those that would not be created.
func (r *reconciliation) readLost(ctx context.Context, object *unstructured.Unstructured, v *plan.View) error {
	owner := cache.MetaObjectToName(object)
	add := func(where lostChild, live *unstructured.Unstructured) {
		v.Children = append(v.Children, children.Of(where.resource, live))
		v.Unwatched = v.Unwatched || live.GetDeletionTimestamp() != nil
	}
	for _, missing := range plan.Missing(r.kind, object, v, time.Now()) {
		where := lostChild{missing.Resource, cache.MetaObjectToName(missing.Object)}
		if uid := missing.Object.GetUID(); uid != "" {
			r.records.addLost(owner, object.GetUID(), uid, where,
				func() *unstructured.Unstructured { return object })
			continue
		}
		live, err := r.read(ctx, where)
		switch {
		case err != nil && !apierrors.IsNotFound(err):
			return err
		case err == nil && children.BelongsTo(live, object, r.kind) && !r.records.isDeleted(owner, live.GetUID()):
			add(where, live)
		}
	}
	for uid, lost := range r.records.lostOf(owner, object.GetUID()) {
		if slices.ContainsFunc(v.Children, func(child children.Live) bool { return child.Object.GetUID() == uid }) {
			r.records.found(owner, uid)
			continue
		}
		live, err := r.read(ctx, lost)
		switch {
		case apierrors.IsNotFound(err) || err == nil &&
			(live.GetUID() != uid || !children.BelongsTo(live, object, r.kind)):
			r.records.found(owner, uid)
		case err != nil:
			return err
		default:
			add(lost, live)
		}
	}
	return nil
}

// read reads a child from the API server.
func (r *reconciliation) read(ctx context.Context, at lostChild) (*unstructured.Unstructured, error) {
	live, err := r.config.Client.Resource(at.resource).Namespace(at.name.Namespace).Get(ctx, at.name.Name,
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s %q: %w", at.resource.Resource, at.name.Name, err)
	}
	live.SetManagedFields(nil)
	return live, nil
}
