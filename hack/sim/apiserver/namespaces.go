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
		s.namespaces[name] = namespaceEnds
		s.version++ // of the namespace
	}
}

// BeginNamespace creates a namespace again, if it is gone, and reports whether it exists and is not being deleted. Any namespace exists
// until it ends.
func (s *Store) BeginNamespace(name string) bool {
	if s.namespaces[name] == namespaceGone {
		delete(s.namespaces, name)
		s.version++
	}
	return s.namespaces[name] == ""
}

// The states of a namespace that is being deleted, or was.
const namespaceEnds, namespaceGone = "ends", "gone"

// Empty does what the namespace controller of Kubernetes does: it deletes what is in namespaces that end.
func (s *Store) Empty() {
	left := make(map[string]bool)
	s.each(func(t *table, k key, object *unstructured.Unstructured) {
		if s.namespaces[k.namespace] != namespaceEnds {
			return
		}
		left[k.namespace] = true
		if object.GetDeletionTimestamp() == nil {
			s.remove(t, k, object, metav1.DeletePropagationBackground)
		}
	})
	for name, state := range s.namespaces {
		if state == namespaceEnds && !left[name] {
			s.namespaces[name] = namespaceGone
		}
	}
}

// mayBeIn returns why nothing can be created in a namespace.
func (s *Store) mayBeIn(t *table, namespace, name string) error {
	switch s.namespaces[namespace] {
	case namespaceGone:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
	case namespaceEnds:
		err := apierrors.NewForbidden(t.GroupResource(), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace), Field: "metadata.namespace",
		})
		return err
	}
	return nil
}
