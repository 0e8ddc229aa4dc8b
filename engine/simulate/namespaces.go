package simulate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// members returns the objects in a namespace; none for an object of another type.
func (c *Cluster) members(namespace *unstructured.Unstructured) []*unstructured.Unstructured {
	if namespace.GroupVersionKind() != namespaceKind {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.objects),
		func(o *unstructured.Unstructured) bool { return o.GetNamespace() != namespace.GetName() })
}

// endingNamespace returns the namespace of that name if it is being deleted: nothing can be created in it, and it goes
// with the last object that is in it.
func (c *Cluster) endingNamespace(name string) *unstructured.Unstructured {
	namespace := c.find(namespaceKind, "", name)
	if namespace == nil || namespace.GetDeletionTimestamp() == nil {
		return nil
	}
	return namespace
}

// endingError is the answer of the API server to a creation in a namespace that is being deleted.
func endingError(namespace string) error {
	err := forbidden(fmt.Sprintf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}
