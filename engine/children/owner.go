package children

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
)

// IsElsewhere reports whether an object is not in the namespace of its owner.
func IsElsewhere(owner, object metav1.Object) bool {
	return object.GetNamespace() != owner.GetNamespace()
}

// IsDetached reports whether an object is where the garbage collector would not find its owner, and delete it: an
// owner reference is about the own namespace or the cluster.
func IsDetached(owner, object metav1.Object) bool {
	return owner.GetNamespace() != "" && IsElsewhere(owner, object)
}

// IsOwnedBy reports whether an object is a child that belongs to an owner: the owner controls it, or nothing does
// and the engine created it for the owner as a child that outlives it or is detached. Outside of the namespace of
// the owner, the status of the owner has to list the place: so nobody who can write in another namespace adds
// children to the owner. One whose UID the status records as well needs only some mark.
func IsOwnedBy(child *unstructured.Unstructured, owner *unstructured.Unstructured) bool {
	o, isOriginal := OriginOf(child)
	if decoratorOf(child) == "" && IsElsewhere(owner, child) { // a decorator has no status to list anything in
		switch {
		case IsRecorded(owner, child) && !IsCopy(child) && isMarked(child, owner):
			holder := metav1.GetControllerOfNoCopy(child)
			return holder == nil || holder.UID == owner.GetUID() && !IsDetached(owner, child)
		case !isOriginal || !o.IsElsewhere || !IsListed(owner, child):
			return false
		}
	}
	if metav1.IsControlledBy(child, owner) {
		return !IsDetached(owner, child)
	}
	return isOriginal && (o.Outlives || IsDetached(owner, child)) && IsOrphanOf(child, owner)
}

// isMarked reports whether one of the marks of a child elsewhere still names it and its owner.
func isMarked(child, owner *unstructured.Unstructured) bool {
	_, isOriginal := OriginOf(child)
	return isOriginal || Label(child, LabelOwnerUID) == string(owner.GetUID()) ||
		strings.HasSuffix(Annotation(child, AnnotationOwner),
			"/"+strings.TrimPrefix(owner.GetNamespace()+"/"+owner.GetName(), "/"))
}

// IsOrphanOf reports whether nothing controls an object and its label names an owner.
func IsOrphanOf(child, owner *unstructured.Unstructured) bool {
	return metav1.GetControllerOfNoCopy(child) == nil && child.GetLabels()[LabelOwnerUID] == string(owner.GetUID())
}

// OwnerKey is what children are found by: the UID of an owner, or its kind and name as AnnotationOwner has them.
type OwnerKey string

// OwnerKeys returns the keys by which a child is found: the UIDs of the objects that it is kept for
// and, if it has no controller, the name of the one that it was created for.
func OwnerKeys(child *unstructured.Unstructured) []OwnerKey {
	var keys []OwnerKey
	add := func(key string) {
		if key != "" && !slices.Contains(keys, OwnerKey(key)) {
			keys = append(keys, OwnerKey(key))
		}
	}
	if holder := metav1.GetControllerOfNoCopy(child); holder != nil {
		add(string(holder.UID))
	} else if hasOwnLabel(child) {
		add(Annotation(child, AnnotationOwner))
	}
	add(Label(child, LabelOwnerUID))
	return keys
}

// KeysOf returns the keys of the children of an owner: its UID, and its name as it stands on children in its own
// namespace and, if it has any elsewhere, on those.
func KeysOf(k *kind.Kind, owner *unstructured.Unstructured) []OwnerKey {
	keys := []OwnerKey{OwnerKey(owner.GetUID()), OwnerKey(OwnerPrefix(k) + owner.GetName())}
	if Reaches(k, owner) && owner.GetNamespace() != "" {
		keys = append(keys, OwnerKey(OwnerPrefix(k)+owner.GetNamespace()+"/"+owner.GetName()))
	}
	return keys
}

// MayBelongTo reports whether an object is one that a kind would keep for one of its objects: a child of a
// decorator has its name, and that of a kind has none. Several may keep children for the same object.
func MayBelongTo(k *kind.Kind, object *unstructured.Unstructured) bool {
	if k.Target == nil {
		return decoratorOf(object) == ""
	}
	return decoratorOf(object) == k.Target.Decorator
}

// Decorates reports whether a decorator is for an object: one that it selects, unless it has created it
// itself, which would never end.
func Decorates(k *kind.Kind, object *unstructured.Unstructured) bool {
	return k.Target.Selects(object) && decoratorOf(object) != k.Target.Decorator
}

// decoratorOf returns the decorator that an object is kept by, by the annotation that names its owner or, if that names
// none, by its label. It is empty if there is none.
func decoratorOf(object *unstructured.Unstructured) string {
	keeper, _, isName := strings.Cut(Annotation(object, AnnotationOwner), "/")
	if !isName {
		return Label(object, LabelDecorator)
	}
	name, ofDecorator := strings.CutPrefix(keeper, ownedByDecorator)
	if !ofDecorator {
		return ""
	}
	return name
}

// isOfFormer reports whether an object stays with a former owner of the same name, although its marks name the owner.
// Nobody was asked for the rights to the children of a self-service kind: who creates an object of that name must not
// get what someone else left behind outside of its namespace. And an object that a decorator does not select has no use
// for what was orphaned with a former one.
func isOfFormer(k *kind.Kind, owner, object *unstructured.Unstructured) bool {
	isInOwn := owner.GetNamespace() != "" && !IsElsewhere(owner, object)
	mayBe := k.IsSelfService && !isInOwn || k.Target != nil && !Decorates(k, owner)
	return mayBe && Label(object, LabelOwnerUID) != string(owner.GetUID()) &&
		!metav1.IsControlledBy(object, owner) && !IsRecorded(owner, object)
}

// MayKeep reports whether a kind may have an object that names an owner, by its label or by its name, as a child of it.
func MayKeep(k *kind.Kind, owner, object *unstructured.Unstructured) bool {
	return CanOwn(owner, object) && MayBelongTo(k, object) && !isOfFormer(k, owner, object)
}

// IsChildOf reports whether an object was created for an owner by a kind: it has its controller
// reference or, without any, its label or its name.
func IsChildOf(object, owner *unstructured.Unstructured, k *kind.Kind) bool {
	if !MayKeep(k, owner, object) {
		return false
	}
	keys := OwnerKeys(object)
	return slices.Contains(keys, OwnerKey(owner.GetUID())) ||
		slices.Contains(keys, OwnerKey(OwnerName(k, owner, object)))
}

// BelongsTo reports whether an object is a child of an owner, or was created as one: it may have lost marks that the
// other rule goes by.
func BelongsTo(object, owner *unstructured.Unstructured, k *kind.Kind) bool {
	return MayBelongTo(k, object) && IsOwnedBy(object, owner) || IsChildOf(object, owner, k)
}

// ownedByDecorator begins AnnotationOwner of the children of decorators. A mere name would not do: another
// tool may write anything there, and a child of a kind stays one.
const ownedByDecorator = "decorator:"

// OwnerPrefix returns how AnnotationOwner begins for all objects of a kind.
func OwnerPrefix(k *kind.Kind) string {
	if k.Target != nil {
		return ownedByDecorator + k.Name() + "/"
	}
	return k.Name() + "/"
}

// OwnerName returns the name of an owner in AnnotationOwner of a child: with its namespace if that is not the
// child's.
func OwnerName(k *kind.Kind, owner, child metav1.Object) string {
	if IsDetached(owner, child) {
		return OwnerPrefix(k) + owner.GetNamespace() + "/" + owner.GetName()
	}
	return OwnerPrefix(k) + owner.GetName()
}

// OwnerAt returns where an owner is that a child names: in its own namespace, unless the name has another.
func OwnerAt(k *kind.Kind, child metav1.Object, owner string) types.NamespacedName {
	if namespace, name, isElsewhere := strings.Cut(owner, "/"); isElsewhere {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	if k.Scope == apiextensionsv1.ClusterScoped {
		return types.NamespacedName{Name: owner}
	}
	return types.NamespacedName{Namespace: child.GetNamespace(), Name: owner}
}

// HolderOf returns the controller reference of a child if it names an object of a kind in any version, and the child is
// one that the kind keeps; nil otherwise.
func HolderOf(k *kind.Kind, child *unstructured.Unstructured) *metav1.OwnerReference {
	holder := metav1.GetControllerOfNoCopy(child)
	if holder == nil || !MayBelongTo(k, child) || holder.Kind != k.GroupVersionKind.Kind {
		return nil
	}
	gv, err := schema.ParseGroupVersion(holder.APIVersion)
	if err != nil || gv.Group != k.GroupVersionKind.Group {
		return nil
	}
	return holder
}

// CanOwn reports whether an object may be a child of an owner by its namespace: that of the owner, or any if the
// owner is cluster-scoped, or the object was created elsewhere by its record or that of the owner.
func CanOwn(owner, object *unstructured.Unstructured) bool {
	o, _ := OriginOf(object)
	return !IsDetached(owner, object) || o.IsElsewhere || IsRecorded(owner, object)
}

func ownerReference(k *kind.Kind, owner *unstructured.Unstructured) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: k.GroupVersionKind.GroupVersion().String(), Kind: k.GroupVersionKind.Kind,
		Name: owner.GetName(), UID: owner.GetUID(),
		// A child of an object that is being deleted would be deleted at once by the garbage collector
		// if it blocked that, and if the children are to go first.
		// Blocking may need the right to update the finalizers of the owner, which a decorator has not.
		Controller: new(true), BlockOwnerDeletion: new(owner.GetDeletionTimestamp() == nil && k.Target == nil),
	}
}
