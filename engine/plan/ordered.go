package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// ordered compares the members of an ordered set with their templates, like a StatefulSet: members are
// created from 0 on, each when all before it are ready, and deleted from the end, one at a time.
func (c *comparer) ordered(child wantedChild) {
	r := &rollout{comparer: c, child: child, live: c.numbered(child),
		state: ChildState{name: child.Name, set: true, ordered: true, wanted: child.Set.Replicas}}
	r.shrink()
	for index := range child.Set.Replicas {
		r.member(index)
	}
	if outdated := r.replaceable(); outdated != nil {
		c.add(Delete, child, nil, outdated)
	}
	c.States = append(c.States, r.state)
}

// keepOrdered is keep for an ordered set.
func (c *comparer) keepOrdered(child wantedChild) {
	r := &rollout{comparer: c, child: child, live: c.numbered(child)}
	live := maps.Clone(r.live)
	maps.DeleteFunc(r.live, func(_ int, live *unstructured.Unstructured) bool {
		return !children.IsOwnedBy(live, c.plan.Object) || c.plan.orphaned
	})
	r.shrink()
	for index, template := range child.Set.Members {
		if live[index] == nil || template == nil {
			continue
		}
		if wanted, err := r.wantedMember(index, template); err == nil {
			c.mend(child, wanted, live[index])
		}
	}
}

// rollout is what one comparison finds of an ordered set.
type rollout struct {
	*comparer
	child wantedChild
	live  map[int]*unstructured.Unstructured // by number
	state ChildState
	// blocked means that a member is missing, is going or is not ready: no further one is created.
	blocked bool
	// outdated are the members of an older template, and unready those of them that are not ready.
	outdated, unready []*unstructured.Unstructured
}

// numbered returns the objects of an ordered set by their numbers, those that are being deleted
// included.
func (c *comparer) numbered(child wantedChild) map[int]*unstructured.Unstructured {
	found := make(map[int]*unstructured.Unstructured)
	prefix := child.object.GetName()
	for _, e := range c.view.Children {
		number, isNamed := children.MemberNumber(child.Set, prefix, e.Object.GetName())
		if !child.isInPlace(e) || !isNamed {
			continue
		}
		if number < child.Set.Replicas || e.IsMemberOrOrphan(c.plan.Object, child.Child, prefix) {
			found[number] = e.Object
			c.wanted[e.Object.GetUID()] = true
		}
	}
	return found
}

// shrink deletes the last of the members that are too many, once the one after it is gone.
func (r *rollout) shrink() {
	numbers := slices.Sorted(maps.Keys(r.live))
	if len(numbers) == 0 || numbers[len(numbers)-1] < r.child.Set.Replicas {
		return
	}
	last := r.live[numbers[len(numbers)-1]]
	r.state.waiting = fmt.Sprintf("waiting until %s is gone", last.GetName())
	if last.GetDeletionTimestamp() == nil {
		r.drop(r.child, last)
	}
}

// drop deletes a member. One without a reference gets that back first: the garbage collector may have taken it, to
// leave the member behind, and the adoption asks for the owner. One whose record names something else gets its own
// first.
func (c *comparer) drop(child wantedChild, live *unstructured.Unstructured) {
	if !children.IsOwnedBy(live, c.plan.Object) || children.IsCopy(live) {
		c.add(Adopt, child, children.Named(child.object, live.GetName()), live)
		return
	}
	c.add(Delete, child, nil, live)
}

// member compares one member with its template, or creates it if it is its turn.
func (r *rollout) member(index int) {
	live, template := r.live[index], r.child.Set.Members[index]
	if template == nil {
		r.blocked = true
		r.state.waiting = kind.WaitingFor(r.child.Set.Absent)
		return
	}
	wanted, err := r.wantedMember(index, template)
	switch {
	case err != nil:
		r.blocked = true
		r.reject(r.child.Name, err)
	case live != nil && children.IsFinished(live) && live.GetDeletionTimestamp() == nil:
		r.blocked = true
		r.drop(r.child, live)
	case live != nil:
		r.existing(wanted, live)
	case r.child.Delayed:
		r.blocked = true
		r.state.waiting = delayed(r.child.Child)
	case !r.blocked:
		r.blocked = true
		r.add(Create, r.child, wanted, nil)
	}
}

// existing compares a member that exists. One of an older template is ready or not as any other.
func (r *rollout) existing(wanted, live *unstructured.Unstructured) {
	child := r.child
	child.object = wanted
	isOutdated := child.Update == kind.Recreate && !children.HasTemplateOf(live, wanted)
	if isOutdated {
		child.Update = kind.Never // replaceable says when it goes
		r.state.outdated++
	}
	isReady := r.adjust(child, live)
	switch {
	case isReady:
		r.state.ready++
	default:
		r.blocked = true
	}
	if isOutdated && live.GetDeletionTimestamp() == nil && children.IsManaged(live, wanted) {
		r.outdated = append(r.outdated, live)
		if !isReady {
			r.unready = append(r.unready, live)
		}
	}
}

// replaceable returns the member of an older template that may be deleted now, or nil: the last one
// that is not ready, so that a broken template can be corrected, or the last one if all are ready.
func (r *rollout) replaceable() *unstructured.Unstructured {
	switch {
	case len(r.unready) > 0:
		return r.unready[len(r.unready)-1]
	case len(r.outdated) > 0 && !r.blocked && r.state.waiting == "":
		return r.outdated[len(r.outdated)-1]
	}
	return nil
}

// wantedMember completes the template of a member.
func (r *rollout) wantedMember(index int, template map[string]any) (*unstructured.Unstructured, error) {
	of := r.child.Child
	of.Template = template
	first := r.child.object
	object, err := children.Complete(r.plan.Kind, r.plan.Object, of, first.GetNamespace() != "")
	if err != nil {
		return nil, err
	}
	switch {
	case object.GroupVersionKind() != first.GroupVersionKind() || object.GetName() != first.GetName():
		return nil, errors.New("apiVersion, kind and metadata.name of the template must not depend on index: Fescue appends it to the name")
	case object.GetNamespace() != first.GetNamespace():
		return nil, errors.New("metadata.namespace of the template must not depend on index: the members of a set are in one namespace")
	}
	return children.Named(object, children.OrderedName(object.GetName(), index)), nil
}
