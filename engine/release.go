package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/plan"
)

// releaseTries is how often a finalizer is removed by its position in a list that others change.
const releaseTries = 5

// release removes the finalizer from a child. It does not lock the child by its resource version:
// scheduler and kubelet write a new Pod at the same time.
func (r *reconciliation) release(ctx context.Context, child plan.LiveChild) error {
	client := r.config.Writer.Resource(child.Resource).Namespace(child.Object.GetNamespace())
	live := child.Object
	for try := 1; ; try++ {
		at := slices.Index(live.GetFinalizers(), plan.Finalizer)
		if at < 0 || live.GetUID() != child.Object.GetUID() {
			return nil
		}
		path := fmt.Sprintf("/metadata/finalizers/%d", at)
		patch, err := json.Marshal([]map[string]any{
			{"op": "test", "path": "/metadata/uid", "value": live.GetUID()},
			{"op": "test", "path": path, "value": plan.Finalizer},
			{"op": "remove", "path": path},
		})
		if err != nil {
			return err
		}
		stored, err := client.Patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: r.manager})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			if holder := metav1.GetControllerOfNoCopy(stored); holder != nil {
				r.writes.rememberChild(r.name, holder.UID, childPlace{child.Resource, stored.GetNamespace()}, stored.GetResourceVersion())
			}
			return nil
		case !apierrors.IsInvalid(err) || try == releaseTries:
			return fmt.Errorf("remove the finalizer of %s %q: %w", child.Resource.Resource, live.GetName(), err)
		}
		live, err = client.Get(ctx, live.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s %q: %w", child.Resource.Resource, child.Object.GetName(), err)
		}
	}
}

// releaseAll releases children that are recorded in the status of their object.
func (r *reconciliation) releaseAll(ctx context.Context, children []plan.LiveChild) error {
	for _, child := range children {
		if !plan.IsHeld(child.Object) {
			continue
		}
		if err := r.release(ctx, child); err != nil {
			return err
		}
	}
	return nil
}

// releaseFormer releases the children of objects of this name that are gone or being deleted, and those
// that were orphaned, which nothing else would do. The present object is nil if there is none. An
// object of this name may belong to another shard, which then releases its children.
func (r *reconciliation) releaseFormer(ctx context.Context, present *unstructured.Unstructured) error {
	children, err := r.types.held(r.name)
	if err != nil {
		return err
	}
	isLeaving := present == nil || present.GetDeletionTimestamp() != nil && !plan.IsKept(present)
	return r.releaseAll(ctx, slices.DeleteFunc(children, func(child plan.LiveChild) bool {
		return !r.isKeptHere(child.Object) || !isLeaving && plan.IsOwnedBy(child.Object, present)
	}))
}
