package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The labels of every child. The second selects the children to watch: unlike the first, no
// other tool sets it. The last is for children of a phase, which stay when it is left.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "fescue"
	LabelOwnerUID  = "fescue.dev/owner-uid"
	labelChild     = "fescue.dev/child"
	labelPhase     = "fescue.dev/phase"
	// labelDecorator names the decorator that a child is kept by. Children of kinds do not have it.
	labelDecorator = "fescue.dev/decorator"
)

// OwnLabels are the labels that only the engine writes.
var OwnLabels = []string{labelManagedBy, LabelOwnerUID, labelChild, labelPhase, labelDecorator}

const (
	// annotationTemplate holds the hash, as of hashOf, that a child was last created or applied by. It
	// distinguishes a changed template from fields that the API server or others have changed.
	annotationTemplate = "fescue.dev/template"
	// AnnotationOwner names the object that a child was created for. It finds the children
	// of an object that was restored from a backup with another UID, when they have lost
	// their owner references (velero#4707).
	AnnotationOwner = "fescue.dev/owner"
	// annotationCreatedAs records as what a child was created; see origin. It distinguishes a
	// child from copies of it, which carry all its metadata.
	annotationCreatedAs = "fescue.dev/created-as"
	// AnnotationEntered is when its phase was entered, for a child that is created once in it. It distinguishes
	// a child from that of a former entry under the same name.
	AnnotationEntered = "fescue.dev/entered"
)

// OwnAnnotations are the annotations of every child by which it is recognized.
var OwnAnnotations = []string{AnnotationOwner, annotationCreatedAs}

const (
	// ManagedSelector selects the children of all kinds, and unmanagedSelector everything else.
	ManagedSelector   = LabelOwnerUID
	unmanagedSelector = "!" + LabelOwnerUID
)

// OwnerSelector selects the children of an object.
func OwnerSelector(owner *unstructured.Unstructured) string {
	return LabelOwnerUID + "=" + string(owner.GetUID())
}

// IsLabelledFor reports whether OwnerSelector selects an object for an owner.
func IsLabelledFor(object, owner *unstructured.Unstructured) bool {
	return Label(object, LabelOwnerUID) == string(owner.GetUID())
}

// StraySelector selects the unmanaged objects that have all of a set's labels.
func StraySelector(labels []string) string {
	return strings.Join(labels, ",") + "," + unmanagedSelector
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

// KeysOf returns the keys of the children of an owner: its UID, and its name as it stands on children in its own namespace and, if it
// has any elsewhere, on those.
func KeysOf(k *kind.Kind, owner *unstructured.Unstructured) []OwnerKey {
	keys := []OwnerKey{OwnerKey(owner.GetUID()), OwnerKey(OwnerPrefix(k) + owner.GetName())}
	if Reaches(k, owner) && owner.GetNamespace() != "" {
		keys = append(keys, OwnerKey(OwnerPrefix(k)+owner.GetNamespace()+"/"+owner.GetName()))
	}
	return keys
}

// hasOwnLabel reports whether an object has one of the labels by which children are found.
func hasOwnLabel(object *unstructured.Unstructured) bool {
	_, found := entry(object, "labels", LabelOwnerUID)
	return found || Label(object, labelManagedBy) == managedBy
}

// IsKeptBy reports whether an object is one that a kind would keep for one of its objects: a child of a
// decorator has its name, and that of a kind has none. Several may keep children for the same object.
func IsKeptBy(k *kind.Kind, object *unstructured.Unstructured) bool {
	if k.Target == nil {
		return decoratorOf(object) == ""
	}
	return decoratorOf(object) == k.Target.Decorator
}

// DecoratorSelector selects the children that a decorator keeps.
func DecoratorSelector(k *kind.Kind) string { return labelDecorator + "=" + k.Target.Decorator }

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
		return Label(object, labelDecorator)
	}
	name, ofDecorator := strings.CutPrefix(keeper, ownedByDecorator)
	if !ofDecorator {
		return ""
	}
	return name
}

// IsChildOf reports whether an object was created for an owner by a kind: it has its controller
// reference or, without any, its label or its name.
func IsChildOf(object, owner *unstructured.Unstructured, k *kind.Kind) bool {
	if !CanOwn(owner, object) || !IsKeptBy(k, object) {
		return false
	}
	keys := OwnerKeys(object)
	return slices.Contains(keys, OwnerKey(owner.GetUID())) || slices.Contains(keys, OwnerKey(OwnerName(k, owner, object)))
}

// BelongsTo reports whether an object is a child of an owner, or was created as one: it may have lost marks that the other
// rule goes by.
func BelongsTo(object, owner *unstructured.Unstructured, k *kind.Kind) bool {
	return IsKeptBy(k, object) && IsOwnedBy(object, owner) || IsChildOf(object, owner, k)
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
	if isDetached(owner, child) {
		return OwnerPrefix(k) + owner.GetNamespace() + "/" + owner.GetName()
	}
	return OwnerPrefix(k) + owner.GetName()
}

// childObject completes the template of a child: with a name, a namespace if its type has one,
// the labels by which it is found, a hash of the template, and a controller reference.
// For a set, the name is the prefix of its members' names.
func childObject(k *kind.Kind, owner *unstructured.Unstructured, child kind.Child, isNamespaced bool) (*unstructured.Unstructured, error) {
	hash, err := hashOf(child.Template)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(child.Template); err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(child.Template)}
	namespace := namespaceOf(k, owner, child)
	switch own := owner.GetNamespace(); {
	case !isNamespaced && namespace != "":
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: a %s has no namespace", namespace, object.GetKind())
	case isNamespaced && namespace == "":
		return nil, fmt.Errorf("metadata.namespace: Required value: a %s is namespaced, and its object is not", object.GetKind())
	case own != "" && namespace != own && !slices.Contains(k.Elsewhere, object.GroupVersionKind()):
		return nil, fmt.Errorf("metadata.namespace: Invalid value: %q: must be the namespace of its object, %q", namespace, own)
	}
	object.SetNamespace(namespace)
	object.SetName(nameOf(owner, child))
	object.SetAnnotations(merged(object.GetAnnotations(), map[string]string{annotationTemplate: hash}))
	origin{child: child.Name, phase: child.Phase, outlives: child.OnDelete == kind.Orphan}.mark(k, owner, object)
	return object, nil
}

// typeOf returns the type of a child.
func typeOf(child kind.Child) schema.GroupVersionKind {
	return (&unstructured.Unstructured{Object: child.Template}).GroupVersionKind()
}

// namespaceOf returns the namespace of a child: the one in its template, or else its owner's if its type has one.
func namespaceOf(k *kind.Kind, owner *unstructured.Unstructured, child kind.Child) string {
	stated, _, err := unstructured.NestedString(child.Template, "metadata", "namespace")
	switch {
	case err == nil && stated != "": // checkMetadata rejects what is not a string
		return stated
	case slices.Contains(k.OwnsOfCluster, typeOf(child)):
		return ""
	}
	return owner.GetNamespace()
}

// CanOwn reports whether an object may be a child of an owner by its namespace: that of the owner, or any if the
// owner is cluster-scoped, or the object was created elsewhere by its record or that of the owner.
func CanOwn(owner, object *unstructured.Unstructured) bool {
	o, _ := originOf(object)
	return !isDetached(owner, object) || o.isElsewhere || knows(owner, object)
}

// called returns the name of a child for people: with its namespace if it has one that is not the owner's.
func called(child, owner metav1.Object) string {
	if namespace := child.GetNamespace(); namespace != "" && isElsewhere(owner, child) {
		return namespace + "/" + child.GetName()
	}
	return child.GetName()
}

// nameOf returns the name of a child or, of a set, the prefix of its members' names.
func nameOf(owner *unstructured.Unstructured, child kind.Child) string {
	name, _, err := unstructured.NestedString(child.Template, "metadata", "name")
	limit := maxName
	if child.Set != nil {
		limit -= maxSuffix
	}
	switch {
	case err != nil || name == "": // checkMetadata rejects what is not a string
		return shortened(owner.GetName()+"-"+child.Name, limit)
	case child.Set != nil:
		return shortened(name, limit)
	}
	return name
}

// checkMetadata rejects what the accessors of unstructured objects would treat as absent. A
// set's labels decide which unmanaged objects are deleted.
func checkMetadata(template map[string]any) error {
	metadata, isStruct := template["metadata"].(map[string]any)
	if template["metadata"] != nil && !isStruct {
		return fmt.Errorf("metadata: Invalid value: %v: must be a struct", template["metadata"])
	}
	for _, name := range []string{"labels", "annotations"} {
		values, isStruct := metadata[name].(map[string]any)
		if metadata[name] != nil && !isStruct {
			return fmt.Errorf("metadata.%s: Invalid value: %v: must be a struct of strings", name, metadata[name])
		}
		for key, value := range values {
			if _, isString := value.(string); !isString {
				return fmt.Errorf("metadata.%s.%s: Invalid value: %v: must be a string", name, key, value)
			}
		}
	}
	if namespace := metadata["namespace"]; namespace != nil {
		if _, isString := namespace.(string); !isString {
			return fmt.Errorf("metadata.namespace: Invalid value: %v: must be a name", namespace)
		}
	}
	if name, isString := metadata["name"].(string); metadata["name"] != nil && (!isString || name == "") {
		return fmt.Errorf("metadata.name: Invalid value: %v: must be a name", metadata["name"])
	}
	return nil
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

const (
	// maxName is the limit of most types for the name of an object.
	maxName = validation.DNS1123SubdomainMaxLength
	// maxSuffix is room for what memberName appends, with numbers of up to six digits.
	maxSuffix = 1 + hashDigits + 1 + 6
	// hashDigits is how much of a template's hash is in the names of members. Two templates with the
	// same digits do no harm, because the numbers differ.
	hashDigits = 5
)

// shortened cuts a name to at most limit characters and appends a hash of the whole, so
// that different long names stay different.
func shortened(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := hex.EncodeToString(hash[:4])
	return strings.TrimRight(name[:limit-1-len(suffix)], "-.") + "-" + suffix
}

// memberName names a member of a set, like web-3f9a1-7, by the first digits of its template's hash.
// Every reconcile uses the same numbers, so that one with a stale cache meets the member that exists
// and creates no other.
func memberName(member *unstructured.Unstructured, number int) string {
	return member.GetName() + "-" + contentHash(member)[:hashDigits] + "-" + strconv.Itoa(number)
}

// orderedName names a member of an ordered set, like web-3.
func orderedName(prefix string, index int) string { return prefix + "-" + strconv.Itoa(index) }

var orderedSuffix = regexp.MustCompile(`^-(0|[1-9][0-9]{0,8})$`)

var memberSuffix = regexp.MustCompile(`^-[0-9a-f]{5}-(0|[1-9][0-9]{0,8})$`)

// memberNumber returns the number in the name of a member of any template.
func memberNumber(set *kind.Set, prefix, name string) (number int, ok bool) {
	suffix, found := strings.CutPrefix(name, prefix)
	pattern := memberSuffix
	if set.Ordered {
		pattern = orderedSuffix
	}
	groups := pattern.FindStringSubmatch(suffix)
	if !found || groups == nil {
		return 0, false
	}
	number, err := strconv.Atoi(groups[1])
	return number, err == nil
}

// lastNumber returns the number at the end of a member's name; 0 if there is none.
func lastNumber(name string) int {
	number, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return number
}

// merged returns a with the entries of b, which replace those of a.
func merged(a, b map[string]string) map[string]string {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}
