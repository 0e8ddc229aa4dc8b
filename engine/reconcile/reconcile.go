// Package reconcile is the loop of the engine: it looks at the cluster, has package plan decide, writes, and looks
// again, until nothing is left to do for an object. It knows nothing of caches, queues and requests: a World has them.
//
// The only turn of the loop, for an At that is created:
//
//	Look           it has no children
//	plan           phase "" → PENDING, which has nothing to do before the time of spec.schedule
//	Store          status.phase: PENDING
//	Next           rest, until that time
//
// For a phase with something to do, see package plan.
//
// # What it promises
//
//   - The finalizer of an object that needs one is there before anything else is written, and a phase is stored before
//     its children are.
//   - One Run ends. After maxLooks more looks, or when half of the budget is taken, the rest is left to the next one:
//     Again.
//   - A failure is told in the status after Patience failures, and a rejection at once.
//
// # What it leaves out
//
// When the next Run comes: the queue of a World decides by the Result. Panics, time limits, and that no two run for one
// object at once.
//
// # How it is proved
//
// The tests of this package play both examples over a World of their own, and those of engine/simulate many more. The
// World with caches and requests is that of
//
//	make simulate HISTORIES=1000
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// World is what a reconcile sees and changes: a cluster, or a simulated one.
type World interface {
	// Look observes what a decision about an object depends on. isLive requests that its children are read from the API
	// server itself. It returns ErrBehind if what it could show is older than the last writes.
	Look(ctx context.Context, object *unstructured.Unstructured, isLive bool) (*plan.View, error)
	// CarryOut carries out the steps of a comparison for the children of an object.
	CarryOut(ctx context.Context, object *unstructured.Unstructured, todo *plan.Comparison) *plan.Changes
	// Store writes the status of a plan and its outcome. It returns the object as the API server has it then: that of
	// the plan itself, if nothing new is stored. It rejects a write that is based on an older state of the object.
	Store(ctx context.Context, p *plan.Plan, o *plan.Outcome, status map[string]any) (*unstructured.Unstructured, error)
	// SetFinalizers writes the finalizers of an object, as Store its status.
	SetFinalizers(ctx context.Context, object *unstructured.Unstructured, names []string) (*unstructured.Unstructured,
		error)
}

// ErrBehind reports that a World does not show the last writes yet. What brings it up to date queues the object again.
var ErrBehind = errors.New("the caches do not have the last writes yet")

const (
	// maxLooks is how often one reconcile looks again: after it has stored a phase, or has created what the behaviour
	// reads.
	maxLooks = 8
	// Patience is how many reconciles may fail before the status shows why: most failures
	// are over with the next try.
	Patience = 3
)

// Request is what to reconcile.
type Request struct {
	Kind *kind.Kind
	// Object is its newest state that is known.
	Object *unstructured.Unstructured
	// Memory is what is remembered of the object; the reconcile changes it.
	Memory *plan.Memory
	// Failures is how many reconciles in a row have failed, been rejected or met a conflict.
	Failures int
	Now      func() time.Time
}

// Then is what is left after a reconcile.
type Then string

const (
	// Done means that nothing is left to do before something changes, or before Result.At.
	Done Then = "done"
	// Again means that more is left than one reconcile does, or that someone has changed the object meanwhile.
	Again Then = "again"
	// Failed means that retrying may help.
	Failed Then = "failed"
	// Rejected means that retrying does not help before someone changes something.
	Rejected Then = "rejected"
)

// Result is the result of a reconcile.
type Result struct {
	Then Then
	// At is when to reconcile although nothing has changed; zero means never.
	At time.Time
	// Recheck is after which time to reconcile in case an event is lost; 0 means never.
	Recheck time.Duration
	// Err is why a reconcile has failed, was rejected, or did not end because of a conflict.
	Err error
	// Event is what there is to tell; nil is nothing. Foreign are the objects that it is about for the first time, and
	// Problem the one that has begun.
	Event   *plan.Event
	Foreign []children.Live
	Problem *plan.Problem
	// Outcome is that of the last plan; nil if nothing was decided.
	Outcome *plan.Outcome
	// IsAbandoned means that an object was released before a terminal phase, because its namespace is being deleted.
	IsAbandoned bool
}

// Run decides what an object needs, writes it and reports it, a phase at a time, until nothing is left to do now.
func Run(ctx context.Context, w World, request Request) Result {
	r := &run{Request: request, world: w, object: request.Object}
	result := r.run(ctx)
	result.Event, result.Foreign = r.Memory.Tell(&r.news)
	result.Problem, result.Outcome = r.news.Problem(), r.last
	return result
}

// run is one reconcile.
type run struct {
	Request
	world  World
	object *unstructured.Unstructured
	rounds *plan.Rounds  // nil before the first look
	last   *plan.Outcome // nil before the first one
	news   plan.News
}

func (r *run) run(ctx context.Context) Result {
	switch isLeaving := r.object.GetDeletionTimestamp() != nil; {
	case isLeaving && !plan.HasFinalizer(r.Kind, r.object):
		return Result{Then: Done} // the garbage collector deletes the children
	case plan.IsOrphaning(r.object):
		return Result{Then: Done} // until they are no longer the object's
	case plan.IsUnused(r.Kind, r.object):
		return r.release(ctx)
	}
	next := plan.Look
	for again := 0; ; again++ {
		v, err := r.look(ctx, next == plan.LookLive)
		if errors.Is(err, ErrBehind) {
			r.end(next)
			return Result{Then: Done}
		}
		if err != nil {
			return failed(err)
		}
		p, o := r.converge(ctx, v)
		r.last = o
		if o.Failed != nil && r.Failures < Patience {
			return failed(o.Failed)
		}
		object, err := r.report(ctx, p, o)
		if err != nil {
			return failed(errors.Join(o.Failed, err))
		}
		r.object = object
		next = o.Next(object != p.Object)
		if next == plan.Look && (again >= maxLooks || v.IsLow()) {
			next = plan.Requeue
		}
		switch next {
		case plan.Release:
			result := r.release(ctx)
			result.IsAbandoned = result.Err == nil && o.Abandoned
			return result
		case plan.Requeue, plan.Rest:
			r.end(next)
			return r.finish(p, o, next)
		case plan.Look, plan.LookLive: // a live view is not doubted, so that never comes twice in a row
		}
	}
}

// look observes the cluster, and gives the object the finalizer that holds it for what follows its deletion, if it
// needs that, before anything else is written. The first look begins the rounds; the others know what has passed since.
func (r *run) look(ctx context.Context, isLive bool) (*plan.View, error) {
	v, err := r.world.Look(ctx, r.object, isLive)
	if err != nil {
		return nil, err
	}
	if r.last != nil {
		v.Passed = r.last.Passed
	}
	if plan.NeedsFinalizer(r.Kind, r.object, v, r.Now()) {
		if r.object, err = r.setFinalizers(ctx, true); err != nil {
			return nil, err
		}
	}
	if r.rounds == nil {
		r.rounds = r.Memory.Rounds(r.Kind, r.object, v, r.Now())
	}
	return v, nil
}

// converge decides and writes, until nothing is left that can be written now.
func (r *run) converge(ctx context.Context, v *plan.View) (*plan.Plan, *plan.Outcome) {
	attempt := r.rounds.Attempt(r.object, v, r.Now())
	for todo := attempt.Todo(r.Now()); todo != nil; todo = attempt.Todo(r.Now()) {
		attempt.Done(r.world.CarryOut(ctx, r.object, todo), r.Now())
	}
	p, o := attempt.Outcome(r.Now())
	r.news.Met(o, r.Memory)
	return p, o
}

// end remembers how the children are after the reconcile.
func (r *run) end(next plan.Next) {
	if r.last != nil {
		r.rounds.End(r.last, next)
	}
}

// finish returns the result of a reconcile that leaves nothing to do now, or the rest to another one.
func (r *run) finish(p *plan.Plan, o *plan.Outcome, next plan.Next) Result {
	result := Result{Then: Done, At: o.Due(p, r.object), Recheck: o.Recheck(), Err: errors.Join(o.Rejected, o.Failed)}
	switch {
	case next == plan.Requeue:
		result.Then, result.Err = Again, nil
	case o.Rejected != nil:
		result.Then = Rejected
	case o.Failed != nil:
		result.Then = failed(o.Failed).Then
	}
	return result
}

// failed returns the result of a reconcile that ends with an error.
func failed(err error) Result {
	_, isRejection := errors.AsType[*rejection](err)
	switch {
	case isRejection:
		return Result{Then: Rejected, Err: err}
	case apierrors.IsConflict(err):
		return Result{Then: Again, Err: err}
	}
	return Result{Then: Failed, Err: err}
}

// rejection is an answer to a write of the object itself that stays the same until someone changes something.
type rejection struct{ err error }

func (e *rejection) Error() string { return e.err.Error() }

func (e *rejection) Unwrap() error { return e.err }

// release lets an object go that is being deleted and for which nothing is left to do. A kind that has no use for the
// finalizer any more may not have the right to.
func (r *run) release(ctx context.Context) Result {
	_, err := r.setFinalizers(ctx, false)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return Result{Then: Done}
	case apierrors.IsForbidden(err) && !r.Kind.IsHeld():
		return failed(&rejection{errors.Join(err, fmt.Errorf(
			"the kind has neither onDelete nor children in other namespaces any more, and so no right to remove the finalizer %s: 'fescue migrate' removes it",
			plan.Finalizer))})
	}
	return failed(err)
}

// setFinalizers gives the object the finalizer of its kind, or takes it off.
func (r *run) setFinalizers(ctx context.Context, isKept bool) (*unstructured.Unstructured, error) {
	stored, err := r.world.SetFinalizers(ctx, r.object, plan.WithFinalizer(r.object, isKept))
	if err != nil {
		return nil, r.refused(fmt.Errorf("write metadata.finalizers: %w", plan.Conceal(r.Kind, err)))
	}
	return stored, nil
}

// refused returns the error of a write of the object itself. If the API server finds the object invalid whatever is
// written, no condition can say so, and an Event does.
func (r *run) refused(err error) error {
	if !apierrors.IsInvalid(err) {
		return err
	}
	r.news.Refused(err)
	return &rejection{err}
}

// report writes the status, or tells of an object whose status is not written. It returns the object as the API server
// has it.
func (r *run) report(ctx context.Context, p *plan.Plan, o *plan.Outcome) (*unstructured.Unstructured, error) {
	if r.Kind.Target != nil {
		r.news.Decorated(r.rounds, p, o)
		return p.Object, nil
	}
	object, err := r.store(ctx, p, o)
	if err != nil {
		return nil, err
	}
	return object, missing(p, o, object)
}

// store writes the status of an object if that is due. It returns the object as the API server has it.
func (r *run) store(ctx context.Context, p *plan.Plan, o *plan.Outcome) (*unstructured.Unstructured, error) {
	status, err := plan.Report(p, o)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if !o.IsDue(p, status) {
		return p.Object, nil
	}
	stored, err := r.world.Store(ctx, p, o, status)
	switch {
	case apierrors.IsInvalid(err) && p.Projection != nil:
		// The kind projects what its schema does not allow; the status shows that instead.
		invalid := fmt.Errorf("status: %w", p.ConcealStatus(err))
		instead, outcome := plan.Unreportable(p, o, invalid)
		_, err := r.store(ctx, instead, outcome)
		return nil, &rejection{errors.Join(invalid, err)}
	case isTooLarge(err) && len(p.Projection)+len(p.Conditions) > 0:
		short, outcome := plan.Shortened(p, o, err)
		return r.store(ctx, short, outcome)
	case err != nil:
		return nil, r.refused(fmt.Errorf("write status: %w", p.ConcealStatus(err)))
	}
	r.news.Stored(p, o)
	return stored, nil
}

// isTooLarge reports whether an object exceeds what the API server accepts, or what etcd or its client does, of which
// it answers a plain 500.
func isTooLarge(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(text, "etcdserver: request is too large") ||
		strings.Contains(text, "trying to send message larger than max")
}

// missing returns why an object that the API server has stored lacks what the engine has to find there.
func missing(p *plan.Plan, o *plan.Outcome, stored *unstructured.Unstructured) error {
	lost := ""
	switch {
	case p.Kind.PhaseOf(stored.Object) != p.Phase:
		lost = fmt.Sprintf("status.phase %q", p.Phase)
	case !p.IsScheduleRecorded(stored):
		lost = "status.lastScheduleTime"
	case !o.IsListed(stored), stored != p.Object && !o.RecordAt(p, stored).IsZero():
		lost = "status.childInventory"
	default:
		return nil
	}
	return fmt.Errorf("the API server did not keep %s: the installed CRD is older than the kind; upgrade it", lost)
}
