package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
)

const (
	// staleRecheck is when to reconcile an object again that waits for another object to be gone, and
	// how often to look for objects that wait for an event of a child in vain: a watch that broke may
	// have skipped it.
	staleRecheck = time.Second
	// staleLimit is how long a cache may take to see what was written before the API
	// server itself is read. A watch that broke is restarted within seconds.
	staleLimit = 15 * time.Second
	// namespaceRecheck is how often to ask whether the namespace of an object is being deleted that waits in a phase after
	// its own deletion: nothing reports that for an object without children.
	namespaceRecheck = 10 * time.Second
	// maxPhases is how many phases one reconcile may store.
	maxPhases = 8
	// patience is how many reconciles may fail before the status shows why: most failures
	// are over with the next try.
	patience = 3
)

// errUnfinished reports that an object needs more writes, or decisions, than one reconcile makes.
var errUnfinished = errors.New("more is left to do")

// reconciliation is one reconcile of an object.
type reconciliation struct {
	*controller
	name   cache.ObjectName
	log    *slog.Logger
	budget *kind.Budget
	news   plan.News
	// had is how many children there were at first.
	had int
	// shown is the version of an object that is being deleted up to which events have shown it before it was observed.
	shown string
}

// reconcileSafely recovers from a panic: one object must not stop the others.
func (r *reconciliation) reconcileSafely(ctx context.Context, object *unstructured.Unstructured) (wakeAt time.Time, err error) {
	defer r.recoverTo(&err)
	ctx = withWarnings(ctx, func(err error) { logWarning(r.log, plan.Conceal(r.kind, err)) })
	return r.reconcile(ctx, object)
}

// recoverTo turns a panic of the function that defers it into an error. Each goroutine needs its own.
func (r *reconciliation) recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
		r.metrics.panics.WithLabelValues(r.metrics.name).Inc()
		r.log.Error("reconcile panicked; this is a bug in Fescue", "panic", p, "stack", string(debug.Stack()))
	}
}

// reconcile decides from the caches what an object needs, writes it, and reports it. The object is the newest state
// that is known; it is nil if it is gone. wakeAt is when to reconcile again although nothing has changed; zero
// means never. Retrying may resolve an error.
func (r *reconciliation) reconcile(ctx context.Context, object *unstructured.Unstructured) (wakeAt time.Time, err error) {
	r.swaps.Forget(r.kind, r.name.AsNamespacedName())
	if object == nil {
		r.forget(r.name)
		return time.Time{}, nil
	}
	r.shown = r.shownOf(object).version
	switch isLeaving := object.GetDeletionTimestamp() != nil; {
	case isLeaving && !plan.IsKept(r.kind, object):
		return time.Time{}, nil // the garbage collector deletes the children
	case plan.IsOrphaning(object):
		return time.Time{}, nil // until they are no longer the object's
	case plan.IsUnused(r.kind, object):
		return time.Time{}, r.letGo(ctx, object)
	}
	seen, since := r.writes.seen(r.name, r.types)
	isStale := !seen && time.Since(since) > staleLimit
	fromServer := isStale || plan.MustBeSure(r.kind, object)
	if !seen && !fromServer {
		r.metrics.cacheWaits.WithLabelValues(r.metrics.name).Inc()
		return time.Time{}, nil // the event that is still to come queues the object again
	}
	if isStale {
		r.log.Warn("the caches have not seen the last writes; reading from the API server", "since", since)
	}
	defer r.tell(object)
	wakeAt, err = r.advance(ctx, object, fromServer)
	if apierrors.IsConflict(err) && r.writes.hasObject(r.name) {
		err = errors.Join(err, r.readAgain(ctx))
	}
	return wakeAt, err
}

// readAgain replaces what is remembered of the last write of an object by what the API server has. No cache shows a
// write that etcd lost when it was restored from an older copy, so each further write would be based on it.
func (r *reconciliation) readAgain(ctx context.Context) error {
	found, err := r.listNamed(ctx, r.resource, r.name)
	if err != nil {
		return fmt.Errorf("read the object again: %w", err)
	}
	for i := range found.Items {
		found.Items[i].SetManagedFields(nil)
		r.writes.rememberObject(r.name, &found.Items[i])
	}
	return nil
}

// listNamed reads the object of a name from the API server as a list, for which no right to get is needed.
func (c *controller) listNamed(ctx context.Context, resource schema.GroupVersionResource, name cache.ObjectName) (*unstructured.UnstructuredList, error) {
	return c.config.Client.Resource(resource).Namespace(name.Namespace).
		List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()})
}

// advance decides and writes until nothing is left to do, a phase at a time.
func (r *reconciliation) advance(ctx context.Context, object *unstructured.Unstructured, fromServer bool) (wakeAt time.Time, err error) {
	var passed []string
	var rounds *plan.Rounds
	for stored := 0; ; stored++ {
		isEntering := plan.IsEntering(r.kind, object)
		v, err := r.look(ctx, object, fromServer || isEntering)
		if isEntering && !fromServer && apierrors.IsForbidden(err) {
			v, err = r.look(ctx, object, false) // a right that was withdrawn must not keep the object
		}
		if err != nil {
			return time.Time{}, err
		}
		v.Passed = passed
		if object, err = r.keep(ctx, object, v); err != nil {
			return time.Time{}, err
		}
		if rounds == nil {
			r.had = plan.Living(v.Children)
			progress := r.progress.of(r.name)
			defer r.progress.keep(r.name, progress)
			rounds = progress.Begin(r.kind, object, v, time.Now())
		}
		p, o, blocked := r.converge(ctx, object, v, rounds)
		if o.Failed != nil && r.queue.NumRequeues(r.name) < patience {
			return time.Time{}, o.Failed
		}
		object, err = r.store(ctx, p, o)
		if err != nil {
			return time.Time{}, err
		}
		if o.Over {
			return time.Time{}, r.leave(ctx, object, o)
		}
		passed = o.Passed
		if o.Doubted && !fromServer {
			fromServer = true
			continue
		}
		isAgain := !blocked && o.GoesOn(p, object)
		if o.Unfinished || isAgain && (stored == maxPhases || r.budget.IsLow()) {
			rounds.End(o.Children, false)
			return nextReconcile(p, o, object), errUnfinished
		}
		if !isAgain {
			rounds.End(o.Children, !blocked)
			return nextReconcile(p, o, object), errors.Join(o.Rejected, o.Failed)
		}
		if seen, _ := r.writes.seen(r.name, r.types); !seen {
			rounds.End(o.Children, false)
			return time.Time{}, nil // as for any reconcile
		}
	}
}

// look observes the cluster, from the caches or from the API server itself.
func (r *reconciliation) look(ctx context.Context, object *unstructured.Unstructured, fromServer bool) (*plan.View, error) {
	if fromServer {
		r.metrics.liveReads.WithLabelValues(r.metrics.name).Inc()
		r.writes.readLive(r.name)
	}
	return r.observe(ctx, r.budget, object, fromServer)
}

// converge decides and writes, as far as nothing is held. blocked reports that nothing more can be
// done now.
func (r *reconciliation) converge(ctx context.Context, object *unstructured.Unstructured, v *plan.View, rounds *plan.Rounds) (p *plan.Plan, o *plan.Outcome, blocked bool) {
	p, o = plan.Converge(r.kind, object, v, time.Now(), func(todo *plan.Comparison) *plan.Changes {
		return rounds.Apply(todo, time.Now(), func(todo *plan.Comparison) *plan.Changes { return r.apply(ctx, object, todo) })
	})
	r.numbers.remember(object, o.Numbers)
	r.remember(p.Unrecorded())
	p, o, blocked = rounds.Converged(p, o, time.Now())
	r.news.Met(o, r.isTold)
	if contested, next := r.contests.problem(object); contested != nil {
		o.WakeAt = earlier(o.WakeAt, next)
		if o.Stalled == nil {
			o.Stalled = contested
		}
	}
	return p, o, blocked
}

// remember keeps what the next reconcile has to know of this one.
func (r *reconciliation) remember(seen *plan.Unrecorded) {
	if seen == nil {
		r.unrecorded.Delete(r.name)
		return
	}
	r.unrecorded.Store(r.name, seen)
}

// store writes the status, and returns the object with it.
func (r *reconciliation) store(ctx context.Context, p *plan.Plan, o *plan.Outcome) (*unstructured.Unstructured, error) {
	if r.kind.Target != nil {
		r.report(p, o)
		return p.Object, nil
	}
	object, err := r.writeStatus(ctx, p, o)
	switch {
	case err != nil:
		return nil, errors.Join(o.Failed, err)
	case r.kind.PhaseOf(object.Object) != p.Phase:
		return nil, fmt.Errorf("the API server did not keep status.phase %q: the installed CRD is older than the kind; upgrade it", p.Phase)
	case !p.IsScheduleRecorded(object):
		return nil, errors.New("the API server did not keep status.lastScheduleTime: the installed CRD is older than the kind; upgrade it")
	case !o.IsListed(object), object != p.Object && !o.RecordAt(p, object).IsZero():
		return nil, errors.New("the API server did not keep status.childInventory: the installed CRD is older than the kind; upgrade it")
	}
	return object, nil
}

// nextReconcile returns when to reconcile again: when the outcome requests it, when children of the object, which is as
// the API server has it, must be recorded, or soon if it waits for another object to be gone, which an event might fail
// to report.
func nextReconcile(p *plan.Plan, o *plan.Outcome, object *unstructured.Unstructured) time.Time {
	next := earlier(o.WakeAt, o.RecordAt(p, object))
	if o.Lingers {
		next = earlier(next, p.At.Add(namespaceRecheck))
	}
	if o.Waiting {
		return earlier(next, p.At.Add(staleRecheck))
	}
	return next
}

// writeStatus writes the status of an object if that is due. It returns the object as the API server has it.
func (r *reconciliation) writeStatus(ctx context.Context, p *plan.Plan, o *plan.Outcome) (*unstructured.Unstructured, error) {
	status, err := plan.Report(p, o)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if !o.IsDue(p, status) {
		return p.Object, nil
	}
	wanted := &unstructured.Unstructured{Object: with(p.Object.Object, "status", any(status))}
	// The resource version in wanted makes the API server reject a write that is based
	// on an older state of the object.
	ctx = withWarnings(ctx, func(err error) { logWarning(r.log, p.ConcealStatus(err)) })
	stored, isOther, err := r.writes.write(r.name, wanted.GetUID(), func() (*unstructured.Unstructured, error) {
		return r.config.Writer.Resource(r.resource).Namespace(r.name.Namespace).
			UpdateStatus(ctx, wanted, metav1.UpdateOptions{FieldManager: r.manager})
	})
	if apierrors.IsInvalid(err) && p.Projection != nil {
		// The kind projects what its schema does not allow; the status shows that instead.
		rejected := &rejectedError{fmt.Errorf("status: %w", p.ConcealStatus(err))}
		p, o := plan.Unreportable(p, o, rejected)
		_, err := r.writeStatus(ctx, p, o)
		return nil, errors.Join(rejected, err)
	}
	if isTooLarge(err) && len(p.Projection)+len(p.Conditions) > 0 {
		p, o := plan.Shortened(p, o, err)
		return r.writeStatus(ctx, p, o)
	}
	if err != nil {
		return nil, r.refused(fmt.Errorf("write status: %w", p.ConcealStatus(err)))
	}
	if cached := r.objects.Get(r.name); cached != nil {
		r.writes.cached(r.name, cached)
	}
	if isOther {
		r.queue.Add(r.name)
	}
	r.logStored(p, o)
	r.news.Stored(p, o)
	if stored.GetResourceVersion() == p.Object.GetResourceVersion() {
		return p.Object, nil // what the API server stores of it is what it had
	}
	return stored, nil
}

// refused returns the error of a write of the object itself. If the API server finds the object invalid whatever is written,
// no condition can say so, and an Event does.
func (r *reconciliation) refused(err error) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	r.news.Refused(err)
	return &rejectedError{err}
}

// isTooLarge reports whether an object exceeds what the API server accepts, or etcd, of which it answers a plain 500.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
}

// logStored logs what the status that was stored shows.
func (r *reconciliation) logStored(p *plan.Plan, o *plan.Outcome) {
	for _, t := range p.Transitions {
		r.log.Info("phase changed", "from", t.From, "to", t.To)
	}
	if stalled := plan.JustStalled(p, o); stalled != nil {
		if o.Rejected != nil && stalled.Message == o.Rejected.Error() { // the log has one line for the same error of many objects
			r.log.Warn("object is stalled", "reason", stalled.Reason, "error", o.Rejected)
		} else {
			r.log.Warn("object is stalled", "reason", stalled.Reason, "message", stalled.Message)
		}
	}
	if late := plan.JustLate(p, o); late != nil {
		r.log.Warn("object is not ready in time", "message", late.Message)
	}
	if missed := plan.JustMissed(p); missed != nil {
		r.log.Warn("a time of the schedule was missed", "message", missed.Message)
	}
}

// isTold reports whether a foreign object was told of; each is once.
func (r *reconciliation) isTold(foreign types.UID) bool {
	_, told := r.told.Load(foreign)
	return told
}

// tell records the Event about what has happened.
func (r *reconciliation) tell(object *unstructured.Unstructured) {
	event, told := r.news.Event()
	for _, foreign := range told {
		r.told.Store(foreign.Object.GetUID(), true)
		r.log.Warn("found a foreign object", "resource", foreign.Resource.Resource, "name", foreign.Object.GetName())
	}
	if event == nil || event.Type == corev1.EventTypeNormal && r.config.OnlyWarnings {
		return
	}
	var related runtime.Object // a nil pointer would be one
	if event.Related != nil {
		related = event.Related
	}
	r.config.Events.Eventf(object, related, event.Type, event.Reason, event.Action, "%s", event.Note)
}
