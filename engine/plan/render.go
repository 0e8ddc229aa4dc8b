package plan

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Rendering lists what a controller would do for an object now.
type Rendering struct {
	// Steps are what it would write for the children, in order.
	Steps []RenderedStep `json:"steps"`
	// Children are the objects that would exist then.
	Children []map[string]any `json:"children"`
	// Status is the status that it would report.
	Status map[string]any `json:"status"`
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
func Render(k *kind.Kind, object *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time) (*Rendering, error) {
	object = object.DeepCopy()
	if object.GetNamespace() == "" && k.Scope == "Namespaced" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	if object.GetUID() == "" {
		object.SetUID(types.UID("rendered"))
	}
	r := &renderer{kind: k, owner: object, Rendering: &Rendering{Steps: []RenderedStep{}, Children: []map[string]any{}}}
	r.view = r.viewOf(observed)
	var passed []string
	for range maxRounds {
		r.view.Passed = passed
		p, o, err := Converge(k, object, r.view, now, func(c *Comparison) *Changes { return r.apply(c, now) })
		if err != nil {
			return nil, err
		}
		if r.Status, err = Report(p, o); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		object.Object["status"], passed = r.Status, o.Passed
		r.Waiting = o.Waiting
		if !o.WakeAt.IsZero() {
			r.WakeAt = new(metav1.NewMicroTime(o.WakeAt))
		}
		if !p.Again || o.Waiting {
			for _, child := range r.view.Children {
				if child.Object.GetDeletionTimestamp() == nil {
					r.Children = append(r.Children, child.Object.Object)
				}
			}
			return r.Rendering, nil
		}
	}
	return nil, errors.New("the phases never end")
}

// renderer is a cluster with one object in it, in which every step succeeds at once.
type renderer struct {
	*Rendering
	kind   *kind.Kind
	owner  *unstructured.Unstructured
	view   *View
	others []*unstructured.Unstructured
}

// viewOf returns the view of the objects that exist. Where they would be served is guessed,
// which has no effect.
func (r *renderer) viewOf(observed []*unstructured.Unstructured) *View {
	v := &View{Types: make(map[schema.GroupVersionKind]ChildType), Normalized: NewNormalized()}
	for _, gvk := range r.kind.Owns {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		v.Types[gvk] = ChildType{Resource: plural}
	}
	for i, object := range observed {
		object = object.DeepCopy()
		if object.GetNamespace() == "" {
			object.SetNamespace(r.owner.GetNamespace())
		}
		if object.GetUID() == "" {
			object.SetUID(types.UID(fmt.Sprint("observed-", i)))
		}
		if r.isChild(object) {
			r.claim(object)
			plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			v.Children = append(v.Children, Live(plural, object))
			continue
		}
		r.others = append(r.others, object)
	}
	v.Strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		ofType := slices.DeleteFunc(slices.Clone(r.others), func(s *unstructured.Unstructured) bool {
			return s.GroupVersionKind() != r.kind.Sets[set].Type
		})
		return WithLabels(ofType, template)
	}
	return v
}

// WithLabels returns those of the objects that have all these labels.
func WithLabels(objects []*unstructured.Unstructured, wanted map[string]string) []*unstructured.Unstructured {
	selector := labels.SelectorFromSet(wanted)
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	return found
}

// isChild reports whether an object is a child of the one that is rendered: one that was
// created for it, or one written by hand with the label that names the child.
func (r *renderer) isChild(object *unstructured.Unstructured) bool {
	if IsChildOf(object, r.owner, r.kind) {
		return true
	}
	_, hasOwner := object.GetLabels()[labelOwnerUID]
	_, hasName := object.GetAnnotations()[AnnotationOwner]
	return ChildName(object) != "" && !hasOwner && !hasName && object.GetNamespace() == r.owner.GetNamespace()
}

// claim adds what else the engine gives children to an object with the label of a child.
func (r *renderer) claim(object *unstructured.Unstructured) {
	object.SetLabels(merged(object.GetLabels(), map[string]string{labelManagedBy: managedBy, labelOwnerUID: string(r.owner.GetUID())}))
	object.SetAnnotations(merged(map[string]string{AnnotationOwner: OwnerName(r.kind, r.owner.GetName())}, object.GetAnnotations()))
	if !IsCopy(object) {
		origin{ChildName(object), object.GetLabels()[labelPhase]}.record(object)
	}
	if metav1.GetControllerOfNoCopy(object) == nil {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), ownerReference(r.kind, r.owner)))
	}
}

// apply carries out all steps of a comparison.
func (r *renderer) apply(c *Comparison, now time.Time) *Changes {
	done := &Changes{Deleted: make(map[types.UID]bool)}
	steps := c.Steps
	if c.Rejected == nil && !c.Waiting {
		steps = slices.Concat(steps, c.Prunes)
	}
	for _, s := range steps {
		if err := r.step(s, done); err != nil {
			done.Rejected = errors.Join(done.Rejected, fmt.Errorf("child %q: %w", s.Child, err))
			continue
		}
		object := s.Wanted
		if object == nil {
			object = s.Live
		}
		r.Steps = append(r.Steps, RenderedStep{
			Verb: string(s.Verb), Child: s.Child, APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(),
		})
	}
	r.view = r.view.with(done, now)
	return done
}

// step carries out one step.
func (r *renderer) step(s Step, done *Changes) error {
	stored := s.Wanted.DeepCopy()
	switch s.Verb {
	case Create:
		if slices.ContainsFunc(r.others, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == s.Wanted.GroupVersionKind() && o.GetName() == s.Name
		}) {
			if _, ofSet := r.kind.Sets[s.Child]; ofSet {
				done.Taken = append(done.Taken, Taken{s.Resource, s.Name})
				return nil
			}
			return NotCreatedFor(s.Resource, s.Name)
		}
		stored.SetUID(types.UID("rendered-" + s.Resource.Resource + "-" + s.Name))
		if left := slices.DeleteFunc(stored.GetFinalizers(), func(name string) bool { return name == Finalizer }); len(left) > 0 {
			stored.SetFinalizers(left)
		} else {
			stored.SetFinalizers(nil) // it is removed as soon as the status is written
		}
	case Delete:
		done.Deleted[s.Live.GetUID()] = true
		return nil
	case Apply, Adopt:
		stored = rewritten(s)
	}
	done.Stored = append(done.Stored, Live(s.Resource, stored))
	return nil
}

// rewritten returns an object after a step: with the labels and the reference that are
// wanted and, if the template was applied, with all its fields.
func rewritten(s Step) *unstructured.Unstructured {
	object := s.Live.DeepCopy()
	object.SetLabels(merged(object.GetLabels(), s.Wanted.GetLabels()))
	object.SetOwnerReferences(s.Wanted.GetOwnerReferences())
	annotations := s.Wanted.GetAnnotations()
	if s.Verb == Adopt {
		annotations = make(map[string]string)
		for _, name := range OwnAnnotations {
			annotations[name] = s.Wanted.GetAnnotations()[name]
		}
	} else {
		for field, value := range s.Wanted.DeepCopy().Object {
			if field != "metadata" {
				object.Object[field] = value
			}
		}
	}
	object.SetAnnotations(merged(object.GetAnnotations(), annotations))
	return object
}
