package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// rejectedError is an answer of the API server, or a rule of the engine's own, that stays
// the same until someone changes something.
type rejectedError struct{ err error }

func (e *rejectedError) Error() string { return e.err.Error() }

func (e *rejectedError) Unwrap() error { return e.err }

// errWaiting reports that a child cannot be created before another object is gone.
var errWaiting = errors.New("waiting for an object of the same name to be gone")

// errNewKind reports that a part of the API server cannot look up the kind of the object yet.
var errNewKind = errors.New("the API server does not know the new kind everywhere yet, which takes up to half a minute")

// maxBatch is how many requests for members the objects of a kind may have in flight together, beside
// one for each worker, so that sets with a thousand members leave room for others at the API server.
const maxBatch = 64

// applier carries out steps for the children of one object.
type applier struct {
	*reconciliation
	owner *unstructured.Unstructured
	todo  *plan.Comparison
	// stays asks the API server once for the owner, if that is still one that keeps children.
	stays func() (*unstructured.Unstructured, error)
	// line follows once what leads to the owner.
	line func() (*children.Line, error)

	mu   sync.Mutex
	done plan.Changes
}

// CarryOut carries out the steps of a comparison, those with the same verb for one child
// together. A failure of one child does not prevent writing the others; children
// are pruned only if nothing failed.
func (r *reconciliation) CarryOut(
	ctx context.Context, owner *unstructured.Unstructured, todo *plan.Comparison,
) *plan.Changes {
	a := &applier{reconciliation: r, owner: owner, todo: todo, done: plan.Changes{Deleted: make(map[types.UID]bool)}}
	a.stays = sync.OnceValues(func() (*unstructured.Unstructured, error) { return r.stays(ctx, owner) })
	a.line = sync.OnceValues(func() (*children.Line, error) { return r.trace(ctx, owner) })
	a.ask(ctx)
	a.all(ctx, todo.Steps)
	if todo.MayPrune() && !a.done.IsObstructed() {
		a.all(ctx, todo.Prunes)
	} else {
		a.all(ctx, r.swaps.Release(r.kind, owner, a.done.Occupied, todo.Prunes))
	}
	return &a.done
}

// ask asks the caches and the API server what a comparison has to know. A question that is not answered is asked again
// by a later reconcile.
func (a *applier) ask(ctx context.Context) {
	for _, asked := range a.todo.Find {
		a.done.Found = append(a.done.Found, a.types.find(a.name, asked))
	}
	for _, s := range a.todo.Inspect {
		if live, err := a.client(s).Get(ctx, s.Name, metav1.GetOptions{}); err == nil {
			a.done.Inspected = append(a.done.Inspected, live)
		}
	}
	if s := a.todo.Try; s != nil {
		_, err := a.client(*s).Create(ctx, s.Wanted,
			metav1.CreateOptions{FieldManager: a.manager, DryRun: []string{metav1.DryRunAll}})
		a.done.NamespaceLeaving = apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	}
}

func (a *applier) all(ctx context.Context, steps []plan.Step) {
	failed := make(map[string]bool)
	for len(steps) > 0 {
		first, n := steps[0], 1
		for n < len(steps) && steps[n].Child == first.Child && steps[n].Verb == first.Verb {
			n++
		}
		if !failed[first.Child] {
			failed[first.Child] = !a.group(ctx, steps[:n])
		}
		steps = steps[n:]
	}
}

// group carries out steps of one verb for one child, in batches of 1, 2, 4, … at a time while there
// are spare requests, and none after a batch in which one failed: a rejection, as by a quota, is met a few times and
// not a thousand. It reports whether none failed.
func (a *applier) group(ctx context.Context, steps []plan.Step) bool {
	first, done := steps[0], 0
	var written []string
	for size := 1; done < len(steps); size = min(2*size, maxBatch) {
		extra := a.spare.take(min(size, len(steps)-done) - 1)
		batch := steps[done : done+1+extra]
		errs := make([]error, len(batch))
		carryOut := func(i int) {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = a.panicked(p)
				}
			}()
			errs[i] = a.step(ctx, batch[i])
		}
		var others sync.WaitGroup
		for i := 1; i < len(batch); i++ {
			others.Go(func() { carryOut(i) })
		}
		carryOut(0) // most have only this one, and a new goroutine would have to grow its stack for it
		others.Wait()
		a.spare.give(extra)
		done += len(batch)
		if !a.record(first.Child, errs) {
			return false
		}
		for i, err := range errs {
			if err == nil {
				written = append(written, batch[i].Called(a.owner))
			}
		}
	}
	if len(written) == 0 {
		return true
	}
	names := written[0]
	if len(written) > 1 {
		names = fmt.Sprintf("%s and %d more", names, len(written)-1)
	}
	a.log.Info("children changed", "child", first.Child, "verb", first.Verb, "resource", first.Resource.Resource,
		"name", names)
	return true
}

// record notes the errors of one batch, and reports whether the next one may begin.
func (a *applier) record(child string, errs []error) (ok bool) {
	ok = true
	for _, err := range errs {
		rejected, isRejected := errors.AsType[*rejectedError](err)
		switch {
		case err == nil:
		case errors.Is(err, errWaiting):
			a.done.Waiting = true
		case !ok: // the first is reported for all of them
		case isRejected:
			ok = false
			a.done.Rejected = errors.Join(a.done.Rejected, &rejectedError{a.todo.OfChild(child, rejected.err)})
		default:
			ok = false
			a.done.Failed = errors.Join(a.done.Failed, a.todo.OfChild(child, err))
		}
	}
	return ok
}

func (a *applier) step(ctx context.Context, s plan.Step) error {
	ctx = withWarnings(ctx, func(err error) { logWarning(a.log, a.todo.OfChild(s.Child, err)) })
	switch s.Verb {
	case plan.Create:
		return a.create(ctx, s)
	case plan.Apply:
		return a.correct(ctx, s)
	case plan.Adopt:
		return a.adopt(ctx, s)
	case plan.Delete:
		return a.delete(ctx, s)
	}
	return fmt.Errorf("unknown step %q", s.Verb)
}

func (a *applier) client(s plan.Step) dynamic.ResourceInterface {
	return a.config.Client.Resource(s.Resource).Namespace(s.Object().GetNamespace())
}

func (a *applier) writer(s plan.Step) dynamic.ResourceInterface {
	return a.config.Writer.Resource(s.Resource).Namespace(s.Object().GetNamespace())
}

// create creates a child that the cache does not hold. If an object of its name exists
// nevertheless, it is read: one that is not this owner's is not adopted.
func (a *applier) create(ctx context.Context, s plan.Step) error {
	if err := a.mayCreate(s); err != nil {
		return err
	}
	if err := a.mayRepeat(s); err != nil {
		return err
	}
	stored, err := a.writer(s).Create(ctx, s.Wanted, metav1.CreateOptions{
		// an apply rejects unknown fields in any case
		FieldManager: a.manager, FieldValidation: metav1.FieldValidationStrict,
	})
	if apierrors.IsAlreadyExists(err) {
		return a.meet(ctx, s)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) &&
		s.Wanted.GetNamespace() == a.owner.GetNamespace() {
		a.mu.Lock()
		a.done.NamespaceLeaving = true
		a.mu.Unlock()
	}
	return a.applied(s, stored, err)
}

// mayCreate returns errWaiting if a child is outside of the namespace of its owner, and the owner is gone or no longer
// lists that place: a cache that is behind, as after a change of the leader, would create what nobody deletes.
func (a *applier) mayCreate(s plan.Step) error {
	if a.kind.Target != nil || s.Wanted.GetNamespace() == a.owner.GetNamespace() {
		return nil
	}
	stored, err := a.stays()
	if err == nil && !children.IsListed(stored, s.Wanted) {
		return errWaiting
	}
	return err
}

// meet decides about an object that has the name of a child to create.
func (a *applier) meet(ctx context.Context, s plan.Step) error {
	live, err := a.client(s).Get(ctx, s.Wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errWaiting // it has gone meanwhile
	}
	if err != nil {
		return err
	}
	met, rejection := plan.Meet(a.kind, a.owner, s, live)
	switch met {
	case plan.Replace:
		return a.delete(ctx, plan.Step{Verb: plan.Delete, Child: s.Child, Resource: s.Resource, Name: s.Name,
			Live: live, Former: true, Foreground: true})
	case plan.Accept:
		a.remember(s, live)
		return nil
	case plan.Readopt:
		s.Verb, s.Live = plan.Adopt, live
		if err := a.adopt(ctx, s); err != nil {
			return err
		}
	case plan.Await:
		return errWaiting
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch met {
	case plan.Readopt:
		a.done.Adopted = append(a.done.Adopted, s)
	case plan.Rename:
		a.done.Taken = append(a.done.Taken, plan.Taken{Resource: s.Resource, Namespace: live.GetNamespace(),
			Name: live.GetName()})
	case plan.Occupy:
		a.done.Occupied = append(a.done.Occupied, plan.OccupiedBy(s.Resource, live))
	}
	if rejection != nil {
		return &rejectedError{rejection}
	}
	return nil
}

// correct gives a child all fields of its template by server-side apply.
func (a *applier) correct(ctx context.Context, s plan.Step) error {
	wanted := children.WithOwnMetadata(s.Wanted)
	wanted.SetUID(s.Live.GetUID()) // it must not overwrite what someone else has created meanwhile
	client := a.writer(s)
	var before *unstructured.Unstructured
	if s.TakesOver {
		var err error
		if before, s.Live, err = a.takeOver(ctx, s); err != nil {
			return err
		}
		client = a.client(s)
	}
	var stored *unstructured.Unstructured
	send := func(version string) (err error) {
		wanted.SetResourceVersion(version)
		stored, err = client.Apply(ctx, s.Name, wanted, metav1.ApplyOptions{FieldManager: a.manager, Force: true})
		if err == nil && s.TakesOver { // the writes that follow may fail
			a.awaitEvent(s, stored)
		}
		return err
	}
	err := a.ifOwned(ctx, s, send)
	if err == nil && s.TakesOver && children.IsEmptied(before.Object, wanted.Object, stored.Object) {
		err = send(stored.GetResourceVersion())
	}
	if err == nil && s.TakesOver {
		stored, err = a.ownDefaults(ctx, s, before, stored)
	}
	return a.applied(s, stored, err)
}

// ifOwned sends a write for the version of a child that the reconcile has seen. If the child has changed since, ifOwned
// reads it, and sends the write again if the child still belongs to the object, and is no copy if it was none. It does
// not write a child that has lost its owner reference: the garbage collector may have orphaned it, and an apply would
// give it the reference back.
func (a *applier) ifOwned(ctx context.Context, s plan.Step, send func(version string) error) error {
	version := s.Live.GetResourceVersion()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := send(version)
		switch {
		case !apierrors.IsConflict(err):
			return err
		case s.Stray: // someone may have adopted it
			return errWaiting
		}
		live, readErr := a.client(s).Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(readErr) || readErr == nil && !a.isSameChild(s.Live, live) {
			return errWaiting // for its event, which queues the owner
		}
		if readErr != nil {
			return readErr
		}
		version = live.GetResourceVersion()
		return err
	})
}

// isSameChild reports whether what a reconcile has decided of a child is right for its newer state too.
func (a *applier) isSameChild(before, after *unstructured.Unstructured) bool {
	return before.GetUID() == after.GetUID() && children.IsOwnedBy(after, a.owner) &&
		metav1.IsControlledBy(before, a.owner) == metav1.IsControlledBy(after, a.owner) &&
		children.IsCopy(before) == children.IsCopy(after)
}

// applied notes what the API server answered to a create or an apply.
func (a *applier) applied(s plan.Step, stored *unstructured.Unstructured, err error) error {
	if err != nil {
		return answer(err)
	}
	stored.SetManagedFields(nil)
	if s.Keeps {
		a.records.normalized.Remember(stored, s.Wanted, time.Now())
	}
	a.remember(s, stored)
	return nil
}

// answer tells an error that stays the same until someone changes something from others.
func answer(err error) error {
	switch {
	case isUnknownOwner(err):
		return fmt.Errorf("%w: %w", errNewKind, err)
	case isRejection(err):
		return &rejectedError{err}
	}
	return err
}

// isUnknownOwner reports whether the admission plugin OwnerReferencesPermissionEnforcement does not know the
// kind of the owner yet. It reads the list of kinds every 30 seconds (pkg/server/options/admission.go in
// k8s.io/apiserver), and forbids the child until then; only the text distinguishes that from a missing right
// (plugin/pkg/admission/gc in k8s.io/kubernetes).
func isUnknownOwner(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsForbidden(err) &&
		strings.Contains(status.Status().Message, "cannot find RESTMapping for APIVersion ")
}

// isRejection reports whether the API server will answer the same until someone changes
// something.
func isRejection(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsUnsupportedMediaType(err) || isUnknownField(err)
}

// isUnknownField reports whether the API server rejected an apply because the template has
// a field that its type does not. It answers that with a plain 500 without a reason
// (structuredmerge.go in k8s.io/apimachinery/pkg/util/managedfields), so that only the
// text distinguishes it from a fault of the server.
func isUnknownField(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.Status().Code == http.StatusInternalServerError &&
		strings.Contains(status.Status().Message, "failed to create typed patch object")
}

// stillOwns returns errWaiting if an event that is still to come may show that the garbage collector has orphaned the
// children: the owner is gone, or its deletion has changed since it was cached.
func (a *applier) stillOwns() error {
	owner, err := a.stays()
	if err == nil && owner.GetDeletionTimestamp() != nil && owner.GetResourceVersion() != a.shown {
		return errWaiting
	}
	return err
}

// adopt gives a child back the labels, the annotations and the controller reference by which it is found, and
// leaves the rest of it unchanged.
func (a *applier) adopt(ctx context.Context, s plan.Step) error {
	if err := a.stillOwns(); err != nil {
		return err
	}
	live, references := s.Live, s.Wanted.GetOwnerReferences()
	for _, other := range live.GetOwnerReferences() {
		if other.UID != a.owner.GetUID() {
			references = append(references, other)
		}
	}
	labels := make(map[string]any)
	for _, name := range children.OwnLabels {
		labels[name] = nil // one that it should not have
		if value, ok := s.Wanted.GetLabels()[name]; ok {
			labels[name] = value
		}
	}
	annotations := make(map[string]any)
	for _, name := range children.OwnAnnotations {
		annotations[name] = s.Wanted.GetAnnotations()[name]
	}
	if entered := children.Annotation(s.Wanted, children.AnnotationEntered); entered != "" {
		annotations[children.AnnotationEntered] = entered
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(),
		"labels": labels, "ownerReferences": references, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	stored, err := a.writer(s).Patch(ctx, live.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: a.manager})
	if err != nil {
		return answer(err)
	}
	stored.SetManagedFields(nil)
	a.remember(s, stored)
	return nil
}

// stays returns an owner as it is now, and errWaiting if it is gone or began to be deleted since it was cached. The
// cache may hear that the garbage collector orphaned a child before it hears why; a child that is adopted then would be
// collected with its former owner.
func (r *reconciliation) stays(
	ctx context.Context, owner *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	list, err := r.listNamed(ctx, r.resource, cache.MetaObjectToName(owner))
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		live := &list.Items[i]
		if live.GetUID() == owner.GetUID() &&
			(live.GetDeletionTimestamp() == nil || owner.GetDeletionTimestamp() != nil) {
			return live, nil
		}
	}
	return nil, errWaiting // for the event, which queues the object
}

// delete deletes exactly the object that the cache holds, not a newer one of the same
// name, nor a stray that someone has adopted.
func (a *applier) delete(ctx context.Context, s plan.Step) error {
	propagation := metav1.DeletePropagationBackground
	if s.Foreground {
		propagation = metav1.DeletePropagationForeground
	}
	// A child without a reference may be what --cascade=orphan has left: the cache may not have heard that its owner is
	// gone.
	if children.CanOwn(a.owner, s.Live) && !metav1.IsControlledBy(s.Live, a.owner) {
		if err := a.stillOwns(); err != nil {
			return err
		}
	}
	err := a.ifOwned(ctx, s, func(version string) error {
		return a.client(s).Delete(ctx, s.Live.GetName(), metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: new(s.Live.GetUID()), ResourceVersion: &version},
			PropagationPolicy: &propagation,
		})
	})
	_, isAnswer := errors.AsType[*apierrors.StatusError](err)
	switch {
	case errors.Is(err, errWaiting):
		return err
	case isRejection(err):
		return &rejectedError{err}
	case isAnswer && !apierrors.IsNotFound(err):
		return err
	case err == nil && s.Stray:
		a.mu.Lock()
		a.done.Strays = append(a.done.Strays, s)
		a.mu.Unlock()
	}
	// Without an answer it may have happened.
	a.records.rememberDelete(a.name, a.owner.GetUID(), s.Resource, s.Live, err == nil || isAnswer)
	a.mu.Lock()
	a.done.Deleted[s.Live.GetUID()] = true
	a.mu.Unlock()
	if err != nil && !isAnswer {
		return err
	}
	return nil
}

// remember notes an object as the API server answered it.
func (a *applier) remember(s plan.Step, stored *unstructured.Unstructured) {
	a.awaitEvent(s, stored)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done.Stored = append(a.done.Stored, children.Live{Name: s.Child, Resource: s.Resource, Object: stored})
}

// awaitEvent has the next reconcile wait until the caches have what the API server answered to a write of a child.
func (a *applier) awaitEvent(s plan.Step, stored *unstructured.Unstructured) {
	a.records.rememberChild(a.name, a.owner.GetUID(), s.Resource, stored)
}
