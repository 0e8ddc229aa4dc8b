package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Rendering is what a controller would do for an object now.
type Rendering struct {
	// Steps are what it would write for the children, in order.
	Steps []RenderedStep `json:"steps"`
	// Children are the objects that there would be then.
	Children []map[string]any `json:"children"`
	// Status is what it would report.
	Status map[string]any `json:"status"`
	// WakeAt is when it would look again although nothing has changed; nil means never.
	WakeAt *metav1.MicroTime `json:"wakeAt,omitempty"`
	// Waiting says that it would wait for an object to be gone.
	Waiting bool `json:"waiting,omitempty"`
}

// RenderedStep is one write.
type RenderedStep struct {
	// Verb is create, apply, adopt or delete.
	Verb string `json:"verb"`
	// Child is how the kind calls the child.
	Child string `json:"child"`
	// APIVersion, Kind and Name are those of the object.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// Render tells what a controller would do for an object at a time, by the controller's own
// code but without a cluster: each write is taken to succeed at once, and an object that is
// made has no status. observed are the objects that exist besides. One that has of the
// engine's labels only fescue.dev/child is taken to be that child of the object, so that it
// can be written by hand. Nothing that is given is changed. The error is a fault of the
// kind.
func Render(k *kind.Kind, object *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time) (*Rendering, error) {
	object = object.DeepCopy()
	if object.GetNamespace() == "" && k.Scope == "Namespaced" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	if object.GetUID() == "" {
		object.SetUID(types.UID("rendered"))
	}
	r := &renderer{kind: k, owner: object, Rendering: &Rendering{Steps: []RenderedStep{}, Children: []map[string]any{}}}
	r.view = r.lookAt(observed)
	for range maxRounds {
		p, done, err := keepChildren(k, object, r.view, now, r.carryOut)
		if err != nil {
			return nil, err
		}
		if r.Status, err = report(k, object.Object, object.GetGeneration(), p, now); err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		object.Object["status"] = r.Status
		r.Waiting = done.waiting
		if !p.wakeAt.IsZero() {
			r.WakeAt = new(metav1.NewMicroTime(p.wakeAt))
		}
		if !p.again || done.waiting {
			for _, child := range r.view.children {
				if child.object.GetDeletionTimestamp() == nil {
					r.Children = append(r.Children, child.object.Object)
				}
			}
			return r.Rendering, nil
		}
	}
	return nil, errors.New("the phases go on without end")
}

// renderer is a cluster with one object in it, in which every step succeeds at once.
type renderer struct {
	*Rendering
	kind   *kind.Kind
	owner  *unstructured.Unstructured
	view   *view
	others []*unstructured.Unstructured
}

// lookAt is the view of the objects that exist. Where they would be served is guessed,
// which matters to nobody.
func (r *renderer) lookAt(observed []*unstructured.Unstructured) *view {
	v := &view{types: make(map[schema.GroupVersionKind]childType), settled: newSettled()}
	for _, gvk := range r.kind.Owns {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		v.types[gvk] = childType{resource: plural}
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
			v.children = append(v.children, newExistingChild(plural, object))
			continue
		}
		r.others = append(r.others, object)
	}
	v.strays = func(set string, template map[string]string) []*unstructured.Unstructured {
		ofType := slices.DeleteFunc(slices.Clone(r.others), func(s *unstructured.Unstructured) bool {
			return s.GroupVersionKind() != r.kind.Sets[set].Type
		})
		return withLabels(ofType, template)
	}
	return v
}

// isChild tells whether an object is a child of the one that is rendered: one that was made
// for it, or one written by hand that says which child it is.
func (r *renderer) isChild(object *unstructured.Unstructured) bool {
	if isChildOf(object, r.owner, ownerName(r.kind, r.owner.GetName())) {
		return true
	}
	_, hasOwner := object.GetLabels()[labelOwnerUID]
	_, hasName := object.GetAnnotations()[annotationOwner]
	return object.GetLabels()[labelChild] != "" && !hasOwner && !hasName && object.GetNamespace() == r.owner.GetNamespace()
}

// claim gives an object that says which child it is what else the engine gives children.
func (r *renderer) claim(object *unstructured.Unstructured) {
	object.SetLabels(merged(object.GetLabels(), map[string]string{labelManagedBy: managedBy, labelOwnerUID: string(r.owner.GetUID())}))
	object.SetAnnotations(merged(map[string]string{annotationOwner: ownerName(r.kind, r.owner.GetName())}, object.GetAnnotations()))
	if metav1.GetControllerOfNoCopy(object) == nil {
		object.SetOwnerReferences(append(object.GetOwnerReferences(), ownerReference(r.kind, r.owner)))
	}
}

// carryOut makes all steps of a comparison happen.
func (r *renderer) carryOut(todo *comparison) *changes {
	done := &changes{deleted: make(map[types.UID]bool)}
	steps := todo.steps
	if todo.refused == nil && !todo.waiting {
		steps = slices.Concat(steps, todo.prunes)
	}
	for _, s := range steps {
		if err := r.step(s, done); err != nil {
			done.refused = errors.Join(done.refused, fmt.Errorf("child %q: %w", s.child, err))
			continue
		}
		object := s.wanted
		if object == nil {
			object = s.is
		}
		r.Steps = append(r.Steps, RenderedStep{
			Verb: string(s.verb), Child: s.child, APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(),
		})
	}
	r.view = r.view.with(done)
	return done
}

// step makes one step happen.
func (r *renderer) step(s step, done *changes) error {
	stored := s.wanted.DeepCopy()
	switch s.verb {
	case verbCreate:
		if slices.ContainsFunc(r.others, func(o *unstructured.Unstructured) bool {
			return o.GroupVersionKind() == s.wanted.GroupVersionKind() && o.GetName() == s.name()
		}) {
			if _, ofSet := r.kind.Sets[s.child]; ofSet {
				done.taken = append(done.taken, takenName{s.resource, s.name()})
				return nil
			}
			return fmt.Errorf("%s %q exists and was not made for this object; rename or delete it", s.resource.Resource, s.name())
		}
		stored.SetUID(types.UID("rendered-" + s.resource.Resource + "-" + s.name()))
	case verbDelete:
		done.deleted[s.is.GetUID()] = true
		return nil
	case verbApply, verbAdopt:
		stored = rewritten(s)
	}
	done.stored = append(done.stored, newExistingChild(s.resource, stored))
	return nil
}

// rewritten is an object after a step was made for it: with the labels and the reference
// that are wanted and, if the template was applied, with all that it says.
func rewritten(s step) *unstructured.Unstructured {
	object := s.is.DeepCopy()
	object.SetLabels(merged(object.GetLabels(), s.wanted.GetLabels()))
	object.SetOwnerReferences(s.wanted.GetOwnerReferences())
	annotations := s.wanted.GetAnnotations()
	if s.verb == verbAdopt {
		annotations = map[string]string{annotationOwner: annotations[annotationOwner]}
	} else {
		for field, value := range s.wanted.DeepCopy().Object {
			if field != "metadata" {
				object.Object[field] = value
			}
		}
	}
	object.SetAnnotations(merged(object.GetAnnotations(), annotations))
	return object
}
