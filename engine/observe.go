package engine

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/plan"
)

// observe returns what a reconcile needs to know of the cluster apart from its object: the
// children, from the caches or from the API server itself, and the Pods that it injects
// into.
func (c *controller) observe(ctx context.Context, object *unstructured.Unstructured, fromServer bool) (v *plan.View, err error) {
	if fromServer {
		v, err = c.readServer(ctx, object)
	} else {
		v, err = c.types.view(object)
	}
	if err != nil {
		return nil, err
	}
	if err := c.readLost(ctx, object, v); err != nil {
		return nil, err
	}
	if err := c.readFormer(ctx, object, v); err != nil {
		return nil, err
	}
	v.Found = c.lookUp(object)
	v.Normalized, v.Numbers = c.normalized, c.numbers.of(object)
	if c.pods != nil {
		if err := c.readPods(object, v); err != nil {
			return nil, fmt.Errorf("find the Pods: %w", err)
		}
	}
	return v, nil
}

// readServer reads the API server itself, for a cache that does not show what was written.
func (c *controller) readServer(ctx context.Context, object *unstructured.Unstructured) (*plan.View, error) {
	types, watches := c.types.known()
	v := &plan.View{Types: types}
	list := func(resource schema.GroupVersionResource, selector string) ([]*unstructured.Unstructured, error) {
		found, err := c.config.Client.Resource(resource).Namespace(object.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, err
		}
		items := make([]*unstructured.Unstructured, len(found.Items))
		for i := range found.Items {
			items[i] = &found.Items[i]
		}
		return items, nil
	}
	for resource := range watches {
		items, err := list(resource, plan.ManagedSelector)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if plan.IsChildOf(item, object, c.kind) {
				v.Children = append(v.Children, plan.Live(resource, item))
			}
		}
	}
	strays := make(map[string][]*unstructured.Unstructured)
	for set, facts := range c.kind.Sets {
		served, ok := v.Types[facts.Type]
		if len(facts.StrayLabels) == 0 || !ok || served.Err != nil {
			continue
		}
		items, err := list(served.Resource, plan.StraySelector(facts.StrayLabels))
		if err != nil {
			return nil, err
		}
		strays[set] = items
	}
	v.Strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		return plan.WithLabels(strays[set], template)
	}
	return v, nil
}

// readPods counts what the Pods have of an object.
func (c *controller) readPods(object *unstructured.Unstructured, v *plan.View) error {
	// The selector is remembered before Pods are looked for, so that an event of a Pod
	// that appears meanwhile queues the object again.
	selector, err := c.selections.of(object, func() (labels.Selector, error) {
		checked := c.kind.Check(object.Object).Stored()
		if len(checked.Errors) > 0 {
			return nil, nil // the plan reports the error
		}
		injection, err := inject.Of(c.kind, checked.Object)
		if err != nil {
			return nil, err
		}
		return injection.Selector(), nil
	})
	v.InjectionErr = err
	o := inject.OfferOf(c.kind, object, selector)
	pods, err := c.pods.podsOf(object.GetNamespace(), o)
	if err != nil {
		return err
	}
	v.Uptake = uptakeOf(o, pods)
	return nil
}
