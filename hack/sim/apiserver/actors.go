package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// These are what others do to a store, without a client: users, a kubelet, and who looks at what came of it.

// Changes returns all writes, in their order.
func (s *Store) Changes() []Change { return s.changes }

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
func (s *Store) Create(resource schema.GroupVersionResource, namespace string, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	t, err := s.served(resource)
	if err != nil {
		return nil, err
	}
	return s.create(t, namespace, object, manager)
}

// Get returns an object; nil if there is none.
func (s *Store) Get(resource schema.GroupVersionResource, name types.NamespacedName) *unstructured.Unstructured {
	if t := s.table(resource); t != nil {
		return t.objects[key{name.Namespace, name.Name}]
	}
	return nil
}

// Update replaces an object, as a PUT does.
func (s *Store) Update(resource schema.GroupVersionResource, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	return s.put(resource, false, object, manager)
}

// UpdateStatus replaces the status of an object, as a PUT does.
func (s *Store) UpdateStatus(resource schema.GroupVersionResource, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	return s.put(resource, true, object, manager)
}

func (s *Store) put(resource schema.GroupVersionResource, status bool, object *unstructured.Unstructured, manager string) (*unstructured.Unstructured, error) {
	t, err := s.served(resource)
	if err != nil {
		return nil, err
	}
	return s.update(t, key{object.GetNamespace(), object.GetName()}, status, object, manager)
}

// Delete deletes an object, as a DELETE with a policy does.
func (s *Store) Delete(resource schema.GroupVersionResource, name types.NamespacedName, policy metav1.DeletionPropagation) error {
	t, err := s.served(resource)
	if err != nil {
		return err
	}
	_, _, err = s.delete(t, key{name.Namespace, name.Name}, metav1.DeleteOptions{PropagationPolicy: &policy})
	return err
}
