package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

const (
	// freeRounds and freePerPart bound the rounds of writes without delay: a behaviour that comes
	// to rest passes each phase once, and creates, replaces or deletes each child.
	freeRounds  = 10
	freePerPart = 3
	// maxRecent is how many of the last writes a problem shows.
	maxRecent = 6
	// ReasonNoProgress is the reason of the condition Stalled for a behaviour that never becomes
	// idle.
	ReasonNoProgress = "NoProgress"
)

// Progress counts the rounds of writes that the behaviour of one object has caused by itself: since
// the object, its children, what else it reads, or time last changed other than by these writes, and the object was last
// idle. A behaviour that undoes what it does, or does more each time, never ends. The zero value is
// that of an object that is idle.
type Progress struct {
	slowing    Slowing
	uid        types.UID
	generation int64
	recent     []string
	seen       Fingerprint // after the last round
}

// IsCounting reports whether there was a round since the object was last idle.
func (p *Progress) IsCounting() bool { return p.slowing.Count > 0 }

// IsSlowed reports whether a round was held.
func (p *Progress) IsSlowed() bool { return p.slowing.Problem != nil }

// Rounds is the progress of an object during one reconcile.
type Rounds struct {
	*Progress
	kind  *kind.Kind
	owner *unstructured.Unstructured
	found *Found
	// any reports that there was a round.
	any bool
}

// Begin begins a reconcile at a time. What others have changed since the last round is progress.
func (p *Progress) Begin(k *kind.Kind, owner *unstructured.Unstructured, v *View, now time.Time) *Rounds {
	isOther := p.uid != owner.GetUID() || p.generation != owner.GetGeneration() || p.slowing.IsOver(now)
	if p.IsCounting() && (isOther || FingerprintOf(k, owner, v.Children, v.Found).ChangedByOthers(p.seen)) {
		*p = Progress{}
	}
	p.uid, p.generation = owner.GetUID(), owner.GetGeneration()
	return &Rounds{Progress: p, kind: k, owner: owner, found: v.Found}
}

// Apply has the steps of a comparison carried out, or none if the round has to wait.
func (r *Rounds) Apply(todo *Comparison, now time.Time, do func(*Comparison) *Changes) *Changes {
	acts := Acts(slices.Concat(todo.Steps, todo.Prunes))
	if len(acts) > 0 && r.held(now) {
		return &Changes{Held: true}
	}
	done := do(todo)
	if len(done.Stored)+len(done.Deleted) > 0 {
		r.wrote(acts, len(r.kind.Phases)+parts(todo.States), now)
	}
	return done
}

// Converged counts the change of phase of a plan, and of what the kind reads of its own status, as a round. If it has to
// wait, another plan is returned instead, which stays in the phase. The outcome shows what is held. blocked reports
// that nothing more can be done now.
func (r *Rounds) Converged(p *Plan, o *Outcome, now time.Time) (plan *Plan, outcome *Outcome, blocked bool) {
	if rereads := rereads(p, o); rereads || len(p.Transitions) > 0 {
		p, o = r.moved(p, o, now)
		o.Rereads = rereads && !o.Held
	}
	blocked = o.Stalled != nil || o.Failed != nil || o.Rejected != nil || o.Waiting || o.Held || o.Unfinished
	o.slowed(&r.slowing, now)
	return p, o, blocked
}

func (r *Rounds) moved(p *Plan, o *Outcome, now time.Time) (*Plan, *Outcome) {
	if p.Waited {
		*r.Progress = Progress{uid: r.uid, generation: r.generation}
	}
	if r.held(now) {
		return Hold(p, o, r.slowing.Problem)
	}
	var acts []string
	for _, t := range p.Transitions {
		acts = append(acts, fmt.Sprintf("phase %s → %s", t.From, t.To))
	}
	if len(acts) == 0 {
		acts = []string{"status"}
	}
	r.wrote(acts, len(p.Kind.Phases)+parts(o.States), now)
	return p, o
}

// rereads reports whether the status that is about to be written changes what the kind reads of it.
func rereads(p *Plan, o *Outcome) bool {
	if p.Projection == nil || !p.Kind.ReadsOwnStatus() {
		return false
	}
	status, err := Report(p, o)
	return err == nil && o.IsDue(p, status) &&
		!equality.Semantic.DeepEqual(p.Kind.ReadOfOwnStatus(p.Object.Object), p.Kind.ReadOfOwnStatus(map[string]any{"status": status}))
}

// slowed adds the problem of writes that are delayed.
func (o *Outcome) slowed(s *Slowing, now time.Time) {
	if s.Problem == nil {
		return
	}
	if next := s.Next(now); o.WakeAt.IsZero() || next.Before(o.WakeAt) {
		o.WakeAt = next
	}
	if o.Stalled == nil {
		o.Stalled = s.Problem
	}
}

// End remembers how the children are after a reconcile; an object that is idle has made progress. One
// that was just written may go on from its new status.
func (r *Rounds) End(children []LiveChild, isIdle bool) {
	if !r.IsCounting() {
		return
	}
	seen := FingerprintOf(r.kind, r.owner, children, r.found)
	if isIdle && seen.IsSettled() && (!r.any || !r.kind.ReadsOwnStatus()) {
		*r.Progress = Progress{}
		return
	}
	r.seen = seen
}

// held reports whether the next round has to wait, and describes it then.
func (r *Rounds) held(now time.Time) bool {
	if !r.IsCounting() || !r.slowing.IsHeld(now) {
		return false
	}
	acts := slices.Compact(slices.Sorted(slices.Values(r.recent))) // the same message after each round
	r.slowing.Problem = &Problem{ReasonNoProgress, fmt.Sprintf(
		"writes do not end although nothing else has changed: %s; further writes are delayed", strings.Join(acts, ", "))}
	return true
}

// parts counts the children, and the members of ordered sets, which are written one by one.
func parts(states []ChildState) int {
	n := len(states)
	for _, s := range states {
		if s.ordered {
			n += s.wanted
		}
	}
	return n
}

// wrote counts a round. parts is how many children and phases the object has.
func (r *Rounds) wrote(acts []string, parts int, now time.Time) {
	if len(acts) == 0 {
		return
	}
	r.any = true
	r.slowing.Free = freeRounds + freePerPart*parts
	r.slowing.Wrote(now)
	r.recent = append(r.recent, acts...)
	r.recent = slices.Clone(r.recent[max(0, len(r.recent)-maxRecent):])
}
