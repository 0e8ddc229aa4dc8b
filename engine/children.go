package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
)

// annotationTemplate holds a hash of the template that a child was last made or corrected
// by. It tells a changed template from fields that the API server or others have changed.
const annotationTemplate = "fescue.dev/template"

// existingChild is a child as the caches hold it.
type existingChild struct {
	name     string // as the kind calls it; empty if it has lost its label
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// changes is what became of the children of one plan.
type changes struct {
	// refused is what a person has to see, failed what time may mend.
	refused, failed error
	// waiting says that a child waits for the end of another object.
	waiting bool
}

// refusedError is an answer of the API server, or a rule of our own, that stays the
// same until a person changes something.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }

func (e *refusedError) Unwrap() error { return e.err }

// errWaiting says that a child cannot be made before another object is gone.
var errWaiting = errors.New("waiting for an object of the same name to be gone")

// keeper makes the children of one object what a plan says.
type keeper struct {
	*controller
	log      *slog.Logger
	name     cache.ObjectName
	owner    *unstructured.Unstructured
	existing []existingChild
}

// keepChildren makes the children of an object what its plan says. One that fails
// does not keep the others from being made; what is not wanted is deleted only if
// none failed.
func (c *controller) keepChildren(ctx context.Context, log *slog.Logger, name cache.ObjectName, owner *unstructured.Unstructured, p *plan, existing []existingChild) changes {
	k := &keeper{c, log, name, owner, existing}
	var done changes
	wanted := make(map[types.UID]bool)
	for _, child := range p.children {
		uid, err := k.keep(ctx, child)
		wanted[uid] = true
		if err == nil {
			continue
		}
		refusal, isRefused := errors.AsType[*refusedError](err)
		switch err := fmt.Errorf("child %q: %w", child.Name, err); {
		case errors.Is(err, errWaiting):
			done.waiting = true
		case isRefused:
			done.refused = errors.Join(done.refused, &refusedError{fmt.Errorf("child %q: %w", child.Name, refusal.err)})
		default:
			done.failed = errors.Join(done.failed, err)
		}
	}
	if p.prune && done == (changes{}) {
		done.failed = k.prune(ctx, wanted)
	}
	return done
}

// keep makes one child what its template says. It returns the UID of the child if it was
// there before.
func (k *keeper) keep(ctx context.Context, child kind.Child) (types.UID, error) {
	wanted, err := k.childObject(k.owner, child)
	if err != nil {
		return "", &refusedError{err}
	}
	resource, ok := k.owned[wanted.GroupVersionKind()]
	if !ok {
		return "", &refusedError{fmt.Errorf("its type %s is not among those that the kind owns; add it to owns in #%sController", wanted.GroupVersionKind(), k.kind.GroupVersionKind.Kind)}
	}
	i := slices.IndexFunc(k.existing, func(e existingChild) bool {
		return e.resource == resource && e.object.GetName() == wanted.GetName()
	})
	if i < 0 {
		return "", k.create(ctx, child, resource, wanted)
	}
	is := k.existing[i].object
	switch {
	case is.GetDeletionTimestamp() != nil:
		return is.GetUID(), errWaiting
	case !isOurs(is, wanted):
		return is.GetUID(), k.reclaim(ctx, resource, is, wanted)
	case child.Update == kind.Apply && !isCorrect(is, wanted):
		return is.GetUID(), k.apply(ctx, child.Name, resource, wanted, is.GetUID())
	case child.Update == kind.Recreate && !sameTemplate(is, wanted):
		if err := k.delete(ctx, k.existing[i]); err != nil {
			return is.GetUID(), err
		}
		return is.GetUID(), errWaiting
	}
	return is.GetUID(), nil
}

// create makes a child that the cache does not hold. The cache holds only objects with
// our label, so the API server is asked first: an object of the same name that is not
// this owner's is not taken over.
func (k *keeper) create(ctx context.Context, child kind.Child, resource schema.GroupVersionResource, wanted *unstructured.Unstructured) error {
	is, err := k.config.Client.Resource(resource).Namespace(wanted.GetNamespace()).Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return k.apply(ctx, child.Name, resource, wanted, "")
	}
	if err != nil {
		return err
	}
	holder := metav1.GetControllerOf(is)
	switch {
	case is.GetDeletionTimestamp() != nil:
		return errWaiting
	case holder != nil && holder.UID == k.owner.GetUID():
		return k.reclaim(ctx, resource, is, wanted)
	case holder == nil && is.GetLabels()[labelOwnerUID] == string(k.owner.GetUID()):
		return k.reclaim(ctx, resource, is, wanted)
	case holder == nil:
		return &refusedError{fmt.Errorf("%s %q exists and was not made for this object; rename or delete it", resource.Resource, is.GetName())}
	case holder.Kind == k.owner.GetKind() && holder.APIVersion == k.owner.GetAPIVersion() && holder.Name == k.owner.GetName():
		return errWaiting // it was a former object's of this name, and is about to be collected
	}
	return &refusedError{fmt.Errorf("%s %q exists and is controlled by %s %q", resource.Resource, is.GetName(), holder.Kind, holder.Name)}
}

// childObject completes the template of a child: with a name, the owner's namespace,
// the labels by which it is found, a hash of the template, and a controller reference.
func (c *controller) childObject(owner *unstructured.Unstructured, child kind.Child) (*unstructured.Unstructured, error) {
	template, err := json.Marshal(child.Template)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(child.Template)}
	if namespace := object.GetNamespace(); namespace != "" && namespace != owner.GetNamespace() {
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: must be the namespace of its object, %q", namespace, owner.GetNamespace())
	}
	object.SetNamespace(owner.GetNamespace())
	if object.GetName() == "" {
		object.SetName(owner.GetName() + "-" + child.Name)
	}
	hash := sha256.Sum256(template)
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{annotationTemplate: hex.EncodeToString(hash[:8])}))
	labels := map[string]string{labelManagedBy: managedBy, labelOwnerUID: string(owner.GetUID()), labelChild: child.Name}
	if child.Phase != "" {
		labels[labelPhase] = child.Phase
	}
	object.SetLabels(merged(object.GetLabels(), labels))
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: c.kind.GroupVersionKind.GroupVersion().String(), Kind: c.kind.GroupVersionKind.Kind,
		Name: owner.GetName(), UID: owner.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	return object, nil
}

// merged is a with what b says over it.
func merged(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// apply creates or corrects a child by server-side apply. uid is that of the child to
// correct, and empty for one to create, which must not win over what someone else has
// made meanwhile.
func (k *keeper) apply(ctx context.Context, child string, resource schema.GroupVersionResource, wanted *unstructured.Unstructured, uid types.UID) error {
	wanted.SetUID(uid)
	stored, err := k.config.Client.Resource(resource).Namespace(wanted.GetNamespace()).
		Apply(ctx, wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: k.fieldManager(), Force: uid != ""})
	switch {
	case err == nil:
		k.writes.rememberChild(k.name, k.owner.GetUID(), resource, stored.GetResourceVersion())
		k.log.Info("child applied", "child", child, "resource", resource.Resource, "name", stored.GetName())
		return nil
	case apierrors.IsConflict(err) && uid == "", apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), isUnknownField(err):
		return &refusedError{err}
	}
	return err
}

// isUnknownField tells whether the API server refused an apply because the template has a
// field that its type does not. It answers that with a plain 500 without a reason
// (structuredmerge.go in k8s.io/apimachinery/pkg/util/managedfields), so that only the
// text tells it from a fault of the server.
func isUnknownField(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.Status().Code == http.StatusInternalServerError &&
		strings.Contains(status.Status().Message, "failed to create typed patch object")
}

// reclaim gives a child back the labels and the controller reference that make it ours,
// and leaves the rest of it alone.
func (k *keeper) reclaim(ctx context.Context, resource schema.GroupVersionResource, is, wanted *unstructured.Unstructured) error {
	references := wanted.GetOwnerReferences()
	for _, other := range is.GetOwnerReferences() {
		if other.UID != k.owner.GetUID() {
			references = append(references, other)
		}
	}
	labels := make(map[string]string)
	for name, value := range wanted.GetLabels() {
		if slices.Contains(ownLabels, name) {
			labels[name] = value
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": is.GetUID(), "resourceVersion": is.GetResourceVersion(),
		"labels": labels, "ownerReferences": references,
	}})
	if err != nil {
		return err
	}
	stored, err := k.config.Client.Resource(resource).Namespace(is.GetNamespace()).
		Patch(ctx, is.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: k.fieldManager()})
	if err != nil {
		return err
	}
	k.writes.rememberChild(k.name, k.owner.GetUID(), resource, stored.GetResourceVersion())
	k.log.Info("child reclaimed", "resource", resource.Resource, "name", stored.GetName())
	return nil
}

// prune deletes the children that are of no phase and not wanted.
func (k *keeper) prune(ctx context.Context, wanted map[types.UID]bool) error {
	var errs []error
	for _, child := range k.existing {
		_, ofPhase := child.object.GetLabels()[labelPhase]
		if wanted[child.object.GetUID()] || ofPhase || child.name == "" || child.object.GetDeletionTimestamp() != nil {
			continue
		}
		if err := k.delete(ctx, child); err != nil {
			errs = append(errs, fmt.Errorf("child %q: %w", child.name, err))
		}
	}
	return errors.Join(errs...)
}

// delete deletes exactly the object that the cache holds, not a newer one of the same
// name.
func (k *keeper) delete(ctx context.Context, child existingChild) error {
	err := k.config.Client.Resource(child.resource).Namespace(child.object.GetNamespace()).
		Delete(ctx, child.object.GetName(), metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: new(child.object.GetUID())},
			PropagationPolicy: new(metav1.DeletePropagationBackground),
		})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		k.log.Info("child deleted", "child", child.name, "resource", child.resource.Resource, "name", child.object.GetName())
	}
	return err
}

// fieldManager is who owns the fields that this kind's controller writes.
func (c *controller) fieldManager() string {
	return "fescue/" + c.kind.GroupVersionResource().GroupResource().String()
}

// isOurs tells whether a child has the labels and the controller reference that it is
// wanted with.
func isOurs(is, wanted *unstructured.Unstructured) bool {
	for _, name := range ownLabels {
		if is.GetLabels()[name] != wanted.GetLabels()[name] {
			return false
		}
	}
	holder := metav1.GetControllerOfNoCopy(is)
	return holder != nil && holder.UID == wanted.GetOwnerReferences()[0].UID
}

func sameTemplate(is, wanted *unstructured.Unstructured) bool {
	return is.GetAnnotations()[annotationTemplate] == wanted.GetAnnotations()[annotationTemplate]
}

// isCorrect tells whether a child of ours was made by the template that is wanted now and
// still has everything that it says.
func isCorrect(is, wanted *unstructured.Unstructured) bool {
	said := wanted.DeepCopy()
	said.SetOwnerReferences(nil)
	return sameTemplate(is, wanted) && contains(is.Object, said.Object)
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
