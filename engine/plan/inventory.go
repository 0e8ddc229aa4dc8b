package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// maxKnown is how many members of sets a status records, so that it stays below 400 KiB, whatever their names are.
const maxKnown = 1000

// FormerTypes returns the types of which an object may have children though its kind no longer
// owns them. An object in a terminal phase keeps what it has until it is deleted. A decorator records no types: those
// that it had stay in its owns.
func FormerTypes(k *kind.Kind, object *unstructured.Unstructured) []schema.GroupVersionKind {
	if k.Target != nil || k.Phases[k.PhaseOf(object.Object)].Terminal && !MustBeSure(k, object) {
		return nil
	}
	return slices.DeleteFunc(children.InventoryOf(object).Types, func(gvk schema.GroupVersionKind) bool {
		return slices.ContainsFunc(k.Owns,
			func(owned schema.GroupVersionKind) bool { return owned.GroupKind() == gvk.GroupKind() })
	})
}

// takePlaces returns where an object has children outside of its namespace after a plan was carried out, or is about
// to have. A place that nothing is wanted in is dropped only if the API server itself has shown that nothing is left
// there: a cache that is behind would lose what the process before has created.
func takePlaces(p *Plan, v *View) (places []children.Place, isDoubted bool) {
	if p.Kind.Target != nil {
		return nil, false // it has no status to list them in
	}
	stored := children.InventoryOf(p.Object)
	add := func(at children.Place) {
		if !slices.ContainsFunc(places, func(known children.Place) bool {
			return known.GroupKind == at.GroupKind && known.Namespace == at.Namespace
		}) {
			places = append(places, at)
		}
	}
	for _, wanted := range p.Children {
		served := v.Types[children.TypeOf(wanted)]
		if wanted.Template == nil || served.Err != nil ||
			p.Object.GetNamespace() != "" && !slices.Contains(p.Kind.Elsewhere, children.TypeOf(wanted)) {
			continue
		}
		object, err := children.Complete(p.Kind, p.Object, wanted, served.IsNamespaced)
		if err == nil && children.IsElsewhere(p.Object, object) && v.reach(object) == nil {
			add(children.PlaceOf(object))
		}
	}
	for _, at := range stored.Elsewhere {
		isUsed := slices.ContainsFunc(v.Children, func(child children.Live) bool {
			found := children.PlaceOf(child.Object)
			return found.GroupKind == at.GroupKind && found.Namespace == at.Namespace &&
				children.IsOwnedBy(child.Object, p.Object)
		})
		isWanted := slices.ContainsFunc(places, func(known children.Place) bool {
			return known.GroupKind == at.GroupKind && known.Namespace == at.Namespace
		})
		isDropped := !isUsed && !isWanted && p.Stalled == nil && len(p.Transitions) == 0
		isDoubted = isDoubted || isDropped && !v.Live
		if !isDropped || !v.isSure(p.Object) {
			add(at)
		}
	}
	slices.SortFunc(places, func(a, b children.Place) int {
		return cmp.Or(strings.Compare(a.GroupKind.String(), b.GroupKind.String()),
			strings.Compare(a.Namespace, b.Namespace))
	})
	return places, isDoubted
}

// takeKnown returns the children outside of the namespace of an object after a plan was carried out, for its status.
// Recorded ones that the view does not have are gone, as far as they could be read. A child that outlives its object
// needs no record, because nothing deletes it.
func takeKnown(p *Plan, v *View) map[children.Spot]types.UID {
	known := make(map[children.Spot]types.UID)
	for at, uid := range children.InventoryOf(p.Object).Known {
		if v.isUnread(at.GroupKind) {
			known[at] = uid
		}
	}
	for _, child := range v.Unmarked {
		known[children.SpotOf(child.Object)] = child.Object.GetUID()
	}
	var members []*unstructured.Unstructured
	for _, child := range v.Children {
		o, _ := children.OriginOf(child.Object)
		if o.Outlives || !children.IsElsewhere(p.Object, child.Object) || child.Object.GetUID() == "" ||
			!children.IsOwnedBy(child.Object, p.Object) {
			continue
		}
		if _, isMember := p.Kind.Sets[child.Name]; isMember {
			members = append(members, child.Object)
			continue
		}
		known[children.SpotOf(child.Object)] = child.Object.GetUID()
	}
	slices.SortFunc(members, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	for _, member := range members[:min(len(members), maxKnown)] {
		known[children.SpotOf(member)] = member.GetUID()
	}
	return known
}

// takeInventory returns the inventory after a plan was carried out.
func takeInventory(p *Plan, v *View) children.Inventory {
	i := children.Inventory{Types: slices.Clone(p.Kind.Owns), Created: maps.Clone(p.created), Orphaned: p.orphaned}
	if p.Kind.Phases[p.Phase].Terminal && len(p.Transitions) == 0 {
		if stored := children.InventoryOf(p.Object).Types; len(stored) > 0 {
			i.Types = stored
		}
		return i
	}
	for gvk, err := range v.Former {
		if err != nil || slices.ContainsFunc(v.Children, func(child children.Live) bool {
			return child.Object.GroupVersionKind().GroupKind() == gvk.GroupKind() && p.isPrunable(child)
		}) {
			i.Types = append(i.Types, gvk)
		}
	}
	slices.SortFunc(i.Types, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return i
}
