package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Meeting is what to do about an object that has the name of a child to create.
type Meeting string

const (
	// Accept means that it is the child.
	Accept Meeting = "accept"
	// Readopt means that it is the child, and has lost what it is found by.
	Readopt Meeting = "readopt"
	// Replace means that it is the child of a former entry of the phase, and goes first.
	Replace Meeting = "replace"
	// Rename means that another name will do.
	Rename Meeting = "rename"
	// Await means that it is about to go.
	Await Meeting = "await"
	// Occupy means that it is someone else's and stays.
	Occupy Meeting = "occupy"
	// Refuse means that another decorator, or the kind of the object, keeps it for the same object.
	Refuse Meeting = "refuse"
)

// Meet decides about an object that has the name of a child that a step creates for an owner. err is why the child is
// not created, if someone has to act.
func Meet(
	k *kind.Kind, owner *unstructured.Unstructured, s Step, live *unstructured.Unstructured,
) (m Meeting, err error) {
	holder := metav1.GetControllerOfNoCopy(live)
	set, ofSet := k.Sets[s.Child]
	isCopy := ofSet && children.IsCopy(live)
	isOwn := children.BelongsTo(live, owner, k) && (holder == nil || holder.UID == owner.GetUID()) && !isCopy
	isLeaving := live.GetDeletionTimestamp() != nil
	switch {
	case isOwn && children.IsFormer(live, s.Wanted) && isLeaving:
		return Await, nil
	case isOwn && children.IsFormer(live, s.Wanted):
		return Replace, nil
	case isOwn && isLeaving && s.Once:
		return Accept, nil // it was created
	case isOwn && !isLeaving && children.IsManaged(live, s.Wanted):
		return Accept, nil // the cache is behind
	case isOwn && !isLeaving:
		return Readopt, nil
	case ofSet && !set.Ordered:
		return Rename, nil
	case isLeaving:
		return Await, nil
	case holder != nil && holder.UID == owner.GetUID():
		return Refuse, children.ControlledBy(s.Resource, live, owner, holder)
	case children.HolderOf(k, live) != nil && holder.Name == owner.GetName():
		return Await, nil // it belonged to a former object of this name, and is about to be collected
	case holder == nil:
		return Occupy, children.NotCreatedFor(k, s.Resource, live, owner)
	}
	return Occupy, children.ControlledBy(s.Resource, live, owner, holder)
}
