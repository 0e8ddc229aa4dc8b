package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
)

// staleRecheck is when to look again at an object that waits for an event of a child: a
// watch that broke may have skipped it. It costs a pass, and no request.
const staleRecheck = time.Second

// reconcile makes one pass for an object: it decides what to do from the caches, does
// it, and reports it. wakeAt is when to come back although nothing has changed; zero
// means never. An error is one that time may mend.
func (c *controller) reconcile(ctx context.Context, log *slog.Logger, name cache.ObjectName) (wakeAt time.Time, err error) {
	cached := c.objects.get(name)
	if cached == nil {
		c.writes.forget(name)
		return time.Time{}, nil
	}
	if cached.GetDeletionTimestamp() != nil {
		return time.Time{}, nil // the garbage collector takes the children
	}
	if !c.writes.seen(name, func(resource schema.GroupVersionResource, version string) bool {
		return c.children[resource].hasSeen(name.Namespace, version)
	}) {
		// The event that is still to come queues the object again.
		return time.Now().Add(staleRecheck), nil
	}
	object := c.writes.newest(name, cached)
	for {
		children, err := c.existing(object)
		if err != nil {
			return time.Time{}, err
		}
		now := time.Now()
		p := makePlan(c.kind, object.Object, observedOf(children), now)
		done := c.keepChildren(ctx, log, name, object, p, children)
		if done.refused != nil {
			p.stalled = &problem{reasonChild, done.refused.Error()}
		} else if done.failed != nil {
			return time.Time{}, done.failed
		}
		object, err = c.writeStatus(ctx, log, name, object, p, now)
		if err != nil {
			return time.Time{}, err
		}
		if kind.PhaseOf(object.Object) != p.phase {
			return time.Time{}, fmt.Errorf("the API server did not keep status.phase %q: the installed CRD is older than the kind; upgrade it", p.phase)
		}
		if err := errors.Join(done.refused, done.failed); err != nil || !p.again || done.waiting {
			return c.nextLook(name, p, done, now), err
		}
	}
}

// nextLook is when a pass that is over wants the next one: when its plan says, or soon if
// it waits for something that an event might fail to tell.
func (c *controller) nextLook(name cache.ObjectName, p *plan, done changes, now time.Time) time.Time {
	soon := now.Add(staleRecheck)
	if (done.waiting || c.writes.pending(name)) && (p.wakeAt.IsZero() || soon.Before(p.wakeAt)) {
		return soon
	}
	return p.wakeAt
}

// existing lists the children of an object that the caches hold.
func (c *controller) existing(object *unstructured.Unstructured) ([]existingChild, error) {
	var all []existingChild
	for resource, w := range c.children {
		owned, err := w.ownedBy(object)
		if err != nil {
			return nil, err
		}
		for _, child := range owned {
			all = append(all, existingChild{name: child.GetLabels()[labelChild], resource: resource, object: child})
		}
	}
	return all, nil
}

// observedOf is what a kind sees of the children: those that are not being deleted, by
// the names that it gives them.
func observedOf(children []existingChild) map[string]any {
	observed := make(map[string]any, len(children))
	for _, child := range children {
		if child.object.GetDeletionTimestamp() == nil {
			observed[child.name] = child.object.Object
		}
	}
	return observed
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
	stored, err := c.config.Client.Resource(c.kind.GroupVersionResource()).Namespace(name.Namespace).
		UpdateStatus(ctx, wanted, metav1.UpdateOptions{FieldManager: c.fieldManager()})
	if apierrors.IsInvalid(err) && p.projection != nil {
		// The kind projects what its schema does not allow; the status says so instead.
		refusal := &refusedError{fmt.Errorf("status: %w", err)}
		_, err := c.writeStatus(ctx, log, name, object, &plan{
			phase: kind.PhaseOf(object.Object), entered: enteredAt(object.Object),
			stalled: &problem{reasonEvaluation, refusal.Error()},
		}, now)
		return nil, errors.Join(refusal, err)
	}
	if err != nil {
		return nil, fmt.Errorf("write status: %w", err)
	}
	stored.SetManagedFields(nil)
	c.writes.rememberObject(name, stored)
	if cached := c.objects.get(name); cached != nil {
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
