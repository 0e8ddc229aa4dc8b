package simulate

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// Rendering lists what a controller would do for an object now.
type Rendering struct {
	// Steps are what it would write for the children, in order.
	Steps []RenderedStep `json:"steps"`
	// Children are the objects that would exist then.
	Children []map[string]any `json:"children"`
	// Status is the status that it would report; a decorator reports none.
	Status map[string]any `json:"status,omitempty"`
	// Problem is what a decorator would report in an Event.
	Problem string `json:"problem,omitempty"`
	// WakeAt is when it would reconcile although nothing has changed; nil means never.
	WakeAt *metav1.MicroTime `json:"wakeAt,omitempty"`
	// Waiting reports that it would wait for an object to be gone.
	Waiting bool `json:"waiting,omitempty"`
}

// RenderedStep is one write.
type RenderedStep struct {
	// Verb is create, apply, adopt or delete.
	Verb string `json:"verb"`
	// Child is the name of the child in the kind.
	Child string `json:"child"`
	// APIVersion, Kind and Name are those of the object.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Render returns what a controller would do for an object at a time, without a cluster: each
// write succeeds at once, and a created object has no status. observed are the other
// objects that exist. One that has only fescue.dev/child of the engine's labels counts as
// that child of the object, so that it can be written by hand. Nothing that is given is
// changed. An error is a fault of the kind.
func Render(
	k *kind.Kind, object *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time,
) (*Rendering, error) {
	object = object.DeepCopy()
	if object.GetNamespace() == "" && k.Scope == "Namespaced" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	if object.GetUID() == "" {
		object.SetUID("rendered")
	}
	if k.IsHeld() { // as if it had been there for a while
		object.SetFinalizers(plan.WithFinalizer(object, true))
	}
	c := New([]*kind.Kind{k}, now)
	c.inert = true
	c.objects = append(c.objects, object)
	for i, other := range observed {
		other = other.DeepCopy()
		if other.GetNamespace() == "" && c.isNamespaced(other.GroupVersionKind()) {
			other.SetNamespace(cmp.Or(object.GetNamespace(), metav1.NamespaceDefault))
		}
		if other.GetUID() == "" {
			other.SetUID(types.UID(fmt.Sprint("observed-", i)))
		}
		children.Claim(k, object, other)
		c.objects = append(c.objects, other)
	}
	result, err := c.reconcile(k, object.GetUID(), c.controllerOf(k, object))
	if err != nil {
		return nil, err
	}
	r := &Rendering{Steps: []RenderedStep{}, Children: []map[string]any{}}
	o := result.Outcome
	if o == nil {
		return r, nil // it is being deleted, and its children with it
	}
	r.Waiting = o.Waiting
	if problem := o.Problem(); k.Target != nil && problem != nil {
		r.Problem = problem.Message
	}
	if k.Target == nil {
		r.Status, _ = c.byUID(object.GetUID()).Object["status"].(map[string]any)
	}
	if !o.WakeAt.IsZero() {
		r.WakeAt = new(metav1.NewMicroTime(o.WakeAt))
	}
	for _, record := range c.log {
		if record.Step == nil {
			continue
		}
		written := record.Step.Object()
		r.Steps = append(r.Steps, RenderedStep{
			Verb: string(record.Step.Verb), Child: record.Step.Child, APIVersion: written.GetAPIVersion(),
			Kind: written.GetKind(), Name: written.GetName(),
		})
	}
	left, err := (&world{c, k, k.NewBudget(), plan.NewMemory(object)}).Look(context.Background(), object, true)
	if err != nil {
		return nil, err
	}
	for _, child := range left.Children {
		if child.Object.GetDeletionTimestamp() == nil {
			r.Children = append(r.Children, child.Object.Object)
		}
	}
	return r, nil
}
