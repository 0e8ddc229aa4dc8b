package plan

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Memory is what is remembered of one object from one reconcile to the next. A new process starts without it: the
// status has what it needs. Only the reconcile of its object uses it.
type Memory struct {
	generation int64
	// progress is nil if no round was counted, and corrections have only what someone undoes.
	progress    *Progress
	corrections map[correctedChild]*correction
	Seen
	// told are the foreign objects that an Event was about, and problem is the last one of an object whose status is
	// not written.
	told    map[types.UID]bool
	problem *Problem
}

// NewMemory returns the memory of an object of which nothing is known.
func NewMemory(object *unstructured.Unstructured) *Memory {
	return &Memory{generation: object.GetGeneration()}
}

// IsEmpty reports whether there is nothing to remember.
func (m *Memory) IsEmpty() bool {
	return m.progress == nil && len(m.corrections) == 0 && len(m.numbers) == 0 && m.unrecorded == nil &&
		len(m.told) == 0 && m.problem == nil
}

// IsSlowed reports whether a write was held.
func (m *Memory) IsSlowed() bool {
	if m.progress != nil && m.progress.Problem != nil {
		return true
	}
	for _, c := range m.corrections {
		if c.Problem != nil {
			return true
		}
	}
	return false
}

// learn remembers what a plan and its comparison have found.
func (m *Memory) learn(p *Plan, c *Comparison) {
	m.unrecorded = p.Unrecorded()
	for set, highest := range c.Numbers {
		m.numbers = append(slices.DeleteFunc(m.numbers, func(n setNumber) bool { return n.set == set }),
			setNumber{set, highest})
	}
}

// Tell returns the Event about what has happened, nil if there is nothing to tell, and remembers that it was told.
// foreign are the objects that it is about.
func (m *Memory) Tell(news *News) (event *Event, foreign []children.Live) {
	event, foreign = news.Event()
	for _, f := range foreign {
		if m.told == nil {
			m.told = make(map[types.UID]bool)
		}
		m.told[f.Object.GetUID()] = true
	}
	return event, foreign
}

// Rounds begins a reconcile. What others have changed since the last round is progress. Foreign objects that are gone
// are forgotten.
func (m *Memory) Rounds(k *kind.Kind, owner *unstructured.Unstructured, v *View, now time.Time) *Rounds {
	if m.generation != owner.GetGeneration() {
		m.generation, m.progress, m.corrections = owner.GetGeneration(), nil, nil
	}
	maps.DeleteFunc(m.corrections, func(_ correctedChild, c *correction) bool { return c.IsOver(now) })
	if m.progress != nil &&
		(m.progress.IsOver(now) || FingerprintOf(k, owner, v.Children, v.Found).ChangedByOthers(m.progress.seen)) {
		m.progress = nil
	}
	maps.DeleteFunc(m.told, func(uid types.UID, _ bool) bool {
		is := func(child children.Live) bool { return child.Object.GetUID() == uid }
		return !slices.ContainsFunc(v.Children, is) && !slices.ContainsFunc(v.Unmarked, is)
	})
	return &Rounds{memory: m, kind: k, owner: owner, found: v.Found, had: children.Living(v.Children)}
}
