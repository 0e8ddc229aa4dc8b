package plan

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// isFormer reports whether an object is a child that was created once in a former entry of the phase.
func (p *Plan) isFormer(child kind.Child, live *unstructured.Unstructured) bool {
	return children.IsReplaced(child) && p.created[child.Name] != live.GetUID() &&
		(children.IsOwnedBy(live, p.Object) || metav1.GetControllerOfNoCopy(live) == nil) &&
		children.IsOfEarlierEntry(live, p.Phase, p.Entered)
}

// isFormerOf is isFormer for a child that is not known to be wanted now.
func (p *Plan) isFormerOf(child children.Live) bool {
	return p.created[child.Name] != child.Object.GetUID() &&
		children.IsOfEarlierEntry(child.Object, p.Phase, p.Entered) && p.replaces(child.Name)
}

// replaces reports whether a child of the phase with a name in the kind replaces that of a former entry. If the name is
// not constant, all children of the phase with computed names have to.
func (p *Plan) replaces(name string) bool {
	named := func(name string) (found []kind.ChildFacts) {
		for _, c := range p.Kind.Behaviour.Children {
			if c.Phase == p.Phase && c.Name == name {
				found = append(found, c)
			}
		}
		return found
	}
	found := named(name)
	if len(found) == 0 {
		found = named("")
	}
	return len(found) > 0 && !slices.ContainsFunc(found, func(c kind.ChildFacts) bool {
		return !children.IsReplaced(kind.Child{Phase: c.Phase, Update: c.Update, OnDelete: c.OnDelete})
	})
}

// distinguish gives an entry a time of its own, if a child shows that the phase was entered at the same time before.
func (p *Plan) distinguish(existing []children.Live) {
	for slices.ContainsFunc(existing, func(child children.Live) bool {
		o, _ := children.OriginOf(child.Object)
		return o.Phase == p.Phase && children.Annotation(child.Object, children.AnnotationEntered) == children.EntryOf(
			p.Entered)
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
	if len(p.known) == 0 || maps.Equal(p.known, children.InventoryOf(p.Object).Created) {
		return nil
	}
	return &Unrecorded{p.Kind.PhaseOf(p.Object.Object), timeIn(p.Object.Object, enteredField), p.known}
}

// recall adds what an earlier reconcile has seen in the phase that is stored.
func (p *Plan) recall(seen *Seen) {
	if seen == nil || seen.unrecorded == nil {
		return
	}
	if u := seen.unrecorded; u.phase == p.Phase && u.entered.Equal(p.Entered) {
		maps.Copy(p.known, u.created)
	}
}

// see adds the children of a decision that exist; it is one for the phase that is stored.
func (p *Plan) see(wanted []kind.Child, existing []children.Live) {
	for _, child := range wanted {
		if !children.IsOnce(child) || child.Template == nil {
			continue
		}
		if live := children.Find(p.Kind, existing, p.Object, child); live != nil && !p.isFormer(child, live) {
			p.known[child.Name] = live.GetUID()
		}
	}
}
