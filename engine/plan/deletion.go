package plan

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/children"
)

// keep compares a child that belongs to no phase while its object is being deleted. It is corrected, and
// a set shrinks, but nothing is created, adopted or replaced: whoever deletes the object may have asked
// the garbage collector to delete the children first, or to leave them.
func (c *comparer) keep(child wantedChild) {
	if child.Set != nil && child.Set.Ordered {
		c.keepOrdered(child)
		return
	}
	if child.Set != nil {
		members, _, _ := c.members(child)
		slices.SortFunc(members, func(a, b *member) int { return a.compare(b) })
		surplus := max(0, len(members)-child.Set.Replicas)
		for i, m := range members {
			if isOwn := children.IsOwnedBy(m.object, c.plan.Object); isOwn && i < surplus && !c.plan.orphaned {
				c.add(Delete, child, nil, m.object)
			} else {
				c.mend(child, children.Named(child.object, m.object.GetName()), m.object)
			}
		}
		return
	}
	live := c.find(child)
	switch {
	case live != nil:
		c.mend(child, child.object, live)
	case c.plan.lingers():
		c.Missing = append(c.Missing, children.Of(child.resource, child.object))
	}
}

// mend restores or corrects a child that belongs to no phase while its object is being deleted.
func (c *comparer) mend(child wantedChild, wanted, live *unstructured.Unstructured) {
	owner, holder := c.plan.Object, metav1.GetControllerOfNoCopy(live)
	isOwn := children.IsOwnedBy(live, owner)
	isLost := !isOwn && holder == nil && !children.IsElsewhere(owner, live) && c.plan.restores()
	if !isOwn && !isLost || c.plan.isReleased(children.Of(child.resource, live)) {
		return
	}
	c.wanted[live.GetUID()] = true
	switch {
	case live.GetDeletionTimestamp() != nil:
	case c.plan.restores() && !children.IsManaged(live, wanted):
		c.add(Adopt, child, wanted, live)
	default:
		c.corrects(child, wanted, live)
	}
}

// dismantle deletes the children of an object that has passed its last phase, as far as the order
// matters: a child goes before those that its template reads. The rest is the garbage collector's, except for
// children elsewhere.
func (c *comparer) dismantle() {
	var left []children.Live
	for _, e := range c.view.Children {
		o, isOriginal := children.OriginOf(e.Object)
		if (isOriginal || children.IsRecorded(c.plan.Object, e.Object)) && !o.Outlives &&
			children.IsOwnedBy(e.Object, c.plan.Object) && !c.plan.isReleased(e) {
			left = append(left, e)
		} else if metav1.GetControllerOfNoCopy(e.Object) != nil && children.IsElsewhere(c.plan.Object, e.Object) {
			c.lose(e)
		}
	}
	uses := func(user, used string) bool { return user != used && slices.Contains(c.plan.Kind.Uses[user], used) }
	isUsed := func(child children.Live) bool {
		return slices.ContainsFunc(left, func(other children.Live) bool { return uses(other.Name, child.Name) })
	}
	hasOrder := !c.plan.abandoned && slices.ContainsFunc(left, isUsed)
	first := slices.DeleteFunc(slices.Clone(left), isUsed)
	if len(first) == 0 {
		first = left // they use each other
	}
	for _, e := range first {
		isLast := !hasOrder ||
			!slices.ContainsFunc(left, func(other children.Live) bool { return uses(e.Name, other.Name) })
		switch {
		case isLast && !children.IsDetached(c.plan.Object, e.Object): // nothing has to wait for it
		case e.Object.GetDeletionTimestamp() == nil:
			c.Steps = append(c.Steps, Step{Verb: Delete, Child: e.Name, Resource: e.Resource, Name: e.Object.GetName(),
				Live: e.Object, Foreground: true})
			fallthrough
		default:
			c.Leaving = append(c.Leaving, e)
		}
	}
}
