package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/operator"
)

// The status of an object of others does not show what a decorator does for it. So that is decided
// here again, from what the cluster has.

// decoratedRows returns the health of the objects that a decorator is for.
func decoratedRows(ctx context.Context, c *operator.Clients, k *kind.Kind, namespace string) ([]statusRow, error) {
	namespace = namespaceFor(k, namespace)
	objects, _, err := listType(ctx, c, k.GroupVersionKind, namespace, "")
	if meta.IsNoMatchError(err) {
		return nil, nil // there is no object
	}
	if err != nil {
		return nil, fmt.Errorf("decorator %s: %w", k.Title(), err)
	}
	types := make(map[schema.GroupVersionKind]plan.ChildType)
	var existing []children.Live
	for _, gvk := range k.Owns {
		found, served, err := listType(ctx, c, gvk, namespace, children.DecoratorSelector(k))
		if meta.IsNoMatchError(err) {
			types[gvk] = plan.ChildType{Err: plan.ErrNotServed}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("decorator %s: %w", k.Title(), err)
		}
		types[gvk] = served
		for i := range found {
			existing = append(existing, children.Of(served.Resource, &found[i]))
		}
	}
	var rows []statusRow
	for i := range objects {
		object := &objects[i]
		if !children.Decorates(k, object) {
			continue
		}
		v := &plan.View{Types: types, Normalized: children.NewNormalized(), Found: findFor(ctx, c, k, object)}
		for _, child := range existing {
			if children.IsChildOf(child.Object, object, k) {
				v.Children = append(v.Children, child)
			}
		}
		row := decoratedRow(k, object, v)
		if row.Health != current {
			row.Message += lastWarning(ctx, c, object)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// decoratedRow returns the health of one object: that of its children.
func decoratedRow(k *kind.Kind, object *unstructured.Unstructured, v *plan.View) statusRow {
	row := newRow(k, object)
	row.Decorator = k.Title()
	if object.GetDeletionTimestamp() != nil {
		row.Reason = "Terminating"
		return row
	}
	p, o := plan.Glance(k, object, v, time.Now())
	c := plan.Ready(p, o)
	row.Reason, row.Message = c.Reason, c.Message
	switch {
	case o.Stalled != nil:
		row.Health = failed
	case c.Status == metav1.ConditionTrue:
		row.Health = current
	}
	return row
}

// listType lists the objects of a type, and returns where it is served.
func listType(
	ctx context.Context, c *operator.Clients, gvk schema.GroupVersionKind, namespace, selector string,
) ([]unstructured.Unstructured, plan.ChildType, error) {
	mapping, err := c.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, plan.ChildType{}, err
	}
	served := plan.ChildType{Resource: mapping.Resource,
		IsNamespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	list, err := c.Dynamic.Resource(mapping.Resource).Namespace(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, served, fmt.Errorf("list %s: %w", mapping.Resource.GroupResource(), err)
	}
	return list.Items, served, nil
}

// findFor finds what a decorator reads for an object.
func findFor(ctx context.Context, c *operator.Clients, k *kind.Kind, object *unstructured.Unstructured) *plan.Found {
	lookups, err := plan.LookupsOf(k.NewBudget(), k, object)
	if err != nil {
		return &plan.Found{Err: err}
	}
	return plan.Find(lookups, func(l kind.Lookup) ([]*unstructured.Unstructured, error) {
		mapping, err := c.Mapper.RESTMapping(l.Type.GroupKind(), l.Type.Version)
		if err != nil {
			return nil, err
		}
		client := c.Dynamic.Resource(mapping.Resource).Namespace(
			l.In(object.GetNamespace(), mapping.Scope.Name() == meta.RESTScopeNameNamespace))
		if l.Selector == nil {
			found, err := client.Get(ctx, l.ObjectName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return []*unstructured.Unstructured{found}, err
		}
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: l.Selector.String()})
		if err != nil {
			return nil, err
		}
		found := make([]*unstructured.Unstructured, len(list.Items))
		for i := range list.Items {
			found[i] = &list.Items[i]
		}
		return found, nil
	})
}

// lastWarning returns the last Warning of Fescue about an object, to be appended to a message; it is
// empty if there is none, or the user may not read Events.
func lastWarning(ctx context.Context, c *operator.Clients, object *unstructured.Unstructured) string {
	list, err := c.Typed.EventsV1().Events(object.GetNamespace()).List(ctx,
		metav1.ListOptions{FieldSelector: "regarding.uid=" + string(object.GetUID())})
	if err != nil {
		return ""
	}
	note, last := "", time.Time{}
	for _, e := range list.Items {
		if at := e.EventTime.Time; e.ReportingController == "fescue" && e.Type == "Warning" && at.After(last) {
			note, last = "; last Warning: "+e.Note, at
		}
	}
	return note
}

// addDecorated adds the rows of all decorators.
func addDecorated(
	ctx context.Context, c *operator.Clients, decorators []*kind.Kind, namespace string, rows []statusRow,
) ([]statusRow, error) {
	var errs []error
	for _, k := range decorators {
		decorated, err := decoratedRows(ctx, c, k, namespace)
		rows, errs = append(rows, decorated...), append(errs, err)
	}
	return rows, errors.Join(errs...)
}
