package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

const (
	// staleRecheck is when to look again at an object that waits for an event of a child: a
	// watch that broke may have skipped it. It costs a pass, and no request.
	staleRecheck = time.Second
	// staleLimit is how long a cache may take to see what was written before the API
	// server is asked itself. A watch that broke is made again within seconds.
	staleLimit = 15 * time.Second
	// maxRounds is how often one pass may find something to write after it has written
	// all that it found before. What is left then is for the next pass, so that the status
	// says in between how far it is.
	maxRounds = 8
	// patience is how many passes may fail before the status says why: most of what fails
	// is over with the next try.
	patience = 3
)

// reconcile makes one pass for an object, which is nil if it is gone: it decides what to do
// from the caches, does it, and reports it. wakeAt is when to come back although nothing has
// changed; zero means never. An error is one that time may mend.
func (c *controller) reconcile(ctx context.Context, log *slog.Logger, name cache.ObjectName, cached *unstructured.Unstructured) (wakeAt time.Time, err error) {
	if cached == nil {
		c.forget(name)
		return time.Time{}, nil
	}
	if cached.GetDeletionTimestamp() != nil {
		return time.Time{}, nil // the garbage collector takes the children
	}
	ok, since := c.writes.seen(name, c)
	isLive := !ok && time.Since(since) > staleLimit
	if !ok && !isLive {
		c.metrics.cacheWaits.WithLabelValues(c.metrics.name).Inc()
		// The event that is still to come queues the object again.
		return time.Now().Add(staleRecheck), nil
	}
	object := c.writes.newest(name, cached)
	for {
		var v *view
		if isLive {
			log.Warn("the caches have not seen what was written; the API server is asked", "since", since)
			c.metrics.liveReads.WithLabelValues(c.metrics.name).Inc()
			v, err = c.lookAgain(ctx, object)
			c.writes.readLive(name)
		} else {
			v, err = c.look(object)
		}
		if err != nil {
			return time.Time{}, err
		}
		now := time.Now()
		p, done, err := keepChildren(c.kind, object, v, now, func(todo *comparison) *changes {
			return c.carryOut(ctx, log, name, object, todo)
		})
		if err != nil {
			return time.Time{}, err
		}
		if done.failed != nil {
			if c.queue.NumRequeues(name) < patience {
				return time.Time{}, done.failed
			}
			p.trouble = done.failed.Error()
		}
		if err := c.takeUp(p, object); err != nil {
			return time.Time{}, err
		}
		object, err = c.writeStatus(ctx, log, name, object, p, now)
		if err != nil {
			return time.Time{}, errors.Join(done.failed, err)
		}
		if kind.PhaseOf(object.Object) != p.phase {
			return time.Time{}, fmt.Errorf("the API server did not keep status.phase %q: the installed CRD is older than the kind; upgrade it", p.phase)
		}
		if done.refused != nil || done.failed != nil || p.stalled != nil || !p.again || done.waiting {
			return c.nextLook(name, p, done, now), errors.Join(done.refused, done.failed)
		}
	}
}

// keepChildren plans for an object and has the plan carried out, until there is nothing
// left to write. What it returns is the plan for the object and its children as they are
// then. An error is about the object's own status.
func keepChildren(k *kind.Kind, object *unstructured.Unstructured, v *view, now time.Time, carryOut func(*comparison) *changes) (*plan, *changes, error) {
	done := &changes{}
	for rounds := 0; ; {
		p := makePlan(k, object.Object, v.observed(k, object), now)
		todo := compare(k, object, p, v)
		isDone := len(todo.steps) == 0 && len(todo.prunes) == 0
		if isDone || rounds == maxRounds || done.refused != nil || done.failed != nil || done.waiting {
			done.waiting = done.waiting || todo.waiting
			err := p.settle(k, object, todo.states, errors.Join(todo.refused, done.refused), now)
			if rounds == maxRounds && !isDone {
				p.wakeAt = now
			}
			return p, done, err
		}
		done = carryOut(todo)
		if len(done.stored)+len(done.deleted) > 0 || len(done.taken) == 0 {
			rounds++ // names that were taken are tried until one is free
		}
		v = v.with(done)
	}
}

// nextLook is when a pass that is over wants the next one: when its plan says, or soon if
// it waits for something that an event might fail to tell.
func (c *controller) nextLook(name cache.ObjectName, p *plan, done *changes, now time.Time) time.Time {
	soon := now.Add(staleRecheck)
	if (done.waiting || c.writes.pending(name)) && (p.wakeAt.IsZero() || soon.Before(p.wakeAt)) {
		return soon
	}
	return p.wakeAt
}

func (c *controller) hasSeen(resource schema.GroupVersionResource, namespace, version string) bool {
	w := c.types.watches()[resource]
	return w == nil || w.HasSeen(namespace, version)
}

func (c *controller) hasLost(resource schema.GroupVersionResource, name cache.ObjectName, uid types.UID) bool {
	return !slices.ContainsFunc(c.types.watchesOf(resource), func(w *informers.Watch) bool { return !w.HasLost(name, uid) })
}

// writeStatus reports a plan in the status of its object if that says something new,
// and records the Events that belong to it. It returns the object as it is then.
func (c *controller) writeStatus(ctx context.Context, log *slog.Logger, name cache.ObjectName, object *unstructured.Unstructured, p *plan, now time.Time) (*unstructured.Unstructured, error) {
	status, err := report(c.kind, object.Object, object.GetGeneration(), p, now)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if equality.Semantic.DeepEqual(object.Object["status"], any(status)) {
		return object, nil
	}
	wanted := object.DeepCopy()
	wanted.Object["status"] = status
	// The resource version in wanted makes the API server refuse a write that is based
	// on an older state of the object.
	writing, span := c.traceWrite(ctx, "update", schema.GroupResource{Group: c.kind.GroupVersionKind.Group, Resource: c.kind.Names.Plural + "/status"}, name)
	stored, err := c.config.Client.Resource(c.kind.GroupVersionResource()).Namespace(name.Namespace).
		UpdateStatus(writing, wanted, metav1.UpdateOptions{FieldManager: c.fieldManager()})
	endWrite(span, err)
	if apierrors.IsInvalid(err) && p.projection != nil {
		// The kind projects what its schema does not allow; the status says so instead.
		refusal := &refusedError{fmt.Errorf("status: %w", err)}
		_, err := c.writeStatus(ctx, log, name, object, &plan{
			phase: kind.PhaseOf(object.Object), entered: enteredAt(object.Object), notReadySince: p.notReadySince, uptake: p.uptake,
			stalled: &problem{reasonEvaluation, refusal.Error()},
		}, now)
		return nil, errors.Join(refusal, err)
	}
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	stored.SetManagedFields(nil)
	c.writes.rememberObject(name, stored)
	if cached := c.objects.Get(name); cached != nil {
		c.writes.cached(name, cached)
	}
	c.recordEvents(log, object, p)
	return stored, nil
}

// recordEvents tells people of transitions and of a problem that is new.
func (c *controller) recordEvents(log *slog.Logger, before *unstructured.Unstructured, p *plan) {
	for _, t := range p.transitions {
		log.Info("phase changed", "from", t.from, "to", t.to)
		note := "entered phase " + t.to
		if t.from != "" {
			note = fmt.Sprintf("phase changed from %s to %s", t.from, t.to)
		}
		c.config.Events.Eventf(before, nil, corev1.EventTypeNormal, t.to, "ChangePhase", "%s", note)
	}
	if p.stalled != nil && !stalledBefore(before.Object, p.stalled) {
		log.Warn("object is stalled", "reason", p.stalled.reason, "message", p.stalled.message)
		c.config.Events.Eventf(before, nil, corev1.EventTypeWarning, p.stalled.reason, "Reconcile", "%s", truncate(p.stalled.message, maxNote))
	}
}

// recordStray tells people what became of an object that they made.
func (h *hand) recordStray(s step) {
	h.config.Events.Eventf(h.owner, s.is, corev1.EventTypeNormal, "StrayDeleted", "Delete", "%s",
		truncate(fmt.Sprintf("deleted %s %q: it had the labels of %q and was not made for it", s.resource.Resource, s.is.GetName(), s.child), maxNote))
}

// maxNote is the limit of events.k8s.io/v1 for the note of an Event, in bytes.
const maxNote = 1024

// truncate shortens a text to at most limit bytes without cutting a character.
func truncate(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := 0
	for i := range text {
		if i > limit-len(ellipsis) {
			break
		}
		end = i
	}
	return text[:end] + ellipsis
}
