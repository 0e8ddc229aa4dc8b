package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/reconcile"
)

// observe returns what a reconcile needs to know of the cluster apart from its object: the
// children, from the caches or from the API server itself, and the Pods that it injects
// into.
func (r *reconciliation) observe(
	ctx context.Context, object *unstructured.Unstructured, fromServer bool,
) (v *plan.View, err error) {
	if fromServer {
		v, err = r.readServer(ctx, object)
	} else {
		v, err = r.types.view(object)
	}
	if err != nil {
		return nil, err
	}
	if err := r.readFormer(ctx, object, v); err != nil {
		return nil, err
	}
	v.Budget, v.Seen, v.Found = r.budget, &r.memory.Seen, r.lookUp(r.budget, object)
	if !r.config.Informers.AllNamespaces() {
		v.Namespaces = r.config.Informers.Namespaces()
	}
	v.Normalized = r.records.normalized
	v.Orphaning = r.records.shownOf(object).isOrphaning
	if r.pods != nil {
		if err := r.readPods(object, v); err != nil {
			return nil, fmt.Errorf("find the Pods: %w", err)
		}
	}
	if err := r.readKnown(ctx, object, v); err != nil {
		return nil, err
	}
	return v, r.readLost(ctx, object, v)
}

// readServer reads the children of an object from the API server itself, for a cache that does not show what was
// written. Only lists of all objects would show strays, children without the label, and those with that of a former
// owner. So these are taken from the caches, unless the API server has another child of the name.
func (r *reconciliation) readServer(ctx context.Context, object *unstructured.Unstructured) (*plan.View, error) {
	v, err := r.types.view(object)
	if err != nil {
		return nil, err
	}
	var found []children.Live
	types, watches := r.types.known()
	read := make(map[schema.GroupVersionResource]bool)
	v.Unread = make(map[schema.GroupVersionKind]error)
	for gvk, served := range types {
		// nothing has objects of a type that is not served
		if served.Err != nil && !errors.Is(served.Err, plan.ErrNotServed) {
			v.Unread[gvk] = served.Err
		}
		if watches[served.Resource] == nil || served.Err != nil || read[served.Resource] {
			continue
		}
		read[served.Resource] = true
		children, err := r.list(ctx, object, served.Resource, served.IsNamespaced, gvk.GroupKind())
		if err != nil && (!apierrors.IsForbidden(err) || !plan.MustBeSure(r.kind, object)) {
			return nil, err
		}
		found, v.Unread[gvk] = append(found, children...), err
	}
	v.Children = append(slices.DeleteFunc(v.Children, func(child children.Live) bool {
		return children.IsLabelledFor(child.Object, object) || slices.ContainsFunc(found, func(f children.Live) bool {
			return f.Resource == child.Resource &&
				cache.MetaObjectToName(f.Object) == cache.MetaObjectToName(child.Object)
		})
	}), found...)
	v.Live = true
	return v, nil
}

// readKnown reads the recorded children in other namespaces that the view does not have: those that lost the label by
// which they are watched.
func (r *reconciliation) readKnown(ctx context.Context, object *unstructured.Unstructured, v *plan.View) error {
	if r.kind.Target != nil {
		return nil
	}
	seen := make(map[types.UID]bool)
	for _, child := range v.Children {
		seen[child.Object.GetUID()] = true
	}
	for _, known := range children.KnownElsewhere(object) {
		if seen[known.UID] || r.records.isDeleted(cache.MetaObjectToName(object), known.UID) {
			continue
		}
		mapping, err := r.config.Mapper.RESTMapping(known.Type.GroupKind(), known.Type.Version)
		if meta.IsNoMatchError(err) {
			continue // a type that is not served has no objects
		}
		if err != nil {
			return err
		}
		live, err := r.config.Client.Resource(mapping.Resource).Namespace(known.Namespace).Get(ctx, known.Name,
			metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && live.GetUID() != known.UID:
			continue
		case apierrors.IsForbidden(err):
			if v.Unread == nil {
				v.Unread = make(map[schema.GroupVersionKind]error)
			}
			v.Unread[known.Type] = err
			continue
		case err != nil:
			return fmt.Errorf("read %s %s/%s: %w", mapping.Resource.Resource, known.Namespace, known.Name, err)
		}
		live.SetManagedFields(nil)
		v.Unwatched = v.Unwatched || live.GetDeletionTimestamp() != nil
		if child := children.Of(mapping.Resource, live); children.IsOwnedBy(live, object) {
			v.Children = append(v.Children, child)
		} else {
			v.Unmarked = append(v.Unmarked, child)
		}
	}
	return nil
}

// list reads the children of an object of a type from the API server: in its namespace, and where its status lists
// others. If it may not read all, it returns the rest as well.
func (r *reconciliation) list(
	ctx context.Context,
	object *unstructured.Unstructured,
	resource schema.GroupVersionResource,
	isNamespaced bool,
	gk schema.GroupKind,
) (existing []children.Live, denied error) {
	namespaces := []string{object.GetNamespace()} // which is empty for all
	if object.GetNamespace() != "" {
		namespaces = children.Places(object, gk)
	}
	if object.GetNamespace() != "" && isNamespaced {
		namespaces = append(namespaces, object.GetNamespace())
	}
	for _, namespace := range namespaces {
		found, err := r.config.Client.Resource(resource).Namespace(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: children.OwnerSelector(object)})
		if apierrors.IsForbidden(err) {
			denied = err
			continue
		}
		if err != nil {
			return nil, err
		}
		r.records.listed(cache.MetaObjectToName(object), childPlace{resource, namespace}, found)
		for i := range found.Items {
			if children.MayBelongTo(r.kind, &found.Items[i]) {
				existing = append(existing, children.Of(resource, &found.Items[i]))
			}
		}
	}
	return existing, denied
}

// readPods counts what the Pods have of an object.
func (r *reconciliation) readPods(object *unstructured.Unstructured, v *plan.View) error {
	// The selector is remembered before Pods are looked for, so that an event of a Pod
	// that appears meanwhile queues the object again.
	selector, err := r.selections.of(object, func() (labels.Selector, error) {
		checked := r.kind.Check(v.Budget, object.Object).Stored()
		if len(checked.Errors) > 0 {
			return nil, nil // the plan reports the error
		}
		injection, err := inject.Of(v.Budget, r.kind, checked.Object)
		if err != nil {
			return nil, err
		}
		return injection.Selector(), nil
	})
	v.InjectionErr = err
	o := inject.OfferOf(r.kind, object, selector)
	pods, err := r.pods.podsOf(object.GetNamespace(), o)
	if err != nil {
		return err
	}
	v.Uptake = uptakeOf(o, pods)
	return nil
}

// Look observes the cluster, from the caches or from the API server itself.
func (r *reconciliation) Look(ctx context.Context, object *unstructured.Unstructured, isLive bool) (*plan.View, error) {
	seen, since := r.records.seen(r.name, r.types)
	isStale := !seen && time.Since(since) > staleLimit
	if isStale {
		r.log.Warn("the caches have not seen the last writes; reading from the API server", "since", since)
	}
	switch {
	case isLive, isStale, plan.MustBeSure(r.kind, object):
		return r.lookLive(ctx, object)
	case !seen:
		r.metrics.cacheWaits.WithLabelValues(r.metrics.name).Inc()
		return nil, reconcile.ErrBehind // the event that is still to come queues the object again
	case plan.IsEntering(r.kind, object):
		v, err := r.lookLive(ctx, object)
		if !apierrors.IsForbidden(err) { // a right that was withdrawn must not keep the object
			return v, err
		}
	}
	return r.observe(ctx, object, false)
}

// lookLive observes the cluster from the API server itself.
func (r *reconciliation) lookLive(ctx context.Context, object *unstructured.Unstructured) (*plan.View, error) {
	r.metrics.liveReads.WithLabelValues(r.metrics.name).Inc()
	r.records.readLive(r.name)
	return r.observe(ctx, object, true)
}
