package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EndNamespace begins the deletion of a namespace: nothing can be created in it, and Empty deletes what is in it.
func (s *Store) EndNamespace(name string) {
	if _, isOver := s.namespaces[name]; !isOver {
		s.namespaces[name] = ends
		s.version++ // of the namespace
	}
}

// BeginNamespace creates a namespace again, if it is gone, and reports whether it exists and is not being deleted. Any
// namespace exists until it ends.
func (s *Store) BeginNamespace(name string) bool {
	if s.namespaces[name] == gone {
		delete(s.namespaces, name)
		s.version++
	}
	return s.namespaces[name] == ""
}

// EndType begins the deletion of a CRD: no object of its type can be created, and Empty deletes those that exist.
func (s *Store) EndType(resource schema.GroupVersionResource) {
	if d := (definer{s}); d.isDefined(resource) {
		d.endDefinition(resource)
		return
	}
	if _, isOver := s.types[resource]; !isOver {
		s.types[resource] = ends
		s.version++ // of the CRD
	}
}

// BeginTypes creates the CRDs again that are gone, but for those that are stored as objects.
func (s *Store) BeginTypes() {
	for resource, state := range s.types {
		if state == gone && !(definer{s}).isDefined(resource) {
			delete(s.types, resource)
			s.version++
		}
	}
}

// Serves reports whether requests for a type are answered.
func (s *Store) Serves(resource schema.GroupVersionResource) bool { return s.table(resource) != nil }

// The states of a namespace or of a CRD that is being deleted, or was.
const ends, gone = "ends", "gone"

// Empty does what the controllers of namespaces and of CRDs do: it deletes what is in namespaces and of types that end.
// A type that is gone is not served any more.
func (s *Store) Empty() {
	definer{s}.define()
	leftIn, leftOf := make(map[string]bool), make(map[schema.GroupVersionResource]bool)
	s.each(func(t *table, k key, object *unstructured.Unstructured) {
		if s.namespaces[k.namespace] != ends && s.types[t.GroupVersionResource] != ends {
			return
		}
		leftIn[k.namespace], leftOf[t.GroupVersionResource] = true, true
		if object.GetDeletionTimestamp() == nil {
			s.remove(t, k, object, metav1.DeletePropagationBackground)
		}
	})
	for name, state := range s.namespaces {
		if state == ends && !leftIn[name] {
			s.namespaces[name] = gone
		}
	}
	for resource, state := range s.types {
		if state == ends && !leftOf[resource] {
			s.types[resource] = gone
			s.version++
		}
	}
}

// mayBeIn returns why no object of a type can be created in a namespace.
func (s *Store) mayBeIn(t *table, namespace, name string) error {
	if s.types[t.GroupVersionResource] == ends {
		return apierrors.NewMethodNotSupported(t.GroupResource(), "create")
	}
	switch s.namespaces[namespace] {
	case gone:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
	case ends:
		err := apierrors.NewForbidden(t.GroupResource(), name,
			fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace),
			Field: "metadata.namespace",
		})
		return err
	}
	return nil
}
