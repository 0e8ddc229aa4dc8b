package plan

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// recordAfter is how old a child that is created once becomes before the status is written only to record it.
const recordAfter = 10 * time.Second

// isOnce reports whether a child is created once in a phase.
func isOnce(child kind.Child) bool {
	return child.Update == kind.Never && child.Phase != "" && child.Set == nil
}

// Unrecorded are the children that were created once in the phase of an object, as far as a reconcile has seen
// them: the status may not record them yet.
type Unrecorded struct {
	owner   types.UID
	phase   string
	entered time.Time
	created map[string]types.UID
}

// Unrecorded returns what the next reconcile has to know of this one; nil is nothing.
func (p *Plan) Unrecorded() *Unrecorded {
	if len(p.known) == 0 || maps.Equal(p.known, inventoryOf(p.Object).created) {
		return nil
	}
	return &Unrecorded{p.Object.GetUID(), p.Kind.PhaseOf(p.Object.Object), timeIn(p.Object.Object, enteredField), p.known}
}

// recall adds what an earlier reconcile has seen in the phase that is stored.
func (p *Plan) recall(seen *Unrecorded) {
	if seen != nil && seen.owner == p.Object.GetUID() && seen.phase == p.Phase && seen.entered.Equal(p.Entered) {
		maps.Copy(p.known, seen.created)
	}
}

// see adds the children of a decision that exist; it is one for the phase that is stored.
func (p *Plan) see(wanted []kind.Child, children []LiveChild) {
	for _, child := range wanted {
		if !isOnce(child) || child.Template == nil {
			continue
		}
		if live := find(p.Kind, children, p.Object, child); live != nil {
			p.known[child.Name] = live.GetUID()
		}
	}
}

// Missing returns the children that were created once and that a view does not show, as they would be.
func Missing(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) []LiveChild {
	p := unmoved(k, object, now)
	p.recall(v.Unrecorded)
	seen := len(p.known)
	for _, child := range v.Children {
		if o, ok := originOf(child.Object); ok && p.known[o.child] == child.Object.GetUID() {
			seen--
		}
	}
	if seen == 0 {
		return nil
	}
	return Compare(Decide(k, object, v, now), v).Missing
}

// RecordAt returns when the status must be written to name the children that were created once, of which stored is the
// object as the API server has it: at once if one of them is being deleted or is gone, or else when the first is old
// enough. Zero means never.
func (o *Outcome) RecordAt(p *Plan, stored *unstructured.Unstructured) (at time.Time) {
	recorded := inventoryOf(stored).created
	for child, uid := range o.inventory.created {
		if due := o.recordAt(uid, p.At); recorded[child] != uid && (at.IsZero() || due.Before(at)) {
			at = due
		}
	}
	return at
}

// recordAt returns when the child with a UID has to be recorded. If the clocks differ by more than recordAfter, that
// is at once.
func (o *Outcome) recordAt(uid types.UID, now time.Time) time.Time {
	i := slices.IndexFunc(o.Children, func(child LiveChild) bool { return child.Object.GetUID() == uid })
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
