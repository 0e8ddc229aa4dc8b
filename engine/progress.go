package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
)

const (
	// freeRounds and freePerPart bound the rounds of writes without delay: a behaviour that comes
	// to rest passes each phase once, and creates, replaces or deletes each child.
	freeRounds  = 10
	freePerPart = 3
	// maxRecent is how many of the last writes a problem shows.
	maxRecent = 6
	// reasonNoProgress is the reason of the condition Stalled for a behaviour that never becomes
	// idle.
	reasonNoProgress = "NoProgress"
)

// progress counts the rounds of writes that a behaviour has caused by itself: since the object, its
// children or time last changed other than by these writes, and the object was last idle. A
// behaviour that undoes what it does, or does more each time, never ends.
type progress struct {
	slowing
	recent []string
	seen   plan.Fingerprint // after the last round
}

// rounds is the progress of one object during a reconcile.
type rounds struct {
	*contests
	kind  *kind.Kind
	owner *unstructured.Unstructured
	// any reports that there was a round.
	any bool
}

func (c *contests) rounds(k *kind.Kind, owner *unstructured.Unstructured) *rounds {
	return &rounds{contests: c, kind: k, owner: owner}
}

// applyRound carries out the steps of a comparison, or none if the round has to wait.
func (r *reconciliation) applyRound(ctx context.Context, owner *unstructured.Unstructured, todo *plan.Comparison, rounds *rounds) *plan.Changes {
	acts := plan.Acts(slices.Concat(todo.Steps, todo.Prunes))
	if len(acts) > 0 && rounds.held() != nil {
		return &plan.Changes{Held: true}
	}
	done := r.apply(ctx, owner, todo)
	if len(done.Stored)+len(done.Deleted) > 0 {
		rounds.wrote(acts, len(r.kind.Phases)+len(todo.States))
	}
	return done
}

// transitions counts a change of phase as a round. If it has to wait, it returns another plan
// instead, which stays in the phase.
func (r *rounds) transitions(p *plan.Plan, o *plan.Outcome) (*plan.Plan, *plan.Outcome) {
	if len(p.Transitions) == 0 {
		return p, o
	}
	if p.Waited {
		r.reset()
	}
	if problem := r.held(); problem != nil {
		return plan.Hold(p, o, problem)
	}
	var acts []string
	for _, t := range p.Transitions {
		acts = append(acts, fmt.Sprintf("phase %s → %s", t.From, t.To))
	}
	r.wrote(acts, len(p.Kind.Phases)+len(o.States))
	return p, o
}

// observed resets the progress if others have changed something since the last round.
func (r *rounds) observed(children []plan.LiveChild) {
	before, isCounting := r.last()
	if isCounting && plan.FingerprintOf(r.kind, r.owner, children).ChangedByOthers(before) {
		r.reset()
	}
}

// last returns the fingerprint after the last round; it reports false if there was none.
func (r *rounds) last() (plan.Fingerprint, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(r.owner)
	if known == nil || known.progress.count == 0 {
		return plan.Fingerprint{}, false
	}
	return known.progress.seen, true
}

func (r *rounds) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.of(r.owner); known != nil {
		known.progress = progress{}
	}
}

// held returns the problem if the next round has to wait.
func (r *rounds) held() *plan.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(r.owner)
	if known == nil || known.progress.count == 0 || !r.clock.Now().Before(known.progress.due()) {
		return nil
	}
	p := &known.progress
	p.problem = &plan.Problem{Reason: reasonNoProgress, Message: fmt.Sprintf(
		"%d rounds of writes, and nothing else has changed: … %s …; further writes are delayed", p.count, strings.Join(p.recent, ", "))}
	return p.problem
}

// wrote counts a round. parts is how many children and phases the object has.
func (r *rounds) wrote(acts []string, parts int) {
	if len(acts) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.any = true
	p := &r.begin(r.owner).progress
	p.free = freeRounds + freePerPart*parts
	p.count++
	p.last = r.clock.Now()
	p.recent = append(p.recent, acts...)
	p.recent = slices.Clone(p.recent[max(0, len(p.recent)-maxRecent):])
}

// ended remembers how the children are after a reconcile; an object that is idle has made progress.
func (r *rounds) ended(children []plan.LiveChild, isIdle bool) {
	if _, isCounting := r.last(); !isCounting {
		return
	}
	seen := plan.FingerprintOf(r.kind, r.owner, children)
	if isIdle && !r.any && seen.IsSettled() {
		r.reset()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.of(r.owner); known != nil {
		known.progress.seen = seen
	}
}
