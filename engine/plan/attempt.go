package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// maxRounds is how often one attempt may find something to write. The rest is left to the next one, so that the status
// shows the progress in between.
const maxRounds = 8

// Attempt brings the children of an object to what its kind decides, a round of writes at a time: Todo says what to
// write, Done takes in what came of it and decides again, and Outcome is the end.
type Attempt struct {
	rounds *Rounds
	object *unstructured.Unstructured
	view   *View
	plan   *Plan
	left   *Comparison // what Todo has to choose from; nil before what it depends on is known
	todo   *Comparison // what it chose last
	acts   []string    // what that does, to notice writes without end
	done   *Changes    // of the last round
	strays []Step      // of all rounds
	count  int
	wrote  bool
	// isHeld means that a correction waits, and isLow that the budget is too small for another decision.
	isHeld, isLow bool
	// hasAsked means that it is known whether the namespace of the object is being deleted.
	hasAsked bool
}

// Attempt begins with a decision about what was observed.
func (r *Rounds) Attempt(object *unstructured.Unstructured, v *View, now time.Time) *Attempt {
	a := &Attempt{rounds: r, object: object, view: v, done: &Changes{}}
	a.decide(now)
	return a
}

// Glance returns the plan and the outcome of an object for which nothing is written.
func Glance(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) (*Plan, *Outcome) {
	return NewMemory(object).Rounds(k, object, v, now).Attempt(object, v, now).Outcome(now)
}

// decide decides. After the first decision, each has at least half of the budget; otherwise the next reconcile makes
// it.
func (a *Attempt) decide(now time.Time) {
	a.isLow = a.plan != nil && !a.view.Abandoned && a.view.IsLow()
	if !a.isLow {
		a.plan = Decide(a.rounds.kind, a.object, a.view, now)
	}
	a.left = nil
}

// compare compares the last decision with what is there.
func (a *Attempt) compare() {
	if a.left == nil {
		a.left = Compare(a.plan, a.view)
	}
}

// isBlocked reports whether the last round leaves nothing that may be written now.
func (a *Attempt) isBlocked() bool {
	d := a.done
	return d.Rejected != nil || d.Failed != nil || d.Waiting || d.Held && len(d.Stored)+len(d.Deleted) == 0
}

// Todo returns what to carry out; nil is nothing.
func (a *Attempt) Todo(now time.Time) *Comparison {
	a.todo = a.next(now)
	return a.todo
}

func (a *Attempt) next(now time.Time) *Comparison {
	if unknown := a.plan.unknownStrays(a.view); len(unknown) > 0 {
		return &Comparison{Find: unknown}
	}
	a.compare()
	if !a.left.isInSync() && !a.isBlocked() {
		if a.count == maxRounds || a.isLow {
			return nil
		}
		todo, isHeld := a.rounds.memory.delayCorrections(a.left, now)
		isNothing := len(todo.Steps)+len(todo.Inspect) == 0 && (len(todo.Prunes) == 0 || !todo.MayPrune())
		a.acts = Acts(slices.Concat(todo.Steps, todo.Prunes))
		if len(a.acts) > 0 && a.rounds.mustWait(now) {
			isNothing = true
		}
		if a.isHeld = isHeld; !isNothing {
			return todo
		}
		a.done = &Changes{Obstacles: Obstacles{Held: true}}
	}
	if a.hasAsked {
		return nil
	}
	a.hasAsked = true
	if try := a.plan.triesNamespace(a.view); try != nil {
		return &Comparison{Try: try}
	}
	return nil
}

// Done applies the results of the last Todo, and decides again.
func (a *Attempt) Done(done *Changes, now time.Time) {
	if done.NamespaceLeaving && isLeaving(a.rounds.kind, a.object) && !a.view.Abandoned {
		a.view, a.done = a.view.abandon(), &Changes{}
		a.decide(now)
		return
	}
	switch {
	case len(a.todo.Find) > 0:
		a.view = a.view.withStrays(a.todo.Find, done.Found)
		return
	case a.todo.Try != nil:
		return
	}
	a.done = done
	done.Held = done.Held || a.isHeld
	a.rounds.memory.corrected(a.rounds.kind, a.todo, done, now)
	isWritten := len(done.Stored)+len(done.Deleted) > 0
	if isWritten {
		a.wrote = true
		a.rounds.wrote(a.acts, len(a.rounds.kind.Phases)+members(a.todo.States), now)
	}
	a.strays = append(a.strays, done.Strays...)
	if isWritten || len(done.Taken) == 0 {
		a.count++ // names that are taken are tried until one is free
	}
	a.view = a.view.with(done, now)
	a.decide(now)
}

// Outcome ends the attempt: it returns the last plan and its outcome, and updates the Memory, so call it once. If a
// change of phase has to wait, both are those of the present phase.
func (a *Attempt) Outcome(now time.Time) (*Plan, *Outcome) {
	a.compare()
	memory := a.rounds.memory
	o := outcomeOf(a.plan, a.left, a.done, a.view)
	o.isUnfinished = (!a.left.isInSync() || a.isLow) && !a.isBlocked()
	o.Strays, o.wrote = a.strays, a.wrote
	memory.learn(a.plan, a.left)
	p, o := a.rounds.countTransitions(a.plan, o, now)
	o.isPending = o.Stalled != nil || o.IsObstructed() || o.isUnfinished
	if progress := memory.progress; progress != nil && progress.Problem != nil {
		o.slowed(progress.Problem, progress.Next(now))
	}
	o.slowed(memory.contested(now))
	return p, o
}

// triesNamespace returns the creation to try for an object that is being deleted and waits for something in a phase,
// which never comes if its namespace is being deleted as well; nil is none. Then the API server rejects any creation
// there before it looks at the object. That needs no right to read namespaces.
func (p *Plan) triesNamespace(v *View) *Step {
	if !p.lingers() || v.Abandoned || p.Object.GetNamespace() == "" {
		return nil
	}
	for _, gvk := range p.Kind.Owns {
		served, isKnown := v.Types[gvk]
		if !isKnown || served.Err != nil || !served.IsNamespaced {
			continue
		}
		child := &unstructured.Unstructured{}
		child.SetGroupVersionKind(gvk)
		child.SetName(p.Object.GetName())
		child.SetNamespace(p.Object.GetNamespace())
		return &Step{Verb: Create, Resource: served.Resource, Name: child.GetName(), Wanted: child}
	}
	return nil
}
