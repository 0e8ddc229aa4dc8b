package engine

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// takeUp adds to a plan what the Pods have of its object, if the kind injects. A plan that
// cannot know which Pods the object selects is stalled, since nothing is injected either.
func (c *controller) takeUp(p *plan, object *unstructured.Unstructured) error {
	if c.pods == nil {
		return nil
	}
	// What is selected is made known before Pods are looked for, so that an event of one
	// that comes meanwhile queues the object again.
	selector, err := c.selections.of(object, func() (labels.Selector, error) {
		defaulted, errs := c.kind.DefaultAndValidateStored(object.Object)
		if len(errs) > 0 {
			return nil, nil // the plan says what is wrong
		}
		return c.pods.known.Selector(c.kind, defaulted)
	})
	if err != nil && p.stalled == nil {
		p.stalled = &problem{reasonEvaluation, err.Error()}
	}
	o := injecting{
		InjectedObject: InjectedObject{c.kind.GroupVersionKind.GroupKind(), object.GetName()},
		generation:     object.GetGeneration(),
		annotation:     c.kind.InjectAnnotation, selector: selector,
	}
	pods, err := c.pods.podsOf(object.GetNamespace(), o)
	if err != nil {
		return fmt.Errorf("find the Pods: %w", err)
	}
	p.uptake = countUptake(o, pods, c.pods.known)
	return nil
}

// podHandler queues the objects that a Pod concerns, a while after it changed: a
// Deployment that is rolled out changes many.
func (c *controller) podHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if !isInInitialList { // the first pass of each object counts those
				c.enqueueConcerned(object)
			}
		},
		UpdateFunc: func(before, after any) {
			a, okA := before.(*metav1.PartialObjectMetadata)
			b, okB := after.(*metav1.PartialObjectMetadata)
			if okA && okB && !sameUptake(a, b) {
				c.enqueueConcerned(a)
				c.enqueueConcerned(b)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			c.enqueueConcerned(object)
		},
	}
}

// sameUptake tells whether two states of a Pod count the same for every object. Most
// changes of a Pod are of its status.
func sameUptake(a, b *metav1.PartialObjectMetadata) bool {
	return a.UID == b.UID &&
		(a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

func (c *controller) enqueueConcerned(object any) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	names := c.selections.matching(pod)
	for _, o := range c.pods.concerned(pod) {
		if o.Kind == c.kind.GroupVersionKind.GroupKind() {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		c.queue.AddAfter(cache.ObjectName{Namespace: pod.Namespace, Name: name}, memberDelay)
	}
}
