package children

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Inventory is what status.childInventory records.
type Inventory struct {
	// Types are those of the children that an object has or had.
	Types []schema.GroupVersionKind
	// Created are the UIDs of the children that were created once in the present phase.
	Created map[string]types.UID
	// Elsewhere are the places outside of the object's namespace in which it has children, or is about to have.
	Elsewhere []Place
	// Known are the UIDs of the children there, so that one that loses marks is recognized.
	Known map[Spot]types.UID
	// Orphaned means that the object is being deleted, and the garbage collector took its owner references off its
	// children before.
	Orphaned bool
}

// Spot is where an object is.
type Spot struct {
	GroupKind       schema.GroupKind
	Namespace, Name string
}

// SpotOf returns where an object is.
func SpotOf(object *unstructured.Unstructured) Spot {
	return Spot{object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName()}
}

// IsRecorded reports whether the status of an owner records an object as a child elsewhere. It copies nothing, because
// it is asked for each child.
func IsRecorded(owner, object *unstructured.Unstructured) bool {
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

// Place is where an object has children of a type outside of its namespace; the namespace is empty for a type that
// has none.
type Place struct {
	GroupKind schema.GroupKind
	Version   string
	Namespace string
}

// PlaceOf returns the place of an object.
func PlaceOf(object *unstructured.Unstructured) Place {
	gvk := object.GroupVersionKind()
	return Place{gvk.GroupKind(), gvk.Version, object.GetNamespace()}
}

// IsListed reports whether the status of an owner lists the place of an object.
func IsListed(owner, object *unstructured.Unstructured) bool { return entryFor(owner, object) != nil }

// entryFor returns what the status of an owner has about the place of an object; nil if it does not list that.
func entryFor(owner, object *unstructured.Unstructured) map[string]any {
	at := PlaceOf(object)
	for _, fields := range elsewhereOf(owner) {
		if fields["namespace"] == at.Namespace && typeIn(fields).GroupKind() == at.GroupKind {
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
	for _, p := range InventoryOf(object).Elsewhere {
		if p.GroupKind == gk {
			namespaces = append(namespaces, p.Namespace)
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

// InventoryOf reads the inventory of an object.
func InventoryOf(object *unstructured.Unstructured) Inventory {
	i := Inventory{Created: make(map[string]types.UID), Known: make(map[Spot]types.UID)}
	list, _, _ := unstructured.NestedSlice(object.Object, "status", kind.ChildInventory, "types")
	for _, item := range list {
		fields, _ := item.(map[string]any)
		i.Types = append(i.Types, typeIn(fields))
	}
	for _, fields := range elsewhereOf(object) {
		namespace, _ := fields["namespace"].(string)
		gvk := typeIn(fields)
		i.Elsewhere = append(i.Elsewhere, Place{gvk.GroupKind(), gvk.Version, namespace})
	}
	for _, child := range KnownElsewhere(object) {
		i.Known[Spot{child.Type.GroupKind(), child.Namespace, child.Name}] = child.UID
	}
	created, _, _ := unstructured.NestedStringMap(object.Object, "status", kind.ChildInventory, "created")
	for child, uid := range created {
		i.Created[child] = types.UID(uid)
	}
	i.Orphaned, _, _ = unstructured.NestedBool(object.Object, "status", kind.ChildInventory, "orphaned")
	return i
}

// Status returns the inventory as it is stored; nil if it is empty.
func (i Inventory) Status() map[string]any {
	stored := make(map[string]any)
	if len(i.Types) > 0 {
		list := make([]any, len(i.Types))
		for n, gvk := range i.Types {
			list[n] = map[string]any{"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind}
		}
		stored["types"] = list
	}
	if len(i.Elsewhere) > 0 {
		list := make([]any, len(i.Elsewhere))
		for n, p := range i.Elsewhere {
			entry := map[string]any{"apiVersion": p.GroupKind.WithVersion(p.Version).GroupVersion().String(),
				"kind": p.GroupKind.Kind, "namespace": p.Namespace}
			children := make(map[string]any)
			for at, uid := range i.Known {
				if at.GroupKind == p.GroupKind && at.Namespace == p.Namespace {
					children[at.Name] = string(uid)
				}
			}
			if len(children) > 0 {
				entry["children"] = children
			}
			list[n] = entry
		}
		stored["elsewhere"] = list
	}
	if len(i.Created) > 0 {
		created := make(map[string]any, len(i.Created))
		for child, uid := range i.Created {
			created[child] = string(uid)
		}
		stored["created"] = created
	}
	if i.Orphaned {
		stored["orphaned"] = true
	}
	if len(stored) == 0 {
		return nil
	}
	return stored
}
