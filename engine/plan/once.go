package plan

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// isReplaced reports whether a child is created once in each entry of its phase, and replaces that of a former one. One
// that outlives its object may hold data, so it is kept.
func isReplaced(child kind.Child) bool { return isOnce(child) && child.OnDelete != kind.Orphan }

// isFormer reports whether an object is a child that was created once in a former entry of the phase.
func (p *Plan) isFormer(child kind.Child, live *unstructured.Unstructured) bool {
	return isReplaced(child) && p.created[child.Name] != live.GetUID() && (IsOwnedBy(live, p.Object) || isFor(live, p.Object)) && isOfEarlier(live, p.Phase, p.Entered)
}

// isFormerOf is isFormer for a child that is not known to be wanted now: its name in the kind is constant.
func (p *Plan) isFormerOf(child LiveChild) bool {
	return p.created[child.Name] != child.Object.GetUID() && isOfEarlier(child.Object, p.Phase, p.Entered) &&
		slices.ContainsFunc(p.Kind.Behaviour.Children, func(c kind.ChildFacts) bool {
			return c.Name == child.Name && isReplaced(kind.Child{Phase: c.Phase, Update: c.Update, OnDelete: c.OnDelete}) && c.Phase == p.Phase
		})
}

// IsFormer reports whether an object was created once in an entry of a phase before that of the wanted one, which has
// its name.
func IsFormer(live, wanted *unstructured.Unstructured) bool {
	o, _ := originOf(wanted)
	entered, err := time.Parse(time.RFC3339, Annotation(wanted, AnnotationEntered))
	return err == nil && isOfEarlier(live, o.phase, entered)
}

// unmarkedAge is how long before an entry of its phase a child was created that does not show its entry, and counts as
// one of a former entry: longer than the clocks of the operator and the API server differ.
const unmarkedAge = time.Minute

// isOfEarlier reports whether an object was created in another entry of a phase than the one at a time.
func isOfEarlier(live *unstructured.Unstructured, phase string, entered time.Time) bool {
	o, isOriginal := originOf(live)
	if !isOriginal || o.phase == "" || o.phase != phase || entered.IsZero() {
		return false
	}
	if mark, isMarked := entry(live, "annotations", AnnotationEntered); isMarked {
		return mark != entryOf(entered)
	}
	created := live.GetCreationTimestamp()
	return !created.IsZero() && created.Before(new(metav1.NewTime(entered.Add(-unmarkedAge))))
}

// entryOf names the entry of a phase at a time.
func entryOf(entered time.Time) string { return entered.UTC().Format(timeFormat) }

// distinguish gives an entry a time of its own, if a child shows that the phase was entered at the same time before.
func (p *Plan) distinguish(children []LiveChild) {
	for slices.ContainsFunc(children, func(child LiveChild) bool {
		o, _ := originOf(child.Object)
		return o.phase == p.Phase && Annotation(child.Object, AnnotationEntered) == entryOf(p.Entered)
	}) {
		p.Entered = p.Entered.Add(time.Millisecond)
	}
}

// Unrecorded are the children that were created once in the phase of an object, as far as a reconcile has seen
// them: the status may not record them yet.
type Unrecorded struct {
	phase   string
	entered time.Time
	created map[string]types.UID
}

// Unrecorded returns what the next reconcile has to know of this one; nil is nothing.
func (p *Plan) Unrecorded() *Unrecorded {
	if len(p.known) == 0 || maps.Equal(p.known, inventoryOf(p.Object).created) {
		return nil
	}
	return &Unrecorded{p.Kind.PhaseOf(p.Object.Object), timeIn(p.Object.Object, enteredField), p.known}
}

// recall adds what an earlier reconcile has seen in the phase that is stored.
func (p *Plan) recall(seen *Unrecorded) {
	if seen != nil && seen.phase == p.Phase && seen.entered.Equal(p.Entered) {
		maps.Copy(p.known, seen.created)
	}
}

// see adds the children of a decision that exist; it is one for the phase that is stored.
func (p *Plan) see(wanted []kind.Child, children []LiveChild) {
	for _, child := range wanted {
		if !isOnce(child) || child.Template == nil {
			continue
		}
		if live := find(p.Kind, children, p.Object, child); live != nil && !p.isFormer(child, live) {
			p.known[child.Name] = live.GetUID()
		}
	}
}

// Missing returns the children that a view does not show and that are not created, as they would be: those that were
// created once, and those of an object that waits in a phase for its deletion. Nothing else would find one that lost the
// label by which it is watched.
func Missing(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) []LiveChild {
	p := unmoved(k, object, now)
	p.recall(v.Memory.seen())
	seen := len(p.known)
	for _, child := range v.Children {
		if o, ok := originOf(child.Object); ok && p.known[o.child] == child.Object.GetUID() {
			seen--
		}
	}
	if seen == 0 && (k.OnDelete == "" || !isLeaving(k, object)) {
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
