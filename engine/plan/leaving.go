package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Finalizer keeps an object until its kind has nothing left to do for it: phases that follow its deletion, and children
// elsewhere.
const Finalizer = "fescue.dev/on-delete"

// IsKept reports whether an object has the finalizer of its kind. A decorator has none.
func IsKept(k *kind.Kind, object *unstructured.Unstructured) bool {
	return k.Target == nil && slices.Contains(object.GetFinalizers(), Finalizer)
}

// IsOrphaning reports whether the garbage collector is about to take the owner references off the children
// of an object, which are to stay when it is deleted.
func IsOrphaning(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// MustKeep reports whether an object needs the finalizer before anything is done for it. An object that
// is invalid, or that its kind cannot evaluate, does not: nothing is done for it, and it would be kept
// for as long when it is deleted.
func MustKeep(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) bool {
	return k.IsHeld() && object.GetDeletionTimestamp() == nil && !IsKept(k, object) && Decide(k, object, v, now).Stalled == nil
}

// WithFinalizer returns the finalizers of an object with that of its kind, or without it.
func WithFinalizer(object *unstructured.Unstructured, wanted bool) []string {
	names := slices.DeleteFunc(object.GetFinalizers(), func(name string) bool { return name == Finalizer })
	if wanted {
		names = append(names, Finalizer)
	}
	return names
}

// isLeaving reports whether an object is being deleted and waits for the phases that follow that, or for children
// elsewhere to be gone. One that was deleted before it got the finalizer has nothing that it could leave behind.
func isLeaving(k *kind.Kind, object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && IsKept(k, object) && (k.OnDelete != "" || Reaches(k, object))
}

// IsUnused reports whether an object is being deleted and has the finalizer for nothing: its kind has neither a phase
// for that nor children elsewhere any more.
func IsUnused(k *kind.Kind, object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && IsKept(k, object) && !isLeaving(k, object)
}

// MustBeSure reports whether the children of an object have to be read from the API server itself: it is about to go,
// and a cache that is behind would leave some of them behind that nothing else deletes.
func MustBeSure(k *kind.Kind, object *unstructured.Unstructured) bool {
	return isLeaving(k, object) && Reaches(k, object)
}

// hasLeft reports whether the stored status of an object shows that it entered the phase for its deletion.
// A phase alone does not show that: an object may have been in the same one before.
func hasLeft(object *unstructured.Unstructured) bool {
	status, _ := object.Object["status"].(map[string]any)
	return meta.IsStatusConditionTrue(conditionsOf(status), kind.ConditionDeleting)
}

// IsEntering reports whether an object is about to enter the phase for its deletion. A cache that is behind would not show
// that the garbage collector took the owner references off its children.
func IsEntering(k *kind.Kind, object *unstructured.Unstructured) bool {
	return k.Target == nil && isLeaving(k, object) && !hasLeft(object)
}

// wereOrphaned reports whether the garbage collector took the owner references off the children of an object that is
// being deleted, which are to stay. A child that has none when the object enters the phase for its deletion shows that;
// one that loses it later is damaged.
func wereOrphaned(k *kind.Kind, object *unstructured.Unstructured, v *View) bool {
	switch {
	case k.Target != nil || !isLeaving(k, object):
		return false
	case v.Orphaning || inventoryOf(object).orphaned:
		return true
	}
	return !hasLeft(object) && slices.ContainsFunc(v.Children, func(child LiveChild) bool {
		o, isOriginal := originOf(child.Object)
		isReferring := !o.outlives && !isDetached(object, child.Object)
		return isOriginal && isReferring && metav1.GetControllerOfNoCopy(child.Object) == nil && child.Object.GetDeletionTimestamp() == nil
	})
}

// restores reports whether children that lost what they are recognized by are restored. While an object is being deleted,
// that is known once it has entered the phase for that.
func (p *Plan) restores() bool {
	return p.Object.GetDeletionTimestamp() == nil || p.Leaving && !p.orphaned && !p.abandoned && p.Kind.Target == nil && hasLeft(p.Object)
}

// isReleased reports whether a child stays when its object goes, because the garbage collector orphaned it.
func (p *Plan) isReleased(child LiveChild) bool {
	o, _ := originOf(child.Object)
	return p.orphaned && !o.outlives && !isDetached(p.Object, child.Object) &&
		(!child.isOfPhase() || metav1.GetControllerOfNoCopy(child.Object) == nil)
}

// isOver reports whether a plan is for an object that has passed all phases that follow its deletion.
func (p *Plan) isOver() bool {
	return p.Leaving && (p.Kind.OnDelete == "" || p.abandoned || p.Kind.Phases[p.Phase].Terminal && len(p.Transitions) == 0)
}

// lingers reports whether a plan is for an object that is being deleted and waits for something in a phase. What it waits
// for never comes if its namespace is being deleted: what its children read may have gone with it.
func (p *Plan) lingers() bool {
	return p.Kind.OnDelete != "" && isLeaving(p.Kind, p.Object) && !p.Again && !p.isOver()
}

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
			if isOwn := IsOwnedBy(m.object, c.plan.Object); isOwn && i < surplus && !c.plan.orphaned {
				c.add(Delete, child, nil, m.object)
			} else {
				c.mend(child, named(child.object, m.object.GetName()), m.object)
			}
		}
		return
	}
	i := slices.IndexFunc(c.view.Children, func(e LiveChild) bool {
		return child.isInPlace(e) && e.Object.GetName() == child.object.GetName()
	})
	switch {
	case i >= 0:
		c.mend(child, child.object, c.view.Children[i].Object)
	case c.plan.lingers():
		c.Missing = append(c.Missing, Live(child.resource, child.object))
	}
}

// mend restores or corrects a child that belongs to no phase while its object is being deleted.
func (c *comparer) mend(child wantedChild, wanted, live *unstructured.Unstructured) {
	owner, holder := c.plan.Object, metav1.GetControllerOfNoCopy(live)
	isOwn := IsOwnedBy(live, owner)
	isLost := !isOwn && holder == nil && !isElsewhere(owner, live) && c.plan.restores()
	if !isOwn && !isLost || c.plan.isReleased(Live(child.resource, live)) {
		return
	}
	c.wanted[live.GetUID()] = true
	switch {
	case live.GetDeletionTimestamp() != nil:
	case c.plan.restores() && !IsManaged(live, wanted):
		c.add(Adopt, child, wanted, live)
	default:
		c.corrects(child, wanted, live)
	}
}

// dismantle deletes the children of an object that has passed its last phase, as far as the order
// matters: a child goes before those that its template reads. The rest is the garbage collector's, except for
// children elsewhere.
func (c *comparer) dismantle() {
	var left []LiveChild
	for _, e := range c.view.Children {
		o, isOriginal := originOf(e.Object)
		if (isOriginal || knows(c.plan.Object, e.Object)) && !o.outlives && IsOwnedBy(e.Object, c.plan.Object) && !c.plan.isReleased(e) {
			left = append(left, e)
		} else if metav1.GetControllerOfNoCopy(e.Object) != nil && isElsewhere(c.plan.Object, e.Object) {
			c.lose(e)
		}
	}
	uses := func(user, used string) bool { return user != used && slices.Contains(c.plan.Kind.Uses[user], used) }
	isUsed := func(child LiveChild) bool {
		return slices.ContainsFunc(left, func(other LiveChild) bool { return uses(other.Name, child.Name) })
	}
	hasOrder := !c.plan.abandoned && slices.ContainsFunc(left, isUsed)
	first := slices.DeleteFunc(slices.Clone(left), isUsed)
	if len(first) == 0 {
		first = left // they use each other
	}
	for _, e := range first {
		isLast := !hasOrder || !slices.ContainsFunc(left, func(other LiveChild) bool { return uses(e.Name, other.Name) })
		switch {
		case isLast && !isDetached(c.plan.Object, e.Object): // nothing has to wait for it
		case e.Object.GetDeletionTimestamp() == nil:
			c.Steps = append(c.Steps, Step{Verb: Delete, Child: e.Name, Resource: e.Resource, Name: e.Object.GetName(), Live: e.Object, Foreground: true})
			fallthrough
		default:
			c.Leaving = append(c.Leaving, e)
		}
	}
}

// deleting returns the condition Deleting. It is False as long as the object could not enter the phase
// for its deletion.
func deleting(p *Plan, o *Outcome) metav1.Condition {
	c := metav1.Condition{Type: kind.ConditionDeleting, Status: metav1.ConditionFalse, Reason: p.Kind.OnDelete}
	if p.Leaving {
		c.Status, c.Reason = metav1.ConditionTrue, cmp.Or(p.Phase, kind.ConditionDeleting)
	}
	switch {
	case o.Stalled != nil:
		c.Reason = o.Stalled.Reason
		c.Message = fmt.Sprintf("%s; the object stays until this is resolved or its finalizer %s is removed", o.Stalled.Message, Finalizer)
	case o.Failed != nil:
		c.Message = o.Failed.Error()
	case o.Passing != nil:
		c.Reason, c.Message = o.Passing.Reason, o.Passing.Message
	case len(o.unread) > 0:
		c.Message = fmt.Sprintf("%s; the object stays until they can be, or its finalizer %s is removed", strings.Join(o.unread, "; "), Finalizer)
	case len(o.Leaving) > 0:
		first := called(o.Leaving[0].Object, p.Object)
		c.Message = fmt.Sprintf("waiting until %s %q is gone", o.Leaving[0].Object.GetKind(), first)
		if more := len(o.Leaving) - 1; more > 0 {
			c.Message = fmt.Sprintf("waiting until %s %q and %d more are gone", o.Leaving[0].Object.GetKind(), first, more)
		}
	default:
		c.Message = joined(o.waiting(), o.until())
	}
	return c
}
