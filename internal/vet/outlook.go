package vet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
)

// outlook is what becomes of an object on a healthy cluster, however long that takes.
type outlook struct {
	reached sets.Set[string] // the phases
	ready   bool             // at some time, or that is not known
	waits   string           // what it waits for at last
	settled bool             // nothing but someone changes that
	stalled string           // why it is; empty if it never is
}

// outlookFindings reports where an object would be stalled later, that it never becomes ready, and the phases that it
// never has. deleted are those that it has when it is deleted. Advice goes to the report.
func (v *Vetter) outlookFindings(
	k *kind.Kind,
	object manifest.Object,
	u *unstructured.Unstructured,
	others []*unstructured.Unstructured,
	deleted sets.Set[string],
	now time.Time,
) []Finding {
	o := v.foresee(k, u, others, now)
	if o.stalled != "" {
		return []Finding{stalledFinding(object, "on a healthy cluster", o.stalled)}
	}
	o.reached = o.reached.Union(deleted)
	advise := func(check mistake.Check, situation, text string) {
		f := foundIn(object, check, adviceType, situation)
		f.Message = "advice: on a healthy cluster, " + text
		v.Report.Advice = append(v.Report.Advice, f)
	}
	if missed := o.missed(k); len(missed) > 0 {
		advise(mistake.UnreachedPhase, "phases", "this object is never in the phase "+strings.Join(missed, " or "))
	}
	switch {
	case o.ready:
	case o.settled && onlyReads(k):
		f := foundIn(object, mistake.NeverReady, neverReadyType, "on a healthy cluster")
		f.Message = "on a healthy cluster, the object never becomes ready: " + o.waits
		return []Finding{f}
	default:
		advise(mistake.NeverReady, "readiness", "the object does not become ready: "+o.waits)
	}
	return nil
}

// foresee returns the outlook if Jobs, and Pods that are not restarted, succeed, and in which phases and whether the
// object is ready at some time also if they run on or fail, or only the later ones fail.
func (v *Vetter) foresee(
	k *kind.Kind, u *unstructured.Unstructured, others []*unstructured.Unstructured, now time.Time,
) outlook {
	live := func(act func(life) error) (l life, o outlook) {
		l = newLife(k, v.catalog, u, others, now)
		err := l.create()
		if err == nil {
			o, err = l.follow(func() error { return act(l) })
		}
		if err != nil {
			o.stalled = err.Error()
		}
		return l, o
	}
	_, all := live(func(l life) error { return l.finish(true) })
	if all.stalled != "" || all.ready && len(all.missed(k)) == 0 {
		return all
	}
	_, running := live(func(life) error { return nil })
	failing, failed := live(func(l life) error { return l.finish(false) })
	_, _ = failing.end(false) // a failure may stall the object
	all.reached = all.reached.Union(running.reached).Union(failed.reached).Union(failing.cluster.Reached(k))
	all.ready = all.ready || running.ready || failed.ready
	for turn := 1; turn <= simulatedTurns && len(all.missed(k)) > 0; turn++ {
		_, later := live(func(l life) error { return l.finish(l.ended.Len() < turn) })
		all.reached = all.reached.Union(later.reached)
	}
	return all
}

// onlyReads reports whether objects of a kind wait for nothing but what they read. A when, a ready, or a transition may
// wait for a change of the spec.
func onlyReads(k *kind.Kind) bool {
	return len(k.Phases) == 0 &&
		!slices.ContainsFunc(k.Behaviour.Children,
			func(c kind.ChildFacts) bool { return c.When != "" || c.Ready != "" })
}

// missed returns the phases that were not reached, in the order of the source.
func (o outlook) missed(k *kind.Kind) (names []string) {
	for _, phase := range k.Behaviour.Phases {
		if !o.reached.Has(phase.Name) {
			names = append(names, phase.Name)
		}
	}
	return names
}

// follow waits for each time at which the object is reconciled. Others act before each wait; what follows from that
// comes first.
func (l life) follow(act func() error) (o outlook, err error) {
	l.cluster.Limit(simulatedReconciles)
	var wake time.Time
	for wakes := 0; wakes < simulatedWakes; {
		before := l.cluster.Objects()
		if err := act(); err != nil {
			return o, err
		}
		wait := simulatedStep
		if slices.Equal(before, l.cluster.Objects()) {
			wait = max(wait, wake.Sub(l.cluster.Now()))
			wakes++
		}
		err := l.cluster.Wait(wait)
		isCut := errors.Is(err, simulate.ErrLimit)
		if err != nil && !isCut {
			return o, err
		}
		live := l.object()
		o.reached, o.stalled = l.cluster.Reached(l.kind), l.stalled()
		if live == nil || o.stalled != "" {
			return o, nil
		}
		status, _ := live.Object["status"].(map[string]any)
		isReady, waits := readiness(status)
		o.ready, o.waits, o.settled = o.ready || isReady || isCut, waits, l.cluster.IsSettled(live)
		wake = l.cluster.WakeAt(live)
		if isCut || wake.IsZero() && slices.Equal(before, l.cluster.Objects()) {
			break
		}
	}
	return o, nil
}

// readiness reports whether an object is ready, or has ended, and what it waits for otherwise.
func readiness(status map[string]any) (ready bool, waits string) {
	for _, name := range []string{kind.ConditionReady, kind.ConditionSucceeded} {
		c := conditionOf(status, name)
		if c == nil {
			continue
		}
		ready = c["status"] == string(metav1.ConditionTrue) || name == kind.ConditionSucceeded &&
			c["status"] == string(metav1.ConditionFalse)
		waits = fmt.Sprint(c["reason"])
		if message, _ := c["message"].(string); message != "" {
			waits += ": " + message
		}
	}
	return ready, waits
}
