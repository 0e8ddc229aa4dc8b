package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Event is an Event about an object of a kind.
type Event struct {
	// Type is Normal or Warning; Reason, Action and Note are those of events.k8s.io/v1.
	Type, Reason, Action, Note string
	// Related is the other object that it is about; nil if there is none.
	Related *unstructured.Unstructured
}

// EventsOf returns the Events that are due when the status of a plan and its outcome is stored:
// one for each transition, and one for each problem that the status did not show before.
func EventsOf(p *Plan, o *Outcome) []Event {
	var events []Event
	for _, t := range p.Transitions {
		note := "entered phase " + t.To
		if t.From != "" {
			note = fmt.Sprintf("phase changed from %s to %s", t.From, t.To)
		}
		events = append(events, newEvent(corev1.EventTypeNormal, t.To, "ChangePhase", note))
	}
	for _, problem := range []*Problem{JustStalled(p, o), JustLate(p, o)} {
		if problem != nil {
			events = append(events, newEvent(corev1.EventTypeWarning, problem.Reason, "Reconcile", problem.Message))
		}
	}
	return events
}

// ForeignEvent returns the Event for an object that looks like a child and was not created as one.
func ForeignEvent(foreign LiveChild) Event {
	e := newEvent(corev1.EventTypeWarning, "ForeignObject", "Reconcile",
		fmt.Sprintf("%s %q looks like a child but was not created as one: it is neither changed nor deleted", foreign.Resource.Resource, foreign.Object.GetName()))
	e.Related = foreign.Object
	return e
}

// StrayEvent returns the Event for a step that has deleted an unmanaged object.
func StrayEvent(s Step) Event {
	e := newEvent(corev1.EventTypeNormal, "StrayDeleted", "Delete",
		fmt.Sprintf("deleted %s %q: it had the labels of %q and was not created for it", s.Resource.Resource, s.Live.GetName(), s.Child))
	e.Related = s.Live
	return e
}

// maxNote is the limit of events.k8s.io/v1 for the note of an Event, in bytes.
const maxNote = 1024

func newEvent(kind, reason, action, note string) Event {
	return Event{Type: kind, Reason: reason, Action: action, Note: truncate(note, maxNote)}
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
