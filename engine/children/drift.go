package children

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
)

// IsManaged reports whether a child has the labels, the annotations and the controller
// reference by which it is found. The reference has to be in the version that the kind stores: once a
// former version is not served, the garbage collector no longer finds an owner in it, and would
// neither delete the child nor let a foreground deletion end.
func IsManaged(live, wanted *unstructured.Unstructured) bool {
	for _, name := range OwnLabels {
		if Label(live, name) != Label(wanted, name) {
			return false
		}
	}
	for _, name := range OwnAnnotations {
		if Annotation(live, name) != Annotation(wanted, name) {
			return false
		}
	}
	if entered, isOnce := entry(wanted, "annotations", AnnotationEntered); isOnce &&
		Annotation(live, AnnotationEntered) != entered {
		return false
	}
	holder := metav1.GetControllerOfNoCopy(live)
	if len(wanted.GetOwnerReferences()) == 0 { // it outlives its owner
		return !slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
			return string(r.UID) == Label(wanted, LabelOwnerUID)
		})
	}
	reference := wanted.GetOwnerReferences()[0]
	return holder != nil && holder.UID == reference.UID && holder.APIVersion == reference.APIVersion
}

// LostMarks returns the paths of the marks that an object does not have as they are wanted; it has the wrong owner
// references if it has all of them.
func LostMarks(live, wanted *unstructured.Unstructured) (paths [][]string) {
	add := func(is, wanted string, path ...string) {
		if is != wanted {
			paths = append(paths, path)
		}
	}
	for _, name := range OwnAnnotations {
		add(Annotation(live, name), Annotation(wanted, name), "metadata", "annotations", name)
	}
	for _, name := range OwnLabels {
		add(Label(live, name), Label(wanted, name), "metadata", "labels", name)
	}
	if entered, isOnce := entry(wanted, "annotations", AnnotationEntered); isOnce {
		add(Annotation(live, AnnotationEntered), entered, "metadata", "annotations", AnnotationEntered)
	}
	if len(paths) == 0 {
		paths = append(paths, []string{"metadata", "ownerReferences"})
	}
	return paths
}

// IsInSync reports whether a managed child was created by the template that is wanted now
// and still has all its fields.
func IsInSync(live, wanted *unstructured.Unstructured, normalized *Normalized) bool {
	if !HasTemplateOf(live, wanted) {
		return false
	}
	template := StoreText(wanted).DeepCopy()
	template.SetOwnerReferences(nil)
	// The second part of the hash alone is no reason to write: an earlier version may have computed it otherwise.
	template.SetAnnotations(
		merged(template.GetAnnotations(), map[string]string{AnnotationTemplate: Annotation(live, AnnotationTemplate)}))
	return contains(live.Object, template.Object) || normalized.has(live, template)
}

// StoreText moves the stringData of a Secret to its data, as the API server does, where it replaces fields of the same
// names. It returns other objects as they are, and changes none.
func StoreText(secret *unstructured.Unstructured) *unstructured.Unstructured {
	text, _, err := unstructured.NestedStringMap(secret.Object, "stringData")
	if err != nil || text == nil || !kind.IsSecret(secret.GroupVersionKind()) {
		return secret
	}
	stored := secret.DeepCopy()
	delete(stored.Object, "stringData")
	for name, value := range text {
		encoded := base64.StdEncoding.EncodeToString([]byte(value))
		if err := unstructured.SetNestedField(stored.Object, encoded, "data", name); err != nil {
			return secret // data is not an object: the API server rejects the Secret
		}
	}
	return stored
}

// contains reports whether an object has everything that a template has. Fields that the
// template does not mention may be anything; lists must be as long as they are in the
// template, since it has them whole.
func contains(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, ok := live.(map[string]any)
		if !ok {
			return live == nil && len(wanted) == 0
		}
		for name, value := range wanted {
			if !contains(has[name], value) {
				return false
			}
		}
		return true
	case []any:
		has, ok := live.([]any)
		if !ok || len(has) != len(wanted) {
			return live == nil && len(wanted) == 0
		}
		for i := range wanted {
			if !contains(has[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(live, wanted)
}

// IsEmptied reports whether an apply has removed a struct that its template has, with nothing in it: it drops the
// fields that a former apply has set there, and with the last of them the struct. Only the next apply would give the
// child the empty struct, whenever that is.
func IsEmptied(before, template, stored any) bool {
	fields, isStruct := template.(map[string]any)
	had, _ := before.(map[string]any)
	has, _ := stored.(map[string]any)
	if isStruct && has == nil {
		return len(had) > 0
	}
	for name, field := range fields {
		if IsEmptied(had[name], field, has[name]) {
			return true
		}
	}
	return false
}

// Differences returns the paths of what a template has and an object does not contain.
func Differences(live, template any, path []string) (paths [][]string) {
	fields, ok := template.(map[string]any)
	if !ok || len(fields) == 0 {
		if contains(live, template) {
			return nil
		}
		return [][]string{path}
	}
	has, _ := live.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		paths = append(paths, Differences(has[name], fields[name], append(slices.Clone(path), name))...)
	}
	return paths
}

// mentioned returns the part of an object that a template mentions.
func mentioned(live, template any) any {
	switch template := template.(type) {
	case map[string]any:
		has, _ := live.(map[string]any)
		part := make(map[string]any, len(template))
		for name, value := range template {
			part[name] = mentioned(has[name], value)
		}
		return part
	case []any:
		has, _ := live.([]any)
		if len(has) != len(template) {
			return live
		}
		part := make([]any, len(template))
		for i := range template {
			part[i] = mentioned(has[i], template[i])
		}
		return part
	}
	return live
}

// Normalized remembers children in which the API server writes something differently from
// their template, such as the quantity "1000m" that it stores as "1". Such a child is in
// sync while it is as the API server stored it when the template was applied.
type Normalized struct {
	mu      sync.Mutex
	byChild map[types.UID]normalizedChild
}

// normalizedChild is what a template mentions of a child, as the API server stored it, and when.
type normalizedChild struct {
	stored any
	at     time.Time
}

// NewNormalized returns a memory that is empty.
func NewNormalized() *Normalized { return &Normalized{byChild: make(map[types.UID]normalizedChild)} }

// Remember takes what the API server answered when a child was applied.
func (n *Normalized) Remember(stored, wanted *unstructured.Unstructured, now time.Time) {
	template := StoreText(wanted).DeepCopy()
	template.SetOwnerReferences(nil)
	template.SetUID("")
	template.SetResourceVersion("")
	n.mu.Lock()
	defer n.mu.Unlock()
	if contains(stored.Object, template.Object) {
		delete(n.byChild, stored.GetUID())
		return
	}
	n.byChild[stored.GetUID()] = normalizedChild{mentioned(stored.Object, template.Object), now}
}

// has reports whether a child is still as the API server stored it when its template was
// applied; the template is that of the child's annotation.
func (n *Normalized) has(live, template *unstructured.Unstructured) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	child, known := n.byChild[live.GetUID()]
	return known && equality.Semantic.DeepEqual(child.stored, mentioned(live.Object, template.Object))
}

// Since returns when the API server stored a child differently from its template; zero if it did not.
func (n *Normalized) Since(child types.UID) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byChild[child].at
}

// Alterations returns the paths of the values in an object that are others than those of a template, or were removed,
// as after a mutating policy. A quantity that is written differently is none, nor are an empty value that is left out,
// what the API server stores elsewhere, and items that were added to a list.
func Alterations(live, template any, path string) (paths []string) {
	switch template := template.(type) {
	case map[string]any:
		has, _ := live.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(template)) {
			if path != "" || !storedElsewhere.Has(name) {
				paths = append(paths, Alterations(has[name], template[name], path+"."+name)...)
			}
		}
		return paths
	case []any:
		has, _ := live.([]any)
		if len(has) < len(template) {
			return []string{strings.TrimPrefix(path, ".")}
		}
		for i := range template {
			if len(has) == len(template) {
				paths = append(paths, Alterations(has[i], template[i], fmt.Sprintf("%s[%d]", path, i))...)
			}
		}
		return paths
	}
	if live == nil && isEmpty(template) || equality.Semantic.DeepEqual(live, template) ||
		IsSameQuantity(live, template) {
		return nil
	}
	return []string{strings.TrimPrefix(path, ".")}
}

// storedElsewhere are the fields of objects that a write of the object does not store as they are: the stringData of a
// Secret becomes part of its data, and a status is a subresource.
var storedElsewhere = sets.New("stringData", "status")

// isEmpty reports whether a scalar is what the API server leaves out of fields that may be omitted.
func isEmpty(scalar any) bool {
	return scalar == nil || reflect.ValueOf(scalar).IsZero()
}

// IsSameQuantity reports whether two values are the same quantity, like "1000m" and 1.
func IsSameQuantity(a, b any) bool {
	x, errX := resource.ParseQuantity(fmt.Sprint(a))
	y, errY := resource.ParseQuantity(fmt.Sprint(b))
	return errX == nil && errY == nil && x.Cmp(y) == 0
}

// Forget drops what is known of a child that is gone.
func (n *Normalized) Forget(child types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byChild, child)
}
