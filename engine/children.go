package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/fescue-dev/fescue/cue/kind"
)

// existingChild is a child as the caches hold it.
type existingChild struct {
	name     string // as the kind calls it
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// refusedError is an answer of the API server, or a rule of our own, that stays the
// same until a person changes something.
type refusedError struct {
	child string
	err   error
}

func (e *refusedError) Error() string { return fmt.Sprintf("child %q: %v", e.child, e.err) }

func (e *refusedError) Unwrap() error { return e.err }

// keepChildren makes the children of an object what its plan says. One that fails
// does not keep the others from being made; what is not wanted is deleted only if
// none failed. refused is what a person has to see, err what time may mend.
func (c *controller) keepChildren(ctx context.Context, log *slog.Logger, name cache.ObjectName, owner *unstructured.Unstructured, p *plan, existing []existingChild) (refused, err error) {
	var errs, refusals []error
	for _, child := range p.children {
		err := c.keepChild(ctx, log, name, owner, child, existing)
		var refusal *refusedError
		switch {
		case errors.As(err, &refusal):
			refusals = append(refusals, refusal)
		case err != nil:
			errs = append(errs, fmt.Errorf("child %q: %w", child.Name, err))
		}
	}
	if p.keep != nil && len(errs)+len(refusals) == 0 {
		errs = c.prune(ctx, log, p, existing)
	}
	return errors.Join(refusals...), errors.Join(errs...)
}

// keepChild makes one child what its template says.
func (c *controller) keepChild(ctx context.Context, log *slog.Logger, name cache.ObjectName, owner *unstructured.Unstructured, child kind.Child, existing []existingChild) error {
	wanted, err := c.childObject(owner, child)
	if err != nil {
		return &refusedError{child.Name, err}
	}
	resource, ok := c.owned[wanted.GroupVersionKind()]
	if !ok {
		return &refusedError{child.Name, fmt.Errorf("its type %s is not among those that the kind owns; add it to owns in #%sController", wanted.GroupVersionKind(), c.kind.GroupVersionKind.Kind)}
	}
	i := slices.IndexFunc(existing, func(e existingChild) bool {
		return e.resource == resource && e.object.GetName() == wanted.GetName()
	})
	if i < 0 {
		if wait, err := c.nameIsTaken(resource, owner, wanted.GetName()); wait || err != nil {
			return err
		}
		return c.applyChild(ctx, log, name, owner, child.Name, resource, wanted, false)
	}
	is := existing[i].object
	switch {
	case is.GetDeletionTimestamp() != nil:
		return nil // its end queues the owner again
	case child.Update == kind.Never || contains(is.Object, wanted.Object):
		return nil
	case child.Update == kind.Recreate:
		return c.deleteChild(ctx, log, existing[i])
	}
	return c.applyChild(ctx, log, name, owner, child.Name, resource, wanted, true)
}

// nameIsTaken looks for a child of another object under the name of a child that is to be
// made. One of a former object of the owner's own name is about to be collected, and its
// end queues the owner again: that is waited for. Any other stays where it is.
func (c *controller) nameIsTaken(resource schema.GroupVersionResource, owner *unstructured.Unstructured, name string) (wait bool, err error) {
	other := c.children[resource].get(cache.ObjectName{Namespace: owner.GetNamespace(), Name: name})
	if other == nil {
		return false, nil
	}
	holder := metav1.GetControllerOf(other)
	switch {
	case holder == nil:
		return other.GetDeletionTimestamp() != nil, nil
	case holder.Kind == owner.GetKind() && holder.APIVersion == owner.GetAPIVersion() && holder.Name == owner.GetName():
		return true, nil
	}
	return false, &refusedError{name, fmt.Errorf("%s %q exists and is controlled by %s %q", resource.Resource, name, holder.Kind, holder.Name)}
}

// childObject completes the template of a child: with a name, the owner's namespace,
// the labels by which it is found, and a controller reference.
func (c *controller) childObject(owner *unstructured.Unstructured, child kind.Child) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(child.Template)}
	if namespace := object.GetNamespace(); namespace != "" && namespace != owner.GetNamespace() {
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: must be the namespace of its object, %q", namespace, owner.GetNamespace())
	}
	object.SetNamespace(owner.GetNamespace())
	if object.GetName() == "" {
		object.SetName(owner.GetName() + "-" + child.Name)
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = make(map[string]string, 3)
	}
	labels[labelManagedBy] = managedBy
	labels[labelOwnerUID] = string(owner.GetUID())
	labels[labelChild] = child.Name
	object.SetLabels(labels)
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: c.kind.GroupVersionKind.GroupVersion().String(), Kind: c.kind.GroupVersionKind.Kind,
		Name: owner.GetName(), UID: owner.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	return object, nil
}

// applyChild creates or corrects a child by server-side apply. Without force it does
// not take over an object that someone else has made under the same name.
func (c *controller) applyChild(ctx context.Context, log *slog.Logger, name cache.ObjectName, owner *unstructured.Unstructured, child string, resource schema.GroupVersionResource, wanted *unstructured.Unstructured, force bool) error {
	stored, err := c.config.Client.Resource(resource).Namespace(wanted.GetNamespace()).
		Apply(ctx, wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: c.fieldManager(), Force: force})
	switch {
	case err == nil:
		c.writes.rememberChild(name, owner.GetUID(), resource, stored.GetResourceVersion())
		log.Info("child applied", "child", child, "resource", resource.Resource, "name", stored.GetName())
		return nil
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return &refusedError{child, err}
	}
	return err
}

// prune deletes the children that the plan neither wants nor keeps.
func (c *controller) prune(ctx context.Context, log *slog.Logger, p *plan, existing []existingChild) []error {
	var errs []error
	for _, child := range existing {
		wanted := slices.ContainsFunc(p.children, func(w kind.Child) bool { return w.Name == child.name })
		if wanted || p.keep(child.name) || child.object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.deleteChild(ctx, log, child); err != nil {
			errs = append(errs, fmt.Errorf("child %q: %w", child.name, err))
		}
	}
	return errs
}

// deleteChild deletes exactly the object that the cache holds, not a newer one of the
// same name.
func (c *controller) deleteChild(ctx context.Context, log *slog.Logger, child existingChild) error {
	err := c.config.Client.Resource(child.resource).Namespace(child.object.GetNamespace()).
		Delete(ctx, child.object.GetName(), metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: new(child.object.GetUID())},
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		log.Info("child deleted", "child", child.name, "resource", child.resource.Resource, "name", child.object.GetName())
	}
	return err
}

// fieldManager is who owns the fields that this kind's controller writes.
func (c *controller) fieldManager() string {
	return "fescue/" + c.kind.GroupVersionResource().GroupResource().String()
}

// contains tells whether an object has everything that a template says. Fields that
// the template does not mention may be anything; lists must be as long as they are in
// the template, since it says them whole.
func contains(is, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, ok := is.(map[string]any)
		if !ok {
			return is == nil && len(wanted) == 0
		}
		for name, value := range wanted {
			if !contains(has[name], value) {
				return false
			}
		}
		return true
	case []any:
		has, ok := is.([]any)
		if !ok || len(has) != len(wanted) {
			return is == nil && len(wanted) == 0
		}
		for i := range wanted {
			if !contains(has[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(is, wanted)
}
