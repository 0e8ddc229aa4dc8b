package plan

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// observation is what a kind sees of the children, by the names that it gives them: those that its
// object controls and that are not being deleted. Copies and children that someone has adopted are
// not the object's.
type observation struct {
	singles map[string]*unstructured.Unstructured
	sets    map[string][]*unstructured.Unstructured
}

// observe returns the children by what they were created as.
func (p *Plan) observe(existing []children.Live) observation {
	o := observation{make(map[string]*unstructured.Unstructured), make(map[string][]*unstructured.Unstructured)}
	for _, child := range existing {
		if !child.IsOf(p.Object) || child.Object.GetDeletionTimestamp() != nil || !child.IsOriginal() ||
			p.isFormerOf(child) {
			continue
		}
		if _, isSet := p.Kind.Sets[child.Name]; isSet {
			o.sets[child.Name] = append(o.sets[child.Name], child.Object)
		} else if other := o.singles[child.Name]; other == nil || isNewer(child.Object, other) {
			o.singles[child.Name] = child.Object
		}
	}
	return o
}

// isNewer reports whether a was created after b. It orders any two objects, so that every
// reconcile observes the same one.
func isNewer(a, b *unstructured.Unstructured) bool {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetName(), b.GetName()),
		cmp.Compare(a.GetUID(), b.GetUID()),
	) > 0
}

// of returns the observation for a decision, and whether it is the same: a child that the decision
// wants is the object of the name and type that it would create, and no other.
func (o observation) of(p *Plan, decision *kind.Decision, existing []children.Live) (exact observation, same bool) {
	k, owner := p.Kind, p.Object
	exact, same = observation{maps.Clone(o.singles), maps.Clone(o.sets)}, true
	for _, wanted := range decision.Children {
		if wanted.Template == nil {
			continue // it is what it was created as
		}
		name, namespace, gvk := children.ObjectName(owner, wanted), children.NamespaceOf(k, owner, wanted),
			children.TypeOf(wanted)
		if wanted.Set != nil {
			var members []*unstructured.Unstructured
			for _, child := range existing {
				isInPlace := child.Object.GroupVersionKind() == gvk && child.Object.GetNamespace() == namespace
				if child.Object.GetDeletionTimestamp() == nil && isInPlace && child.IsMember(owner, wanted, name) {
					members = append(members, child.Object)
				}
			}
			same = same && slices.Equal(members, o.sets[wanted.Name])
			exact.sets[wanted.Name] = members
			continue
		}
		delete(exact.singles, wanted.Name)
		// How a child ended that is created once can be read until it is gone.
		if live := children.Find(k, existing, owner, wanted); live != nil && !p.isFormer(wanted, live) &&
			(live.GetDeletionTimestamp() == nil || children.IsOnce(wanted)) {
			exact.singles[wanted.Name] = live
		}
		same = same && exact.singles[wanted.Name] == o.singles[wanted.Name]
	}
	return exact, same
}

// values returns what the behaviour gets: an object for each child, and for a set a list in the
// order of the numbers.
func (o observation) values(k *kind.Kind) map[string]any {
	values := make(map[string]any, len(o.singles)+len(k.Sets))
	for name, child := range o.singles {
		values[name] = child.Object
	}
	for name := range k.Sets {
		members := slices.SortedFunc(slices.Values(o.sets[name]), func(a, b *unstructured.Unstructured) int {
			return cmp.Or(cmp.Compare(children.LastNumber(a.GetName()), children.LastNumber(b.GetName())),
				cmp.Compare(a.GetName(), b.GetName()))
		})
		list := make([]any, len(members))
		for i, m := range members {
			list[i] = m.Object
		}
		values[name] = list
	}
	return values
}

// drops reports whether a child that belongs to no phase exists that a decision does not want.
func (o observation) drops(p *Plan, wanted []kind.Child, existing []children.Live) bool {
	kept := make(map[types.UID]bool)
	for _, child := range wanted {
		if single := o.singles[child.Name]; single != nil {
			kept[single.GetUID()] = true
		}
		for _, member := range o.sets[child.Name] {
			kept[member.GetUID()] = true
		}
	}
	return slices.ContainsFunc(existing, func(child children.Live) bool {
		return p.isPrunable(child) && !kept[child.Object.GetUID()]
	})
}

// isDropping reports whether a child that belongs to no phase is being deleted, and a decision does not want it.
// Members that a set replaces are part of it.
func (p *Plan) isDropping(wanted []kind.Child, existing []children.Live) bool {
	return slices.ContainsFunc(existing, func(child children.Live) bool {
		return child.Object.GetDeletionTimestamp() != nil && p.isOfNoPhase(child) &&
			!slices.ContainsFunc(wanted, func(c kind.Child) bool { return c.Name == child.Name })
	})
}

// allExist reports whether all children of a decision exist or were created once. One that is corrected has to have its
// template: what is observed of it before was not written for the present phase. Members of a set may have to wait for
// others.
func (o observation) allExist(wanted []kind.Child, created map[string]types.UID) bool {
	return !slices.ContainsFunc(wanted, func(c kind.Child) bool {
		if c.Set != nil {
			return len(o.sets[c.Name]) < c.Set.Replicas
		}
		live := o.singles[c.Name]
		if live == nil {
			return !children.IsOnce(c) || created[c.Name] == ""
		}
		return c.Update != kind.Never && c.Template != nil && !children.IsWrittenBy(live, c.Template)
	})
}
