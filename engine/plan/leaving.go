package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Finalizer keeps an object until its kind has nothing left to do for it: phases that follow its deletion, and children
// elsewhere.
const Finalizer = "fescue.dev/on-delete"

// HasFinalizer reports whether an object has the finalizer of its kind. A decorator has none.
func HasFinalizer(k *kind.Kind, object *unstructured.Unstructured) bool {
	return k.Target == nil && slices.Contains(object.GetFinalizers(), Finalizer)
}

// IsOrphaning reports whether the garbage collector is about to take the owner references off the children
// of an object, which are to stay when it is deleted.
func IsOrphaning(object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil &&
		slices.Contains(object.GetFinalizers(), metav1.FinalizerOrphanDependents)
}

// NeedsFinalizer reports whether an object needs the finalizer before anything is done for it. An object that
// is invalid, or that its kind cannot evaluate, does not: nothing is done for it, and it would be kept
// for as long when it is deleted.
func NeedsFinalizer(k *kind.Kind, object *unstructured.Unstructured, v *View, now time.Time) bool {
	return k.IsHeld() && object.GetDeletionTimestamp() == nil && !HasFinalizer(k, object) &&
		Decide(k, object, v, now).Stalled == nil
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
	return object.GetDeletionTimestamp() != nil && HasFinalizer(k, object) &&
		(k.OnDelete != "" || children.Reaches(k, object))
}

// IsUnused reports whether an object is being deleted and has the finalizer for nothing: its kind has neither a phase
// for that nor children elsewhere any more.
func IsUnused(k *kind.Kind, object *unstructured.Unstructured) bool {
	return object.GetDeletionTimestamp() != nil && HasFinalizer(k, object) && !isLeaving(k, object)
}

// MustBeSure reports whether the children of an object have to be read from the API server itself: it is about to go,
// and a cache that is behind would leave some of them behind that nothing else deletes.
func MustBeSure(k *kind.Kind, object *unstructured.Unstructured) bool {
	return isLeaving(k, object) && children.Reaches(k, object)
}

// hasLeft reports whether the stored status of an object shows that it entered the phase for its deletion.
// A phase alone does not show that: an object may have been in the same one before.
func hasLeft(object *unstructured.Unstructured) bool {
	status, _ := object.Object["status"].(map[string]any)
	return meta.IsStatusConditionTrue(conditionsOf(status), kind.ConditionDeleting)
}

// IsEntering reports whether an object is about to enter the phase for its deletion. A cache that is behind would not
// show that the garbage collector took the owner references off its children.
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
	case v.Orphaning || children.InventoryOf(object).Orphaned:
		return true
	}
	return !hasLeft(object) && slices.ContainsFunc(v.Children, func(child children.Live) bool {
		o, isOriginal := children.OriginOf(child.Object)
		isReferring := !o.Outlives && !children.IsDetached(object, child.Object)
		return isOriginal && isReferring && metav1.GetControllerOfNoCopy(child.Object) == nil &&
			child.Object.GetDeletionTimestamp() == nil
	})
}

// restores reports whether children that lost what they are recognized by are restored. While an object is being
// deleted, that is known once it has entered the phase for that.
func (p *Plan) restores() bool {
	return p.Object.GetDeletionTimestamp() == nil || p.Leaving && !p.orphaned && !p.abandoned && p.Kind.Target == nil &&
		hasLeft(p.Object)
}

// isReleased reports whether a child stays when its object goes, because the garbage collector orphaned it.
func (p *Plan) isReleased(child children.Live) bool {
	o, _ := children.OriginOf(child.Object)
	return p.orphaned && !o.Outlives && !children.IsDetached(p.Object, child.Object) &&
		(!child.IsOfPhase() || metav1.GetControllerOfNoCopy(child.Object) == nil)
}

// isOver reports whether a plan is for an object that has passed all phases that follow its deletion.
func (p *Plan) isOver() bool {
	return p.Leaving && (p.Kind.OnDelete == "" || p.abandoned || p.Kind.Phases[p.Phase].Terminal &&
		len(p.Transitions) == 0)
}

// lingers reports whether a plan is for an object that is being deleted and waits for something in a phase. What it
// waits for never comes if its namespace is being deleted: what its children read may have gone with it.
func (p *Plan) lingers() bool {
	return p.Kind.OnDelete != "" && isLeaving(p.Kind, p.Object) && !p.Again && !p.isOver()
}

// isPrunable reports whether a child is one that is deleted when nothing wants it. A cache that is behind shows the
// owner reference of one that the garbage collector has orphaned.
func (p *Plan) isPrunable(child children.Live) bool {
	return child.Object.GetDeletionTimestamp() == nil && p.isOfNoPhase(child)
}

// isOfNoPhase reports whether a child is the object's, and belongs to no phase.
func (p *Plan) isOfNoPhase(child children.Live) bool {
	return children.IsOwnedBy(child.Object, p.Object) && child.IsOriginal() && !child.IsOfPhase() &&
		!p.isReleased(child)
}
