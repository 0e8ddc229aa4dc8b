package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

// changes is what became of the steps of one pass.
type changes struct {
	mu sync.Mutex
	// stored are objects as the API server answered, and deleted are those that were
	// deleted.
	stored  []existingChild
	deleted map[types.UID]bool
	// taken are names that belong to objects which are not ours.
	taken []takenName
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

// maxBatch is how many requests one object may have under way, so that one with a thousand
// members leaves the API server to others as well.
const maxBatch = 64

// hand carries out steps for one object.
type hand struct {
	*controller
	log   *slog.Logger
	name  cache.ObjectName
	owner *unstructured.Unstructured
	done  *changes
}

// carryOut makes the steps of one pass, those that do the same for one child together.
// What fails for one child does not keep the others from being made; what is not wanted
// any more is deleted only if nothing failed.
func (c *controller) carryOut(ctx context.Context, log *slog.Logger, name cache.ObjectName, owner *unstructured.Unstructured, todo *comparison) *changes {
	h := &hand{c, log, name, owner, &changes{deleted: make(map[types.UID]bool)}}
	h.all(ctx, todo.steps)
	if done := h.done; todo.refused == nil && !todo.waiting && done.refused == nil && done.failed == nil && !done.waiting {
		h.all(ctx, todo.prunes)
	}
	return h.done
}

func (h *hand) all(ctx context.Context, steps []step) {
	failed := make(map[string]bool)
	for len(steps) > 0 {
		first, n := steps[0], 1
		for n < len(steps) && steps[n].child == first.child && steps[n].verb == first.verb {
			n++
		}
		if !failed[first.child] {
			failed[first.child] = !h.group(ctx, steps[:n])
		}
		steps = steps[n:]
	}
}

// group makes steps of one sort for one child, in batches of 1, 2, 4, … at a time, and
// none after a batch in which one failed: what is refused, as by a quota, is refused a few
// times and not a thousand. It tells whether all were made.
func (h *hand) group(ctx context.Context, steps []step) bool {
	first, made := steps[0], 0
	for size := 1; made < len(steps); size = min(2*size, maxBatch) {
		batch := steps[made:min(made+size, len(steps))]
		errs := make([]error, len(batch))
		var running sync.WaitGroup
		for i, s := range batch {
			running.Go(func() { errs[i] = h.step(ctx, s) })
		}
		running.Wait()
		made += len(batch)
		if !h.record(first.child, errs) {
			return false
		}
	}
	names := first.name()
	if len(steps) > 1 {
		names = fmt.Sprintf("%s and %d more", names, len(steps)-1)
	}
	h.log.Info("children changed", "child", first.child, "verb", first.verb, "resource", first.resource.Resource, "name", names)
	return true
}

// record notes the errors of one batch, and tells whether the next one may be made.
func (h *hand) record(child string, errs []error) (ok bool) {
	ok = true
	for _, err := range errs {
		refusal, isRefused := errors.AsType[*refusedError](err)
		switch {
		case err == nil:
		case errors.Is(err, errWaiting):
			h.done.waiting = true
		case !ok: // the first says it for all of them
		case isRefused:
			ok = false
			h.done.refused = errors.Join(h.done.refused, &refusedError{fmt.Errorf("child %q: %w", child, refusal.err)})
		default:
			ok = false
			h.done.failed = errors.Join(h.done.failed, fmt.Errorf("child %q: %w", child, err))
		}
	}
	return ok
}

func (h *hand) step(ctx context.Context, s step) error {
	ctx, span := h.traceWrite(ctx, string(s.verb), s.resource.GroupResource(), cache.ObjectName{Namespace: h.owner.GetNamespace(), Name: s.name()})
	err := h.make(ctx, s)
	endWrite(span, err)
	return err
}

func (h *hand) make(ctx context.Context, s step) error {
	switch s.verb {
	case verbCreate:
		return h.create(ctx, s)
	case verbApply:
		return h.apply(ctx, s)
	case verbAdopt:
		return h.adopt(ctx, s, s.is)
	case verbDelete:
		return h.delete(ctx, s)
	}
	return fmt.Errorf("unknown step %q", s.verb)
}

func (h *hand) client(s step) dynamic.ResourceInterface {
	return h.config.Client.Resource(s.resource).Namespace(h.owner.GetNamespace())
}

// createOnly is a resource version that no object has, since etcd counts from 1 and its
// first write makes 2. Server-side apply of it creates an object that is not there, and is
// refused as a conflict by one that is.
const createOnly = "1"

// create makes a child that the cache does not hold. If an object of its name is there
// nevertheless, it is asked for: one that is not this owner's is not taken over.
func (h *hand) create(ctx context.Context, s step) error {
	wanted := named(s.wanted, s.wanted.GetName())
	wanted.SetResourceVersion(createOnly)
	stored, err := h.client(s).Apply(ctx, wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: h.fieldManager(), Force: true})
	if apierrors.IsConflict(err) {
		return h.meet(ctx, s)
	}
	return h.applied(s, stored, err)
}

// meet decides about an object that has the name of a child to create.
func (h *hand) meet(ctx context.Context, s step) error {
	is, err := h.client(s).Get(ctx, s.wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errWaiting // it has gone meanwhile
	}
	if err != nil {
		return err
	}
	holder := metav1.GetControllerOf(is)
	isOwn := isChildOf(is, h.owner, ownerName(h.kind, h.owner.GetName())) && (holder == nil || holder.UID == h.owner.GetUID())
	_, ofSet := h.kind.Sets[s.child]
	switch {
	case isOwn && is.GetDeletionTimestamp() == nil:
		// The cache is behind, or it lost the label by which it is watched.
		if !isOurs(is, s.wanted) {
			return h.adopt(ctx, s, is)
		}
		h.remember(s, is)
		return nil
	case ofSet:
		h.done.mu.Lock()
		defer h.done.mu.Unlock()
		h.done.taken = append(h.done.taken, takenName{s.resource, is.GetName()})
		return nil
	case is.GetDeletionTimestamp() != nil:
		return errWaiting
	case holder == nil:
		return &refusedError{fmt.Errorf("%s %q exists and was not made for this object; rename or delete it", s.resource.Resource, is.GetName())}
	case holder.Kind == h.owner.GetKind() && holder.APIVersion == h.owner.GetAPIVersion() && holder.Name == h.owner.GetName():
		return errWaiting // it was a former object's of this name, and is about to be collected
	}
	return &refusedError{controlledBy(s.resource, is, holder)}
}

// apply corrects a child by server-side apply.
func (h *hand) apply(ctx context.Context, s step) error {
	wanted := named(s.wanted, s.wanted.GetName())
	wanted.SetUID(s.is.GetUID()) // it must not win over what someone else has made meanwhile
	stored, err := h.client(s).Apply(ctx, wanted.GetName(), wanted, metav1.ApplyOptions{FieldManager: h.fieldManager(), Force: true})
	return h.applied(s, stored, err)
}

// applied notes what the API server answered to an apply.
func (h *hand) applied(s step, stored *unstructured.Unstructured, err error) error {
	switch {
	case err == nil:
		stored.SetManagedFields(nil)
		if s.keeps {
			h.settled.remember(stored, s.wanted)
		}
		h.remember(s, stored)
		return nil
	case isRefusal(err):
		return &refusedError{err}
	}
	return err
}

// isRefusal tells whether the API server will answer the same until a person changes
// something.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsUnsupportedMediaType(err) || isUnknownField(err)
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

// adopt gives a child back the labels and the controller reference that make it ours,
// and leaves the rest of it alone.
func (h *hand) adopt(ctx context.Context, s step, is *unstructured.Unstructured) error {
	references := s.wanted.GetOwnerReferences()
	for _, other := range is.GetOwnerReferences() {
		if other.UID != h.owner.GetUID() {
			references = append(references, other)
		}
	}
	ours := make(map[string]any)
	for _, name := range ownLabels {
		ours[name] = nil // one that it should not have
		if value, ok := s.wanted.GetLabels()[name]; ok {
			ours[name] = value
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": is.GetUID(), "resourceVersion": is.GetResourceVersion(),
		"labels": ours, "ownerReferences": references,
		"annotations": map[string]any{annotationOwner: s.wanted.GetAnnotations()[annotationOwner]},
	}})
	if err != nil {
		return err
	}
	stored, err := h.client(s).Patch(ctx, is.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: h.fieldManager()})
	if isRefusal(err) {
		return &refusedError{err}
	}
	if err != nil {
		return err
	}
	stored.SetManagedFields(nil)
	h.remember(s, stored)
	return nil
}

// delete deletes exactly the object that the cache holds, not a newer one of the same
// name.
func (h *hand) delete(ctx context.Context, s step) error {
	conditions := metav1.Preconditions{UID: new(s.is.GetUID())}
	if s.stray {
		conditions.ResourceVersion = new(s.is.GetResourceVersion()) // someone may have adopted it
	}
	err := h.client(s).Delete(ctx, s.is.GetName(), metav1.DeleteOptions{
		Preconditions: &conditions, PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	_, isAnswer := errors.AsType[*apierrors.StatusError](err)
	switch {
	case s.stray && apierrors.IsConflict(err):
		return errWaiting // for its event, to look again
	case isRefusal(err):
		return &refusedError{err}
	case isAnswer && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err): // a conflict: another object has the name by now
		return err
	case err == nil && s.stray:
		h.recordStray(s)
	}
	// Without an answer it may have happened.
	h.writes.rememberDelete(h.name, h.owner.GetUID(), s.resource, s.is)
	h.done.mu.Lock()
	h.done.deleted[s.is.GetUID()] = true
	h.done.mu.Unlock()
	if err != nil && !isAnswer {
		return err
	}
	return nil
}

// remember notes an object as the API server answered it.
func (h *hand) remember(s step, stored *unstructured.Unstructured) {
	h.writes.rememberChild(h.name, h.owner.GetUID(), s.resource, stored.GetResourceVersion())
	h.done.mu.Lock()
	defer h.done.mu.Unlock()
	h.done.stored = append(h.done.stored, newExistingChild(s.resource, stored))
}

// fieldManager is who owns the fields that this kind's controller writes.
func (c *controller) fieldManager() string {
	return "fescue/" + c.kind.Name()
}

// isChildOf tells whether an object was made for an owner: it has its controller
// reference or, without any, its label or its name.
func isChildOf(object, owner *unstructured.Unstructured, ownerName string) bool {
	if object.GetNamespace() != owner.GetNamespace() {
		return false
	}
	keys, err := indexByOwner(object)
	return err == nil && (slices.Contains(keys, string(owner.GetUID())) || slices.Contains(keys, ownerName))
}
