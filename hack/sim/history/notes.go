package history

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// notes are what users, operators and the server note while a history is played.
type notes struct {
	mu      sync.Mutex
	moments []moment
	events  []event
	// noted are the violations that were seen.
	noted []string
	// isRestored means that an older state was restored: what operators know of their writes may be lost.
	isRestored bool
	// arrivedLate are the objects that requests created late, and deletedLate those that requests deleted late.
	arrivedLate sets.Set[string]
	deletedLate sets.Set[types.UID]
	// unanswered is when the creation of a child for an owner was last not answered.
	unanswered map[string]time.Time
}

// moment is something that happened.
type moment struct {
	at   time.Time
	text string
}

// tell adds to the story.
func (n *notes) tell(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.moments = append(n.moments, moment{now, now.Format(apiserver.Clock) + " " + fmt.Sprintf(format, args...)})
}

// story tells all writes, but renewals of Leases, and what happened to operators.
func (n *notes) story(changes []apiserver.Change) (told []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.Clone(n.moments)
	for _, c := range changes {
		if c.Object().GetNamespace() != leases {
			all = append(all, moment{c.At, c.String()})
		}
	}
	slices.SortStableFunc(all, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range all {
		told = append(told, m.text)
	}
	return told
}

// note adds a violation.
func (n *notes) note(violation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted = append(n.noted, violation)
}

// noteRestored notes that an older state was restored.
func (n *notes) noteRestored() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isRestored = true
}

func (n *notes) wasRestored() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isRestored
}

// noteLate notes an object whose creation or deletion arrived late.
func (n *notes) noteLate(r *http.Request, sent []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if object := created(r, sent); object != nil {
		n.arrivedLate.Insert(idOf(object))
	}
	if uid := deleted(r, sent); uid != "" {
		n.deletedLate.Insert(uid)
	}
}

// noteUnanswered notes a child whose creation was not answered: nobody knows whether it was created.
func (n *notes) noteUnanswered(r *http.Request, sent []byte) {
	child := created(r, sent)
	if child == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, owner := range child.GetOwnerReferences() {
		n.unanswered[idFor(child, owner)] = time.Now()
	}
}

// event is an Event about an object.
type event struct {
	of   types.UID
	text string
}

// events records Events.
type events struct{ *notes }

// Eventf implements events.EventRecorder of client-go.
func (e events) Eventf(object, _ runtime.Object, _, reason, _, note string, args ...any) {
	about, err := meta.Accessor(object)
	if err != nil {
		panic(err) // only objects have Events
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event{about.GetUID(), reason + ": " + fmt.Sprintf(note, args...)})
}
