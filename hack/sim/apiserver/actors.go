package apiserver

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// These are what others do to a store, without a client: users, a kubelet, and who looks at what came of it.

// Version returns that of the last write.
func (s *Store) Version() int { return s.version }

// Changes returns all writes, in their order.
func (s *Store) Changes() []Change { return s.changes }

// Compact forgets the changes until now: a client that watches from an older version has to list again.
func (s *Store) Compact() { s.forgotten = s.version }

// Restore goes back to the state after so many of the writes, as a restore of etcd from an older copy does: versions
// are given once more, and all watches break.
func (s *Store) Restore(writes int) {
	s.undo(writes)
	s.forgotten = s.version
	s.restores++
	clear(s.types) // their CRDs are in the copy
	for _, resource := range s.defined {
		s.types[resource] = ends // until define knows better
	}
}

// undo goes back to the state after so many of the writes.
func (s *Store) undo(writes int) {
	for i := len(s.changes) - 1; i >= writes; i-- {
		c := s.changes[i]
		k := key{c.Object().GetNamespace(), c.Object().GetName()}
		if c.Before == nil {
			delete(c.table.objects, k)
		} else {
			c.table.objects[k] = c.Before
		}
		delete(c.table.dropped, k)
		s.version = c.Version - 1
	}
	s.changes = slices.Clone(s.changes[:writes])
}

// List returns all objects of a resource, in the order of their names.
func (s *Store) List(resource schema.GroupVersionResource) []*unstructured.Unstructured {
	if t := s.table(resource); t != nil {
		return s.list(t, "")
	}
	return nil
}

func (s *Store) served(resource schema.GroupVersionResource) (*table, error) {
	if t := s.table(resource); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%v is not served", resource)
}

// Create creates an object, as a POST does.
func (s *Store) Create(
	resource schema.GroupVersionResource, namespace string, object *unstructured.Unstructured, manager string,
) (*unstructured.Unstructured, error) {
	t, err := s.served(resource)
	if err != nil {
		return nil, err
	}
	return s.create(t, namespace, object, author{manager: manager, user: manager})
}

// Get returns an object; nil if there is none.
func (s *Store) Get(resource schema.GroupVersionResource, name types.NamespacedName) *unstructured.Unstructured {
	if t := s.table(resource); t != nil {
		return t.objects[key{name.Namespace, name.Name}]
	}
	return nil
}

// Update replaces an object, as a PUT does.
func (s *Store) Update(
	resource schema.GroupVersionResource, object *unstructured.Unstructured, manager string,
) (*unstructured.Unstructured, error) {
	return s.put(resource, false, object, manager)
}

// UpdateStatus replaces the status of an object, as a PUT does.
func (s *Store) UpdateStatus(
	resource schema.GroupVersionResource, object *unstructured.Unstructured, manager string,
) (*unstructured.Unstructured, error) {
	return s.put(resource, true, object, manager)
}

func (s *Store) put(
	resource schema.GroupVersionResource, status bool, object *unstructured.Unstructured, manager string,
) (*unstructured.Unstructured, error) {
	t, err := s.served(resource)
	if err != nil {
		return nil, err
	}
	return s.update(t, key{object.GetNamespace(), object.GetName()}, status, object,
		author{manager: manager, user: manager})
}

// Delete deletes an object, as a DELETE with a policy does.
func (s *Store) Delete(
	resource schema.GroupVersionResource, name types.NamespacedName, policy metav1.DeletionPropagation,
) error {
	t, err := s.served(resource)
	if err != nil {
		return err
	}
	_, _, err = s.delete(t, key{name.Namespace, name.Name}, metav1.DeleteOptions{PropagationPolicy: &policy})
	return err
}
