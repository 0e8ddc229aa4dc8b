package engine

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// set compares the members of a set with what is wanted of them. Members that are being
// deleted are not counted: each is replaced under another number.
func (c *comparer) set(child wantedChild) {
	prefix := child.object.GetName()
	members, used := c.members(child)
	strays := c.strays(child)
	for _, s := range strays {
		used[s.GetName()] = true
	}
	slices.SortFunc(members, func(a, b *member) int { return a.compare(b) })
	leaving := make(map[*member]bool)
	leave := func(m *member) {
		c.add(verbDelete, child, nil, m.object)
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
		c.steps = append(c.steps, step{verb: verbDelete, child: child.Name, resource: child.resource, is: s, stray: true})
	}
	state := childState{name: child.Name, set: true, wanted: child.Set.Replicas}
	for _, m := range members {
		c.member(child, m)
		state.count(m, child.Update)
	}
	c.states = append(c.states, state)

	for number, missing := 0, child.Set.Replicas-len(members); missing > 0; number++ {
		name := memberName(prefix, number)
		if used[name] || c.view.taken[takenName{child.resource, name}] {
			continue
		}
		c.add(verbCreate, child, named(child.object, name), nil)
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

// compare orders members by how soon one can be done without: first those that are not
// ready, then those of an older template, then the youngest, as a ReplicaSet does.
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

// members are the objects of a set that are not being deleted, and the names that are in
// use, also by those that are.
func (c *comparer) members(child wantedChild) (members []*member, used map[string]bool) {
	used = make(map[string]bool)
	prefix := child.object.GetName()
	for _, e := range c.view.children {
		if e.resource != child.resource {
			continue
		}
		used[e.object.GetName()] = true
		number, isNamed := memberNumber(prefix, e.object.GetName())
		if e.name != child.Name && !isNamed {
			continue
		}
		holder := metav1.GetControllerOfNoCopy(e.object)
		if holder == nil && !isNamed || holder != nil && holder.UID != c.owner.GetUID() {
			continue // someone has copied a member, or taken it over
		}
		c.wanted[e.object.GetUID()] = true
		if e.object.GetDeletionTimestamp() != nil {
			continue
		}
		wanted := named(child.object, e.object.GetName())
		members = append(members, &member{
			object: e.object, number: number,
			ready:    isReady(e.object),
			outdated: !sameTemplate(e.object, wanted),
			damaged:  !isOurs(e.object, wanted),
			finished: isFinished(e.object),
		})
	}
	return members, used
}

// member compares one member of a set that stays.
func (c *comparer) member(child wantedChild, m *member) {
	wanted := named(child.object, m.object.GetName())
	switch {
	case m.damaged:
		c.add(verbAdopt, child, wanted, m.object)
	case child.Update == kind.Apply && !isCorrect(m.object, wanted, c.view.settled):
		c.add(verbApply, child, wanted, m.object)
	}
}

// count adds a member to the state of its set.
func (s *childState) count(m *member, update kind.UpdatePolicy) {
	if m.outdated && update == kind.Recreate {
		s.outdated++
	}
	if m.ready {
		s.ready++
	}
}

// replaceable are the members of an older template that may go now: all that are away
// already, and as many others as leave no more than the bound away.
func replaceable(members []*member, set *kind.Set) []*member {
	ready := 0
	for _, m := range members {
		if m.ready {
			ready++
		}
	}
	budget := set.MaxUnavailable - (set.Replicas - ready)
	var going []*member
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
		going = append(going, m)
	}
	return going
}

// strays are the objects that carry all labels of the template, are no members, and that
// nobody else controls.
func (c *comparer) strays(child wantedChild) []*unstructured.Unstructured {
	if !child.Set.DeleteStrays {
		return nil
	}
	var strays []*unstructured.Unstructured
	add := func(object *unstructured.Unstructured) {
		if metav1.GetControllerOfNoCopy(object) == nil && object.GetDeletionTimestamp() == nil && !c.wanted[object.GetUID()] {
			c.wanted[object.GetUID()] = true // as nothing else
			strays = append(strays, object)
		}
	}
	template, _, err := unstructured.NestedStringMap(child.Template, "metadata", "labels")
	if err != nil || len(template) == 0 {
		return nil // no labels would be those of everything
	}
	for _, object := range c.view.strays(child.Name, template) {
		add(object)
	}
	for _, e := range c.view.children { // copies of members
		if e.resource == child.resource && e.name == child.Name {
			add(e.object)
		}
	}
	return strays
}

// named is a copy of an object that has another name and shares all else with it.
func named(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	result := maps.Clone(object.Object)
	metadata, _ := result["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	metadata["name"] = name
	result["metadata"] = metadata
	return &unstructured.Unstructured{Object: result}
}
