package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// freeRounds and freePerPart bound the rounds of writes without delay: a behaviour that comes
	// to rest passes each phase once, and creates, replaces or deletes each child.
	freeRounds  = 10
	freePerPart = 3
	// maxRecent is how many of the last writes a problem shows.
	maxRecent = 6
)

// Progress counts the rounds of writes that the behaviour of one object has caused by itself: since the object, its
// children, what else it reads, or time last changed other than by these writes, and the object was last idle. A
// behaviour that undoes what it does, or does more each time, never ends.
type Progress struct {
	Slowing
	recent []string
	seen   Fingerprint // after the last round
}

// Rounds are the rounds of writes of one reconcile.
type Rounds struct {
	memory *Memory
	kind   *kind.Kind
	owner  *unstructured.Unstructured
	found  *Found
	// had is how many children there were at first, and any reports that there was a round.
	had int
	any bool
}

// End remembers how the children are after a reconcile that ends with an outcome, and what comes next; an object that
// is idle has made progress. One that was just written may go on from its new status.
func (r *Rounds) End(o *Outcome, next Next) {
	if r.memory.progress == nil {
		return
	}
	seen := FingerprintOf(r.kind, r.owner, o.Children, r.found)
	if isIdle := next == Rest && !o.isPending; isIdle && seen.IsSettled() && (!r.any || !r.kind.ReadsOwnStatus()) {
		r.memory.progress = nil
		return
	}
	r.memory.progress.seen = seen
}

// mustWait reports whether the next round has to wait, and describes it then.
func (r *Rounds) mustWait(now time.Time) bool {
	progress := r.memory.progress
	if progress == nil || !progress.IsHeld(now) {
		return false
	}
	acts := slices.Compact(slices.Sorted(slices.Values(progress.recent))) // the same message after each round
	progress.Problem = &Problem{ReasonNoProgress, fmt.Sprintf(
		"writes do not end although nothing else has changed: %s; further writes are delayed",
		strings.Join(acts, ", "))}
	return true
}

// wrote counts a round. parts is how many children and phases the object has.
func (r *Rounds) wrote(acts []string, parts int, now time.Time) {
	if len(acts) == 0 {
		return
	}
	r.any = true
	if r.memory.progress == nil {
		r.memory.progress = &Progress{}
	}
	progress := r.memory.progress
	progress.Free = freeRounds + freePerPart*parts
	progress.Wrote(now)
	progress.recent = append(progress.recent, acts...)
	progress.recent = slices.Clone(progress.recent[max(0, len(progress.recent)-maxRecent):])
}

// countTransitions counts a change of phase, and of what the kind reads of its own status, as a round. If that has to
// wait, another plan is returned instead, which stays in the phase.
func (r *Rounds) countTransitions(p *Plan, o *Outcome, now time.Time) (*Plan, *Outcome) {
	isRead := rereads(p, o)
	if !isRead && len(p.Transitions) == 0 {
		return p, o
	}
	if p.Waited {
		r.memory.progress = nil
	}
	if r.mustWait(now) {
		return stayInPhase(p, o, r.memory.progress.Problem)
	}
	var acts []string
	for _, t := range p.Transitions {
		acts = append(acts, fmt.Sprintf("phase %s → %s", t.From, t.To))
	}
	if len(acts) == 0 {
		acts = []string{"status"}
	}
	r.wrote(acts, len(p.Kind.Phases)+members(o.States), now)
	o.goesOn = o.goesOn || isRead
	return p, o
}

// rereads reports whether the status that is about to be written changes what the kind reads of it.
func rereads(p *Plan, o *Outcome) bool {
	if p.Projection == nil || !p.Kind.ReadsOwnStatus() {
		return false
	}
	status, err := Report(p, o)
	return err == nil && o.IsDue(p, status) &&
		!equality.Semantic.DeepEqual(p.Kind.ReadOfOwnStatus(p.Object.Object),
			p.Kind.ReadOfOwnStatus(map[string]any{"status": status}))
}

// members counts the children, and the members of ordered sets, which are written one by one.
func members(states []ChildState) int {
	n := len(states)
	for _, s := range states {
		if s.ordered {
			n += s.wanted
		}
	}
	return n
}

// slowed adds the problem of writes that are delayed, if there is one.
func (o *Outcome) slowed(problem *Problem, next time.Time) {
	if problem == nil {
		return
	}
	o.wake(next)
	if o.Stalled == nil {
		o.Stalled = problem
	}
}
