package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/plan"
)

// leavingObject is what events have shown of an object that is being deleted.
type leavingObject struct {
	uid     types.UID
	version string // the last
	// isOrphaning means that a version showed that the garbage collector was about to orphan the children. When that is done,
	// nothing of the object shows it.
	isOrphaning bool
}

// noteLeaving notes what an event shows of an object that is being deleted.
func (c *controller) noteLeaving(state any) {
	object, ok := state.(*unstructured.Unstructured)
	if !ok || object.GetDeletionTimestamp() == nil {
		return
	}
	before := c.shownOf(object)
	c.leaving.Store(cache.MetaObjectToName(object), leavingObject{
		object.GetUID(), object.GetResourceVersion(), before.isOrphaning || plan.IsOrphaning(object),
	})
}

// shownOf returns what events have shown of an object. They may be behind the cache.
func (c *controller) shownOf(object *unstructured.Unstructured) leavingObject {
	noted, _ := c.leaving.Load(cache.MetaObjectToName(object))
	shown, _ := noted.(leavingObject)
	if shown.uid != object.GetUID() {
		return leavingObject{}
	}
	return shown
}

// keep gives an object the finalizer that holds it for the phases that follow its deletion, if it needs
// that, before anything else is written. It returns the object as it is then.
func (r *reconciliation) keep(ctx context.Context, object *unstructured.Unstructured, v *plan.View) (*unstructured.Unstructured, error) {
	if !plan.MustKeep(r.kind, object, v, time.Now()) {
		return object, nil
	}
	return r.writeFinalizers(ctx, object, plan.WithFinalizer(r.kind, object, true))
}

// leave lets an object go that is being deleted and for which nothing is left to do.
func (r *reconciliation) leave(ctx context.Context, object *unstructured.Unstructured, o *plan.Outcome) error {
	if o.Abandoned {
		r.log.Warn("the object is released before a terminal phase: its namespace is being deleted")
	}
	return r.letGo(ctx, object)
}

// letGo takes the finalizer off an object that is being deleted. A kind that has no use for the finalizer any more
// may not have the right to.
func (r *reconciliation) letGo(ctx context.Context, object *unstructured.Unstructured) error {
	_, err := r.writeFinalizers(ctx, object, plan.WithFinalizer(r.kind, object, false))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err) && !r.kind.IsHeld():
		return &rejectedError{errors.Join(err, fmt.Errorf("the kind has neither onDelete nor children in other namespaces any more, and so no right to remove the finalizer %s: 'fescue migrate' removes it", plan.Finalizer(r.kind)))}
	}
	return err
}

// isNamespaceLeaving reports whether the namespace of an object is being deleted: then the API server rejects any
// creation there before it looks at the object, also one that only tries. That needs no right to read namespaces.
func (c *controller) isNamespaceLeaving(ctx context.Context, object *unstructured.Unstructured, v *plan.View) bool {
	for _, gvk := range c.kind.Owns {
		served, isKnown := v.Types[gvk]
		if !isKnown || served.Err != nil || !served.IsNamespaced || object.GetNamespace() == "" {
			continue
		}
		child := &unstructured.Unstructured{}
		child.SetGroupVersionKind(gvk)
		child.SetName(object.GetName())
		_, err := c.config.Client.Resource(served.Resource).Namespace(object.GetNamespace()).Create(ctx, child, metav1.CreateOptions{
			FieldManager: c.manager, DryRun: []string{metav1.DryRunAll},
		})
		return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	}
	return false
}

// writeFinalizers replaces the finalizers of an object. The resource version makes the API server reject
// a write that is based on an older state of the object: one that is being deleted, or was recreated.
func (r *reconciliation) writeFinalizers(ctx context.Context, object *unstructured.Unstructured, names []string) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": names,
	}})
	if err != nil {
		return nil, err
	}
	stored, err := r.config.Client.Resource(r.resource).Namespace(r.name.Namespace).
		Patch(ctx, r.name.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.manager})
	if err != nil {
		return nil, r.refused(fmt.Errorf("write metadata.finalizers: %w", plan.Conceal(r.kind, err)))
	}
	stored.SetManagedFields(nil)
	r.writes.rememberObject(r.name, stored)
	return stored, nil
}
