package simulate

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// store has the objects that exist, in the order of their creation. They are replaced, never changed, and so is the
// list of them.
type store struct{ objects []*unstructured.Unstructured }

// Objects returns the objects that exist, in the order of their creation. They must not be changed.
func (s *store) Objects() []*unstructured.Unstructured { return s.objects }

// find returns an object; nil if it does not exist.
func (s *store) find(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	for _, object := range s.objects {
		if object.GetName() == name && object.GetNamespace() == namespace && object.GroupVersionKind() == gvk {
			return object
		}
	}
	return nil
}

// byUID returns an object; nil if it does not exist.
func (s *store) byUID(uid types.UID) *unstructured.Unstructured {
	for _, object := range s.objects {
		if object.GetUID() == uid {
			return object
		}
	}
	return nil
}

// put stores an object in the place of its older state, which must exist.
func (s *store) put(changed *unstructured.Unstructured) {
	s.objects = slices.Clone(s.objects)
	s.objects[slices.IndexFunc(
		s.objects, func(o *unstructured.Unstructured) bool { return o.GetUID() == changed.GetUID() })] = changed
}

// forget takes an object away.
func (s *store) forget(uid types.UID) {
	s.objects = slices.DeleteFunc(slices.Clone(s.objects),
		func(o *unstructured.Unstructured) bool { return o.GetUID() == uid })
}
