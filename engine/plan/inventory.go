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
)

// inventory is what status.childInventory records.
type inventory struct {
	// types are those of the children that an object has or had.
	types []schema.GroupVersionKind
	// created are the UIDs of the children that were created once in the present phase.
	created map[string]types.UID
	// elsewhere are the places outside of the object's namespace in which it has children, or is about to have.
	elsewhere []place
	// known are the UIDs of the children there, so that one that loses marks is recognized.
	known map[spot]types.UID
	// orphaned means that the object is being deleted, and the garbage collector took its owner references off its
	// children before.
	orphaned bool
}

// spot is where an object is.
type spot struct {
	gk              schema.GroupKind
	namespace, name string
}

func spotOf(object *unstructured.Unstructured) spot {
	return spot{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// maxKnown is how many members of sets a status records, so that it stays below 400 KiB, whatever their names are.
const maxKnown = 1000

// knows reports whether the status of an owner records an object as a child elsewhere. It copies nothing, because it is
// asked for each child.
func knows(owner, object *unstructured.Unstructured) bool {
	entry := entryFor(owner, object)
	children, _ := entry["children"].(map[string]any)
	uid, _ := children[object.GetName()].(string)
	return uid != "" && uid == string(object.GetUID())
}

// Known is a child outside of the namespace of an object, as its status records it.
type Known struct {
	Type            schema.GroupVersionKind
	Namespace, Name string
	UID             types.UID
}

// KnownElsewhere returns the children outside of the namespace of an object that its status records.
func KnownElsewhere(object *unstructured.Unstructured) (known []Known) {
	for _, fields := range elsewhereOf(object) {
		namespace, _ := fields["namespace"].(string)
		children, _ := fields["children"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(children)) {
			uid, _ := children[name].(string)
			known = append(known, Known{typeIn(fields), namespace, name, types.UID(uid)})
		}
	}
	return known
}

// place is where an object has children of a type outside of its namespace; the namespace is empty for a type that
// has none.
type place struct {
	gk        schema.GroupKind
	version   string
	namespace string
}

func placeOf(object *unstructured.Unstructured) place {
	gvk := object.GroupVersionKind()
	return place{gvk.GroupKind(), gvk.Version, object.GetNamespace()}
}

// Lists reports whether the status of an owner lists the place of an object.
func Lists(owner, object *unstructured.Unstructured) bool { return entryFor(owner, object) != nil }

// entryFor returns what the status of an owner has about the place of an object; nil if it does not list that.
func entryFor(owner, object *unstructured.Unstructured) map[string]any {
	at := placeOf(object)
	for _, fields := range elsewhereOf(owner) {
		if fields["namespace"] == at.namespace && typeIn(fields).GroupKind() == at.gk {
			return fields
		}
	}
	return nil
}

// elsewhereOf returns the entries for places outside of the namespace of an object in its status, which must not be
// changed.
func elsewhereOf(object *unstructured.Unstructured) (entries []map[string]any) {
	stored, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", kind.ChildInventory, "elsewhere")
	list, _ := stored.([]any)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		entries = append(entries, fields)
	}
	return entries
}

// typeIn returns the type that an entry of the inventory names.
func typeIn(fields map[string]any) schema.GroupVersionKind {
	apiVersion, _ := fields["apiVersion"].(string)
	name, _ := fields["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, name)
}

// Places returns the namespaces beside its own in which an object may have children of a type, by its status.
func Places(object *unstructured.Unstructured, gk schema.GroupKind) (namespaces []string) {
	for _, p := range inventoryOf(object).elsewhere {
		if p.gk == gk {
			namespaces = append(namespaces, p.namespace)
		}
	}
	return namespaces
}

// hasPlaces reports whether the status of an object lists places outside of its namespace.
func hasPlaces(object *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedFieldNoCopy(object.Object, "status", kind.ChildInventory, "elsewhere")
	return list != nil
}

// Reaches reports whether an object may have children that the garbage collector does not delete with it.
func Reaches(k *kind.Kind, object *unstructured.Unstructured) bool {
	return len(k.Elsewhere) > 0 || k.Target == nil && object.GetNamespace() != "" && hasPlaces(object)
}

// inventoryOf reads the inventory of an object.
func inventoryOf(object *unstructured.Unstructured) inventory {
	i := inventory{created: make(map[string]types.UID), known: make(map[spot]types.UID)}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", kind.ChildInventory, "types")
	for _, item := range list {
		fields, _ := item.(map[string]any)
		i.types = append(i.types, typeIn(fields))
	}
	for _, fields := range elsewhereOf(object) {
		namespace, _ := fields["namespace"].(string)
		gvk := typeIn(fields)
		i.elsewhere = append(i.elsewhere, place{gvk.GroupKind(), gvk.Version, namespace})
	}
	for _, child := range KnownElsewhere(object) {
		i.known[spot{child.Type.GroupKind(), child.Namespace, child.Name}] = child.UID
	}
	created, _, _ := unstructured.NestedStringMap(object.Object, "status", kind.ChildInventory, "created")
	for child, uid := range created {
		i.created[child] = types.UID(uid)
	}
	i.orphaned, _, _ = unstructured.NestedBool(object.Object, "status", kind.ChildInventory, "orphaned")
	return i
}

// status returns the inventory as it is stored; nil if it is empty.
func (i inventory) status() map[string]any {
	stored := make(map[string]any)
	if len(i.types) > 0 {
		list := make([]any, len(i.types))
		for n, gvk := range i.types {
			list[n] = map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind}
		}
		stored["types"] = list
	}
	if len(i.elsewhere) > 0 {
		list := make([]any, len(i.elsewhere))
		for n, p := range i.elsewhere {
			entry := map[string]any{"apiVersion": p.gk.WithVersion(p.version).GroupVersion().String(), "kind": p.gk.Kind, "namespace": p.namespace}
			children := make(map[string]any)
			for at, uid := range i.known {
				if at.gk == p.gk && at.namespace == p.namespace {
					children[at.name] = string(uid)
				}
			}
			if len(children) > 0 {
				entry["children"] = children
			}
			list[n] = entry
		}
		stored["elsewhere"] = list
	}
	if len(i.created) > 0 {
		created := make(map[string]any, len(i.created))
		for child, uid := range i.created {
			created[child] = string(uid)
		}
		stored["created"] = created
	}
	if i.orphaned {
		stored["orphaned"] = true
	}
	if len(stored) == 0 {
		return nil
	}
	return stored
}

// FormerTypes returns the types of which an object may have children though its kind no longer
// owns them. An object in a terminal phase keeps what it has until it is deleted. A decorator records no types: those
// that it had stay in its owns.
func FormerTypes(k *kind.Kind, object *unstructured.Unstructured) []schema.GroupVersionKind {
	if k.Target != nil || k.Phases[k.PhaseOf(object.Object)].Terminal && !MustBeSure(k, object) {
		return nil
	}
	return slices.DeleteFunc(inventoryOf(object).types, func(gvk schema.GroupVersionKind) bool {
		return slices.ContainsFunc(k.Owns, func(owned schema.GroupVersionKind) bool { return owned.GroupKind() == gvk.GroupKind() })
	})
}

// takePlaces returns where an object has children outside of its namespace after a plan was carried out, or is about
// to have. A place that nothing is wanted in is dropped only if the API server itself has shown that nothing is left
// there: a cache that is behind would lose what the process before has created.
func takePlaces(p *Plan, v *View) (places []place, isDoubted bool) {
	if p.Kind.Target != nil {
		return nil, false // it has no status to list them in
	}
	stored := inventoryOf(p.Object)
	add := func(at place) {
		if !slices.ContainsFunc(places, func(known place) bool { return known.gk == at.gk && known.namespace == at.namespace }) {
			places = append(places, at)
		}
	}
	for _, wanted := range p.Children {
		served := v.Types[typeOf(wanted)]
		if wanted.Template == nil || served.Err != nil || p.Object.GetNamespace() != "" && !slices.Contains(p.Kind.Elsewhere, typeOf(wanted)) {
			continue
		}
		object, err := childObject(p.Kind, p.Object, wanted, served.IsNamespaced)
		if err == nil && isElsewhere(p.Object, object) && v.reach(object) == nil {
			add(placeOf(object))
		}
	}
	for _, at := range stored.elsewhere {
		isUsed := slices.ContainsFunc(v.Children, func(child LiveChild) bool {
			found := placeOf(child.Object)
			return found.gk == at.gk && found.namespace == at.namespace && IsOwnedBy(child.Object, p.Object)
		})
		isWanted := slices.ContainsFunc(places, func(known place) bool { return known.gk == at.gk && known.namespace == at.namespace })
		isDropped := !isUsed && !isWanted && p.Stalled == nil && len(p.Transitions) == 0
		isDoubted = isDoubted || isDropped && !v.Live
		if !isDropped || !v.isSure(p.Object) {
			add(at)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(strings.Compare(a.gk.String(), b.gk.String()), strings.Compare(a.namespace, b.namespace))
	})
	return places, isDoubted
}

// takeKnown returns the children outside of the namespace of an object after a plan was carried out, for its status.
// Recorded ones that the view does not have are gone, as far as they could be read. A child that outlives its object needs
// no record, because nothing deletes it.
func takeKnown(p *Plan, v *View) map[spot]types.UID {
	known := make(map[spot]types.UID)
	for at, uid := range inventoryOf(p.Object).known {
		if v.isUnread(at.gk) {
			known[at] = uid
		}
	}
	for _, child := range v.Unmarked {
		known[spotOf(child.Object)] = child.Object.GetUID()
	}
	var members []*unstructured.Unstructured
	for _, child := range v.Children {
		o, _ := originOf(child.Object)
		if o.outlives || !isElsewhere(p.Object, child.Object) || child.Object.GetUID() == "" || !IsOwnedBy(child.Object, p.Object) {
			continue
		}
		if _, isMember := p.Kind.Sets[child.Name]; isMember {
			members = append(members, child.Object)
			continue
		}
		known[spotOf(child.Object)] = child.Object.GetUID()
	}
	slices.SortFunc(members, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	for _, member := range members[:min(len(members), maxKnown)] {
		known[spotOf(member)] = member.GetUID()
	}
	return known
}

// takeInventory returns the inventory after a plan was carried out.
func takeInventory(p *Plan, v *View) inventory {
	i := inventory{types: slices.Clone(p.Kind.Owns), created: maps.Clone(p.created), orphaned: p.orphaned}
	if p.Kind.Phases[p.Phase].Terminal && len(p.Transitions) == 0 {
		if stored := inventoryOf(p.Object).types; len(stored) > 0 {
			i.types = stored
		}
		return i
	}
	for gvk, err := range v.Former {
		if err != nil || slices.ContainsFunc(v.Children, func(child LiveChild) bool {
			return child.Object.GroupVersionKind().GroupKind() == gvk.GroupKind() && p.isPrunable(child)
		}) {
			i.types = append(i.types, gvk)
		}
	}
	slices.SortFunc(i.types, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return i
}

// find returns the object of a wanted child, which may be being deleted; nil if there is none.
func find(k *kind.Kind, children []LiveChild, owner *unstructured.Unstructured, wanted kind.Child) *unstructured.Unstructured {
	name, namespace, gvk := nameOf(owner, wanted), namespaceOf(k, owner, wanted), typeOf(wanted)
	for _, child := range children {
		if child.Object.GetName() == name && child.Object.GetNamespace() == namespace && child.Object.GroupVersionKind() == gvk && child.isOf(owner) {
			return child.Object
		}
	}
	return nil
}

// isPrunable reports whether a child is one that is deleted when nothing wants it. A cache that is behind shows the owner
// reference of one that the garbage collector has orphaned.
func (p *Plan) isPrunable(child LiveChild) bool {
	return IsOwnedBy(child.Object, p.Object) && child.isOriginal() && !child.isOfPhase() && child.Object.GetDeletionTimestamp() == nil && !p.isReleased(child)
}
