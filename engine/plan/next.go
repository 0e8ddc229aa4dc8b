package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/engine/children"
)

// Next is what comes once the status of an outcome is stored.
type Next string

const (
	// Rest means that nothing can be done before something changes, or the time that Due returns has come.
	Rest Next = "rest"
	// Look means that what was written may be reason to decide again.
	Look Next = "look"
	// LookLive means that the status lists places in which the caches show no child, so that the API server itself has
	// to be asked.
	LookLive Next = "look live"
	// Requeue means that there is more to write, or to decide, than one reconcile may.
	Requeue Next = "requeue"
	// Release means that nothing holds back the deletion of an object any longer.
	Release Next = "release"
)

// Next returns what comes next. isStored means that the status was written and the API server has stored something new
// of it. Without that, and without a write to a child, another plan would decide the same, until an event or the time
// changes something.
func (o *Outcome) Next(isStored bool) Next {
	switch {
	case o.isOver:
		return Release
	case o.isDoubted:
		return LookLive
	case o.isUnfinished:
		return Requeue
	case o.goesOn && !o.isPending && (o.wrote || isStored):
		return Look
	}
	return Rest
}

// Due returns when to reconcile although nothing has changed, or to record what was created, given the object as the
// API server has it; zero means never.
func (o *Outcome) Due(p *Plan, stored *unstructured.Unstructured) time.Time {
	return Earlier(o.WakeAt, o.RecordAt(p, stored))
}

const (
	// waitingRecheck is when to reconcile an object again that waits for another object to be gone: a watch that broke
	// may have skipped that.
	waitingRecheck = time.Second
	// lingeringRecheck is how often to ask whether the namespace of an object is being deleted that waits in a phase
	// after its own deletion: nothing reports that for an object without children.
	lingeringRecheck = 10 * time.Second
	// unwatchedRecheck is how often to read a child that is being deleted and lost the label by which it is watched.
	unwatchedRecheck = 10 * time.Second
)

// Recheck returns after which time to reconcile in case an event for which the object waits never comes; 0 means never.
func (o *Outcome) Recheck() time.Duration {
	switch {
	case o.Waiting:
		return waitingRecheck
	case o.lingers:
		return lingeringRecheck
	case o.isUnwatched:
		return unwatchedRecheck
	}
	return 0
}

// Earlier returns the earlier of two times; zero means never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// recordAfter is how old a child that is created once becomes before the status is written only to record it.
const recordAfter = 10 * time.Second

// RecordAt returns when the status must be written to name the children that were created once, of which stored is the
// object as the API server has it: at once if one of them is being deleted or is gone, or else when the first is old
// enough. Zero means never.
func (o *Outcome) RecordAt(p *Plan, stored *unstructured.Unstructured) (at time.Time) {
	recorded := children.InventoryOf(stored).Created
	for child, uid := range o.inventory.Created {
		if due := o.recordAt(uid, p.At); recorded[child] != uid && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

// recordAt returns when the child with a UID has to be recorded. If the clocks differ by more than recordAfter, that
// is at once.
func (o *Outcome) recordAt(uid types.UID, now time.Time) time.Time {
	i := slices.IndexFunc(o.Children, func(child children.Live) bool { return child.Object.GetUID() == uid })
	if i < 0 || o.Children[i].Object.GetDeletionTimestamp() != nil {
		return now
	}
	since := o.Children[i].Object.GetCreationTimestamp().Time
	if since.IsZero() {
		since = now // no API server has created it
	}
	if now.Sub(since).Abs() >= recordAfter {
		return now
	}
	return since.Add(recordAfter)
}
