package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/children"
)

// Event is an Event about an object of a kind.
type Event struct {
	// Type is Normal or Warning; Reason, Action and Note are those of events.k8s.io/v1.
	Type, Reason, Action, Note string
	// Related is the other object that it is about; nil if there is none.
	Related *unstructured.Unstructured
}

// News is what has happened in one reconcile. People get at most one Event of it, about the most
// important; the log has everything. The zero value is empty.
type News struct {
	// phases are those that were left and entered, in this order.
	phases []string
	// problem is the last one that the status did not show before.
	problem *Problem
	foreign []children.Live
	strays  []Step
	// changed is about the children of an object whose status is not written.
	changed *Event
}

// Met adds what an outcome has found and deleted. Foreign objects that were told of before are left
// out.
func (n *News) Met(o *Outcome, m *Memory) {
	n.strays = append(n.strays, o.Strays...)
	for _, foreign := range o.Foreign {
		isKnown := slices.ContainsFunc(n.foreign,
			func(other children.Live) bool { return other.Object.GetUID() == foreign.Object.GetUID() })
		if !isKnown && !m.told[foreign.Object.GetUID()] {
			n.foreign = append(n.foreign, foreign)
		}
	}
}

// Stored adds what the status of a plan and its outcome shows, which was just stored.
func (n *News) Stored(p *Plan, o *Outcome) {
	for _, t := range p.Transitions {
		if len(n.phases) == 0 {
			n.phases = []string{t.From}
		}
		n.phases = append(n.phases, t.To)
	}
	for _, problem := range []*Problem{JustStalled(p, o), o.Passing.unlessReported(p.Object.Object), JustLate(p, o),
		JustMissed(p)} {
		if problem != nil {
			n.problem = problem
		}
	}
}

// Refused adds that the API server rejects what the engine writes to an object itself.
func (n *News) Refused(err error) {
	n.problem = &Problem{reasonInvalid, "the API server rejects what Fescue writes to the object: " + err.Error()}
}

// Decorated adds what happened to an object whose status is not written: the first child was created, or the
// last one deleted because the decorator is no longer for the object, or a problem began.
func (n *News) Decorated(r *Rounds, p *Plan, o *Outcome) {
	problem, known := o.Problem(), r.memory.problem
	if problem != nil && (known == nil || *known != *problem) {
		n.problem = problem
	}
	r.memory.problem = problem
	target, had, has := p.Kind.Target, r.had, children.Living(o.Children)
	switch {
	case had == 0 && has > 0:
		n.changed = newEvent(corev1.EventTypeNormal, "Decorated", "Create",
			fmt.Sprintf("%s created %s", target.Decorator, counted(has)))
	case had > 0 && has == 0 && !children.Decorates(p.Kind, p.Object):
		n.changed = newEvent(corev1.EventTypeNormal, "Undecorated", "Delete",
			fmt.Sprintf("%s deleted %s: the object no longer has %s", target.Decorator, counted(had), target))
	}
}

func counted(children int) string {
	if children == 1 {
		return "1 child"
	}
	return fmt.Sprintf("%d children", children)
}

// Problem returns the problem that has begun; nil if there is none.
func (n *News) Problem() *Problem { return n.problem }

// Event returns the Event; it is nil if there is nothing to tell. told are the foreign objects that it
// is about.
func (n *News) Event() (event *Event, told []children.Live) {
	switch {
	case n.problem != nil:
		return newEvent(corev1.EventTypeWarning, n.problem.Reason, "Reconcile", n.problem.Message), nil
	case len(n.foreign) > 0:
		return n.foreignEvent(), n.foreign
	case len(n.phases) > 0:
		entered := n.phases[len(n.phases)-1]
		return newEvent(corev1.EventTypeNormal, entered, "ChangePhase", n.phaseNote(entered)), nil
	case len(n.strays) > 0:
		return n.strayEvent(), nil
	case n.changed != nil:
		return n.changed, nil
	}
	return nil, nil
}

// phaseNote describes the way to the phase that was entered last.
func (n *News) phaseNote(entered string) string {
	left, passed := n.phases[0], strings.Join(n.phases[1:len(n.phases)-1], ", ")
	switch {
	case left == "" && passed == "":
		return "entered phase " + entered
	case left == entered && passed == "":
		return fmt.Sprintf("entered phase %s again", entered)
	case left == "":
		return fmt.Sprintf("entered phase %s after %s", entered, passed)
	case passed == "":
		return fmt.Sprintf("phase changed from %s to %s", left, entered)
	}
	return fmt.Sprintf("phase changed from %s to %s after %s", left, entered, passed)
}

// foreignEvent is about objects that look like children and were not created as such.
func (n *News) foreignEvent() *Event {
	first := n.foreign[0]
	what, holder := "looks like a child but was not created as one: it is", metav1.GetControllerOfNoCopy(first.Object)
	switch {
	case len(n.foreign) > 1:
		what = fmt.Sprintf("and %d more look like children but were not created as such, or are no longer: they are",
			len(n.foreign)-1)
	case holder != nil && first.IsOriginal():
		what = fmt.Sprintf("was created as a child, and %s %q controls it now: it is", holder.Kind, holder.Name)
	case holder == nil && children.Label(first.Object, children.LabelOwnerUID) == "" && !children.IsCopy(first.Object):
		what = "was created as a child, and no label or annotation says so any more: it is"
	}
	e := newEvent(corev1.EventTypeWarning, "ForeignObject", "Reconcile",
		fmt.Sprintf("%s %q %s neither changed nor deleted", first.Resource.Resource, first.Object.GetName(), what))
	e.Related = first.Object
	return e
}

// strayEvent is about unmanaged objects that were deleted, for those who created them.
func (n *News) strayEvent() *Event {
	first := n.strays[0]
	note := "deleted %s %q: it had the labels of %q and was not created for it"
	if len(n.strays) > 1 {
		note = "deleted %s %q" + fmt.Sprintf(" and %d more", len(n.strays)-1) +
			": they had the labels of %q and were not created for it"
	}
	e := newEvent(corev1.EventTypeNormal, "StrayDeleted", "Delete",
		fmt.Sprintf(note, first.Resource.Resource, first.Live.GetName(), first.Child))
	e.Related = first.Live
	return e
}

// maxNote is the limit of events.k8s.io/v1 for the note of an Event, in bytes.
const maxNote = 1024

func newEvent(kind, reason, action, note string) *Event {
	return &Event{Type: kind, Reason: reason, Action: action, Note: truncate(note, maxNote)}
}

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
