package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Collect does what the garbage collector of Kubernetes does, once for each object, and reports whether it changed any:
// it deletes what no owner is left of, and ends deletions that orphan or wait for what their object owns. Owners of
// types that are not served are taken to exist.
func (s *Store) Collect() (changed bool) {
	c, before := collector{s}, s.version
	s.each(func(t *table, k key, object *unstructured.Unstructured) {
		if object.GetDeletionTimestamp() == nil && len(object.GetOwnerReferences()) > 0 {
			c.collect(t, k, object)
		}
	})
	s.each(func(t *table, k key, object *unstructured.Unstructured) {
		if object.GetDeletionTimestamp() != nil {
			c.endDeletion(t, k, object)
		}
	})
	return s.version > before
}

// each calls a function for every object, in its present state.
func (s *Store) each(do func(*table, key, *unstructured.Unstructured)) {
	for _, t := range s.tables {
		for _, listed := range s.list(t, "") {
			k := key{listed.GetNamespace(), listed.GetName()}
			if object := t.objects[k]; object != nil {
				do(t, k, object)
			}
		}
	}
}

// remove deletes an object.
func (s *Store) remove(t *table, k key, object *unstructured.Unstructured, policy metav1.DeletionPropagation) {
	_, _, _ = s.delete(t, k,
		metav1.DeleteOptions{PropagationPolicy: &policy,
			Preconditions: metav1.NewUIDPreconditions(string(object.GetUID()))})
}

// collector is the garbage collector of a store.
type collector struct{ store *Store }

// owner returns the owner of a reference; nil if it is gone. isServed means that its type is known.
func (c collector) owner(
	namespace string, reference metav1.OwnerReference,
) (owner *unstructured.Unstructured, isServed bool) {
	for _, t := range c.store.tables {
		if t.GroupVersion().String() == reference.APIVersion && t.Kind == reference.Kind &&
			c.store.types[t.GroupVersionResource] != gone {
			isServed = true
			for _, in := range []string{namespace, ""} { // an owner has the same namespace, or none
				if owner := t.objects[key{in, reference.Name}]; owner != nil && owner.GetUID() == reference.UID {
					return owner, true
				}
			}
		}
	}
	return nil, isServed
}

// collect deletes an object whose owners are gone, or are deleted in the foreground.
func (c collector) collect(t *table, k key, object *unstructured.Unstructured) {
	var left []metav1.OwnerReference
	waited := false // an owner waits for this object
	for _, reference := range object.GetOwnerReferences() {
		switch owner, isServed := c.owner(k.namespace, reference); {
		case !isServed:
			left = append(left, reference)
		case owner == nil:
		case owner.GetDeletionTimestamp() != nil &&
			slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents):
			waited = true
		default:
			left = append(left, reference)
		}
	}
	switch {
	case len(left) == len(object.GetOwnerReferences()):
	case len(left) > 0:
		c.setOwners(t, object, left)
	case waited:
		c.store.remove(t, k, object, metav1.DeletePropagationForeground)
	default:
		c.store.remove(t, k, object, metav1.DeletePropagationBackground)
	}
}

func (c collector) setOwners(t *table, object *unstructured.Unstructured, owners []metav1.OwnerReference) {
	if len(owners) == 0 {
		owners = nil // no field, instead of an empty one
	}
	changed := object.DeepCopy()
	changed.SetOwnerReferences(owners)
	c.store.write(t, changed, false)
}

// endDeletion takes the finalizers of the garbage collector off an object that is deleted, when what they wait for is
// done.
func (c collector) endDeletion(t *table, k key, object *unstructured.Unstructured) {
	finalizers := object.GetFinalizers()
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		for _, d := range c.dependents(object.GetUID()) {
			c.setOwners(d.table, d.object,
				slices.DeleteFunc(d.object.GetOwnerReferences(),
					func(r metav1.OwnerReference) bool { return r.UID == object.GetUID() }))
		}
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == metav1.FinalizerOrphanDependents })
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		if slices.ContainsFunc(c.dependents(object.GetUID()), func(d dependent) bool { return d.blocks }) {
			return
		}
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == metav1.FinalizerDeleteDependents })
	default:
		return
	}
	changed := object.DeepCopy()
	if changed.SetFinalizers(finalizers); len(finalizers) > 0 {
		c.store.write(t, changed, false)
		return
	}
	c.store.drop(t, k, changed)
}

// dependent is an object with a reference to an owner, which may have its deletion wait for it.
type dependent struct {
	table  *table
	object *unstructured.Unstructured
	blocks bool
}

func (c collector) dependents(owner types.UID) (found []dependent) {
	for _, t := range c.store.tables {
		for _, object := range c.store.list(t, "") {
			for _, reference := range object.GetOwnerReferences() {
				if reference.UID == owner {
					found = append(found,
						dependent{t, object, reference.BlockOwnerDeletion != nil && *reference.BlockOwnerDeletion})
				}
			}
		}
	}
	return found
}
