package plan

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// set compares the members of a set with their template. Members that are being
// deleted are not counted: each is replaced under another number.
func (c *comparer) set(child wantedChild) {
	members, used, highest := c.members(child)
	strays := c.strays(child)
	for _, s := range strays {
		used[s.GetName()] = true
	}
	slices.SortFunc(members, func(a, b *member) int { return a.compare(b) })
	leaving := make(map[*member]bool)
	leave := func(m *member) {
		if !children.IsOwnedBy(m.object, c.plan.Object) {
			return // it gets its reference back first, as in drop
		}
		c.add(Delete, child, nil, m.object)
		leaving[m] = true
	}
	for _, m := range members {
		if m.finished {
			leave(m)
		}
	}
	members = slices.DeleteFunc(members, func(m *member) bool { return leaving[m] })
	for _, m := range members[:max(0, len(members)-child.Set.Replicas)] {
		leave(m)
	}
	members = slices.DeleteFunc(members, func(m *member) bool { return leaving[m] })
	if child.Update == kind.Recreate {
		for _, m := range replaceable(members, child.Set) {
			leave(m)
		}
		members = slices.DeleteFunc(members, func(m *member) bool { return leaving[m] })
	}
	for _, s := range strays {
		c.Steps = append(c.Steps, Step{Verb: Delete, Child: child.Name, Resource: child.resource, Name: s.GetName(),
			Live: s, Stray: true})
	}
	state := ChildState{name: child.Name, set: true, wanted: child.Set.Replicas}
	for _, m := range members {
		c.member(child, m)
		state.count(m, child.Update)
	}
	missing := child.Set.Replicas - len(members)
	if child.Delayed && missing > 0 {
		state.waiting = delayed(child.Child)
		missing = 0
	}
	c.States = append(c.States, state)
	c.Numbers[child.Name] = highest
	for number := highest + 1; missing > 0; number++ {
		name := children.MemberName(child.object, number)
		if used[name] || c.view.taken[Taken{child.resource, child.object.GetNamespace(), name}] {
			continue
		}
		c.add(Create, child, children.Named(child.object, name), nil)
		missing--
	}
}

// member is an object of a set.
type member struct {
	object                   *unstructured.Unstructured
	number                   int
	ready, outdated, damaged bool
	finished                 bool
}

// compare orders members as a ReplicaSet does for deletion: first those that are not ready,
// then those of an older template, then the youngest.
func (m *member) compare(other *member) int {
	return cmp.Or(
		compareBools(m.ready, other.ready),
		compareBools(!m.outdated, !other.outdated),
		other.object.GetCreationTimestamp().Compare(m.object.GetCreationTimestamp().Time),
		cmp.Compare(other.number, m.number),
		strings.Compare(m.object.GetName(), other.object.GetName()),
	)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// members returns the objects of a set that are not being deleted. used are all names in use, including
// those of objects that are, and highest is the highest number that is or was in use, -1 if none is.
func (c *comparer) members(child wantedChild) (members []*member, used map[string]bool, highest int) {
	used = make(map[string]bool)
	highest = -1
	if number, isKnown := c.view.Seen.number(child.Name); isKnown {
		highest = number
	}
	prefix := child.object.GetName()
	for _, e := range c.view.Children {
		if !child.isInPlace(e) {
			continue
		}
		used[e.Object.GetName()] = true
		number, isNamed := children.MemberNumber(child.Set, prefix, e.Object.GetName())
		if isNamed {
			highest = max(highest, number)
		}
		if !e.IsMemberOrOrphan(c.plan.Object, child.Child, prefix) {
			continue // someone has copied or adopted a member
		}
		c.wanted[e.Object.GetUID()] = true
		if e.Object.GetDeletionTimestamp() != nil {
			continue
		}
		wanted := children.Named(child.object, e.Object.GetName())
		members = append(members, &member{
			object: e.Object, number: number,
			ready:    child.isReady(e.Object),
			outdated: !children.HasTemplateOf(e.Object, wanted),
			damaged:  !children.IsManaged(e.Object, wanted),
			finished: children.IsFinished(e.Object),
		})
	}
	return members, used, highest
}

// member compares one member of a set that stays.
func (c *comparer) member(child wantedChild, m *member) {
	wanted := children.Named(child.object, m.object.GetName())
	if m.damaged {
		c.add(Adopt, child, wanted, m.object)
		return
	}
	c.corrects(child, wanted, m.object)
}

// count adds a member to the state of its set.
func (s *ChildState) count(m *member, update kind.UpdatePolicy) {
	if m.outdated && update == kind.Recreate {
		s.outdated++
	}
	if m.ready {
		s.ready++
	}
}

// replaceable returns the members of an older template that may be deleted now: all that are
// not ready, and as many others as maxUnavailable leaves room for.
func replaceable(members []*member, set *kind.Set) []*member {
	ready := 0
	for _, m := range members {
		if m.ready {
			ready++
		}
	}
	budget := set.MaxUnavailable - (set.Replicas - ready)
	var leaving []*member
	for _, m := range members {
		if !m.outdated {
			continue
		}
		if m.ready {
			if budget <= 0 {
				continue
			}
			budget--
		}
		leaving = append(leaving, m)
	}
	return leaving
}

// strays returns the unmanaged objects that have all labels of the template and that no one
// controls, and the copies of members.
func (c *comparer) strays(child wantedChild) []*unstructured.Unstructured {
	asked, takes := c.plan.straysOf(child.Child)
	if !takes {
		return nil
	}
	var strays []*unstructured.Unstructured
	add := func(object *unstructured.Unstructured) {
		isCopy := metav1.IsControlledBy(object, c.plan.Object) && children.IsCopy(object)
		if (metav1.GetControllerOfNoCopy(object) == nil || isCopy) && object.GetDeletionTimestamp() == nil &&
			!c.wanted[object.GetUID()] {
			c.wanted[object.GetUID()] = true // so that nothing else is done about it
			strays = append(strays, object)
		}
	}
	for _, found := range c.view.Strays {
		if found.isFor(asked) {
			for _, object := range found.Objects {
				add(object)
			}
		}
	}
	for _, e := range c.view.Children { // copies of members
		if child.isInPlace(e) && e.Name == child.Name {
			add(e.Object)
		}
	}
	return strays
}
