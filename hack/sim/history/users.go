package history

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// sampled returns an object that the schema of a kind makes, or one for a decorator.
func sampled(random *rand.Rand, k *kind.Kind, _ time.Time) map[string]any {
	if k.Target != nil {
		return decorated(random, k)
	}
	sample := k.Sampler()
	for {
		object := sample(random)
		delete(object, "status")
		metadata, _ := object["metadata"].(map[string]any)
		object["metadata"] = map[string]any{"name": "a", "labels": metadata["labels"],
			"annotations": metadata["annotations"]}
		if !isValid(k, object) {
			continue
		}
		lessen(object["spec"], func() bool { return isValid(k, object) })
		if random.IntN(8) == 0 {
			alter(random, object["spec"]) // it may be rejected
		}
		return object
	}
}

// isValid reports whether an object is valid once it has its defaults.
func isValid(k *kind.Kind, object map[string]any) bool {
	return len(k.Problems(k.Default(object))) == 0
}

// lessen makes the numbers in a value less than 5, those of which that is right, and removes finalizers, which nobody
// would remove again.
func lessen(value any, isRight func() bool) {
	fields, _ := value.(map[string]any)
	delete(fields, "finalizers")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		n, isInt := fields[name].(int64)
		if isInt && n >= 5 {
			if fields[name] = n % 5; !isRight() {
				fields[name] = n
			}
		}
		lessen(fields[name], isRight)
	}
}

// decorated returns an object that a decorator may be for.
func decorated(random *rand.Rand, k *kind.Kind) map[string]any {
	metadata := map[string]any{"name": "a"}
	if random.IntN(4) > 0 {
		metadata["annotations"] = map[string]any{k.Target.Annotation: []string{"80", "80:8080,443"}[random.IntN(2)]}
	}
	object := map[string]any{"apiVersion": k.GroupVersionKind.GroupVersion().String(), "kind": k.GroupVersionKind.Kind,
		"metadata": metadata}
	if k.GroupVersionKind.Group == appsv1.GroupName {
		object["spec"] = map[string]any{"replicas": int64(random.IntN(4))}
	}
	return object
}

// users create objects, and do to them and to what they own what users do, until the disturbances end.
func (h *history) users(ctx context.Context) {
	random := h.random.own()
	deeds := []deed{none, deleteObject, editObject, editObject, editObject}
	if !h.Once {
		deeds = append(deeds, deleteChild, alterChild, unmarkChild, releaseChild, copyChild, stray, hold, occupy,
			changeRead)
		if slices.ContainsFunc(h.Kinds, (*kind.Kind).Injects) {
			deeds = append(deeds, changePod, changePod, changePod, changePod)
		}
	}
	pause := func() { sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(3*h.Objects+1)))) }
	for range h.Objects {
		pause()
		for created := h.created; h.created == created && ctx.Err() == nil; pause() { // it may be rejected
			h.server.Do(users, func(s *apiserver.Store) { createObject(user{h, s, random}) })
		}
		for range 1 + random.IntN(6) {
			if random.IntN(2) == 0 {
				// while operators still act on what was done before
				sleep(ctx, time.Duration(random.IntN(int(time.Second/5))))
			} else {
				pause()
			}
			if ctx.Err() != nil {
				return
			}
			h.server.Do(users, func(s *apiserver.Store) { deeds[random.IntN(len(deeds))](user{h, s, random}) })
		}
	}
}

// user is someone who changes the store.
type user struct {
	*history
	store  *apiserver.Store
	random *rand.Rand
}

// deed is what a user does at one time.
type deed func(user)

func none(user) {}

func (u user) kind() *kind.Kind { return u.Kinds[u.random.IntN(len(u.Kinds))] }

// createObject creates an object of a kind; the name may be one that another had.
func createObject(u user) {
	k := u.kind()
	object := &unstructured.Unstructured{Object: u.Make(u.random, k, time.Now())}
	object.SetName(u.name())
	mark := u.marked(k, object.Object)
	object, err := u.written(k, object)
	if err != nil {
		u.tell("user cannot write %s: %v", idOf(object), err)
		return
	}
	created, err := u.store.Create(u.resourceOf(k), namespaceFor(k), object, "user")
	if err != nil {
		u.tell("user cannot create %s: %v", idOf(object), err)
		return
	}
	u.marksOf[mark] = created.GetUID()
	u.created++
}

// name returns a name of an object that may exist.
func (u user) name() string { return fmt.Sprint("a", u.random.IntN(u.Objects+1)) }

func namespaceFor(k *kind.Kind) string {
	if k.Scope == apiextensionsv1.ClusterScoped {
		return ""
	}
	return namespace
}

// one returns one of the objects of all types, or of some, that have a property; nil if none has.
func (u user) one(
	has func(apiserver.Resource, *unstructured.Unstructured) bool,
) (of apiserver.Resource, found *unstructured.Unstructured) {
	type live struct {
		resource apiserver.Resource
		object   *unstructured.Unstructured
	}
	var all []live
	for _, r := range u.Served {
		for _, object := range u.store.List(r.GroupVersionResource) {
			if has(r, object) {
				all = append(all, live{r, object})
			}
		}
	}
	if len(all) == 0 {
		return of, nil
	}
	one := all[u.random.IntN(len(all))]
	return one.resource, one.object.DeepCopy()
}

// object returns an object of a kind; nil if there is none.
func (u user) object() (*kind.Kind, *unstructured.Unstructured) {
	k := u.kind()
	resource := u.resourceOf(k)
	_, object := u.one(func(r apiserver.Resource, _ *unstructured.Unstructured) bool {
		return r.GroupVersionResource == resource
	})
	return k, object
}

// child returns an object that an operator has created.
func (u user) child() (apiserver.Resource, *unstructured.Unstructured) {
	return u.one(func(_ apiserver.Resource, object *unstructured.Unstructured) bool {
		return object.GetLabels()[labelOwner] != ""
	})
}

func nameOf(object *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

// deleteObject deletes an object of a kind in one of the ways of kubectl delete --cascade.
func deleteObject(u user) {
	if k, object := u.object(); object != nil {
		policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
			metav1.DeletePropagationOrphan}
		_ = u.store.Delete(u.resourceOf(k), nameOf(object), policies[u.random.IntN(len(policies))])
	}
}

// editObject gives an object the spec of another. What its kind forbids is rejected.
func editObject(u user) {
	k, object := u.object()
	if object == nil {
		return
	}
	changed := object.DeepCopy()
	other := &unstructured.Unstructured{Object: u.Make(u.random, k, time.Now())}
	u.marksOf[u.marked(k, other.Object)] = object.GetUID()
	if spec := other.Object["spec"]; spec != nil {
		changed.Object["spec"] = spec
	}
	if k.Target != nil {
		changed.SetAnnotations(other.GetAnnotations())
	}
	if changed, err := u.written(k, changed); err == nil {
		_, _ = u.store.Update(u.resourceOf(k), changed, "user")
	}
}

// written returns an object after a user has written it in a version that is chosen at random, and the API server has
// converted it to the stored one. That changes nothing. With an error, it returns the object as it was.
func (u user) written(k *kind.Kind, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if len(k.Versions) < 2 || u.Unchecked {
		return object, nil
	}
	version := k.Versions[u.random.IntN(len(k.Versions))].GroupVersionKind
	if version == k.GroupVersionKind {
		return object, nil
	}
	there, err := u.webhooks.convert(object, version.GroupVersion())
	if err != nil {
		return object, err
	}
	back, err := u.webhooks.convert(there, k.GroupVersionKind.GroupVersion())
	if err != nil {
		return object, err
	}
	if was, is := k.Default(object.Object)["spec"], k.Default(back.Object)["spec"]; isValid(k, object.Object) &&
		!reflect.DeepEqual(was, is) {
		u.note(fmt.Sprintf("%s is %v when it was written in %s, and was %v", idOf(object), is, version.Version, was))
	}
	u.tell("user writes %s in %s", idOf(object), version.Version)
	return back, nil
}

func deleteChild(u user) {
	if r, child := u.child(); child != nil {
		_ = u.store.Delete(r.GroupVersionResource, nameOf(child), metav1.DeletePropagationBackground)
	}
}

// update replaces a child, which counts as altered from then on.
func (u user) update(r apiserver.Resource, child *unstructured.Unstructured) {
	u.altered.Insert(child.GetUID())
	_, _ = u.store.Update(r.GroupVersionResource, child, "user")
}

// alterChild changes a value in a child.
func alterChild(u user) {
	if r, child := u.child(); child != nil {
		u.alterContent(r, child)
	}
}

// alterContent changes a value in a child that is none of its metadata or status.
func (u user) alterContent(r apiserver.Resource, child *unstructured.Unstructured) {
	content := maps.Clone(child.Object)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, name)
	}
	alter(u.random, content)
	maps.Copy(child.Object, content)
	u.update(r, child)
}

// alter changes one of the values in a value, which it returns.
func alter(random *rand.Rand, value any) any {
	switch value := value.(type) {
	case map[string]any:
		if len(value) > 0 {
			names := slices.Sorted(maps.Keys(value))
			name := names[random.IntN(len(names))]
			value[name] = alter(random, value[name])
		}
	case []any:
		if len(value) > 0 {
			i := random.IntN(len(value))
			value[i] = alter(random, value[i])
		}
	case string:
		return value + "x"
	case int64:
		return value + 1
	case bool:
		return !value
	}
	return value
}

// unmarkChild removes or changes one of the marks of a child.
func unmarkChild(u user) {
	r, child := u.child()
	if child == nil {
		return
	}
	labels, annotations := child.GetLabels(), child.GetAnnotations()
	marks := labels
	if u.random.IntN(2) == 0 {
		marks = annotations
	}
	if names := slices.Sorted(maps.Keys(marks)); len(names) > 0 {
		name := names[u.random.IntN(len(names))]
		delete(marks, name)
		if u.random.IntN(2) == 0 {
			marks[name] = "other"
		}
	}
	child.SetLabels(labels)
	child.SetAnnotations(annotations)
	u.update(r, child)
}

// releaseChild takes the owner of a child away.
func releaseChild(u user) {
	if r, child := u.child(); child != nil {
		child.SetOwnerReferences(nil)
		u.update(r, child)
	}
}

// copyChild copies a child, with all its metadata.
func copyChild(u user) {
	if r, child := u.child(); child != nil {
		child.SetName(child.GetName() + "-copy")
		u.createAgain(r, child)
	}
}

// stray creates an object that has the labels of the template of a child, and none of its marks.
func stray(u user) {
	r, child := u.child()
	if child == nil {
		return
	}
	labels := child.GetLabels()
	maps.DeleteFunc(labels, func(name, _ string) bool { return isMark(name) })
	child.SetLabels(labels)
	child.SetAnnotations(nil)
	child.SetOwnerReferences(nil)
	child.SetName(child.GetName() + "-stray")
	u.createAgain(r, child)
}

func (u user) createAgain(r apiserver.Resource, object *unstructured.Unstructured) {
	for _, mark := range marks.FindAllString(object.GetName(), -1) {
		u.marksOf[mark] = "" // whoever sees this object knows it
	}
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	object.SetFinalizers(nil)
	if created, err := u.store.Create(r.GroupVersionResource, object.GetNamespace(), object, "user"); err == nil {
		u.copies.Insert(created.GetUID())
	}
}

// occupy creates an object that has the name of a child that another object may want, and nothing to do with it.
func occupy(u user) {
	r, child := u.child()
	if child == nil || len(child.GetOwnerReferences()) == 0 {
		return
	}
	foreign := &unstructured.Unstructured{Object: maps.Clone(child.Object)}
	foreign.Object["metadata"] = map[string]any{
		"namespace": child.GetNamespace(),
		"name":      strings.ReplaceAll(child.GetName(), child.GetOwnerReferences()[0].Name, u.name()),
	}
	u.createAgain(r, foreign)
}

const heldBy = "example.com/held"

// hold deletes something that a finalizer keeps until the disturbances end.
func hold(u user) {
	r, object := u.child()
	if object == nil {
		return
	}
	object.SetFinalizers(append(object.GetFinalizers(), heldBy))
	if _, err := u.store.Update(r.GroupVersionResource, object, "user"); err == nil {
		_ = u.store.Delete(r.GroupVersionResource, nameOf(object), metav1.DeletePropagationBackground)
	}
}

// letGo removes all finalizers of hold.
func letGo(u user) {
	for _, r := range u.Served {
		for _, object := range u.store.List(r.GroupVersionResource) {
			if slices.Contains(object.GetFinalizers(), heldBy) {
				free := object.DeepCopy()
				free.SetFinalizers(slices.DeleteFunc(free.GetFinalizers(), func(f string) bool { return f == heldBy }))
				u.update(r, free)
			}
		}
	}
}

// changeRead creates, changes or deletes an object that a kind may read.
func changeRead(u user) {
	k := u.kind()
	if len(k.Lookups) == 0 {
		return
	}
	read := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": fmt.Sprint(
		u.random.IntN(3))}}}
	read.SetGroupVersionKind(k.Lookups[u.random.IntN(len(k.Lookups))].Type)
	resource := u.resource(read.GroupVersionKind()).GroupVersionResource
	read.SetNamespace(namespace)
	read.SetName(readNames[u.random.IntN(len(readNames))])
	if _, err := u.store.Create(resource, namespace, read, "user"); err == nil {
		return
	}
	if u.random.IntN(2) == 0 {
		_ = u.store.Delete(resource, nameOf(read), metav1.DeletePropagationBackground)
		return
	}
	_, _ = u.store.Update(resource, read, "user")
}

// readNames are names of objects that the examples read.
var readNames = []string{"demo", "source"}
