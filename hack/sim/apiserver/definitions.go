package apiserver

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Definitions returns the resource of CRDs. In one that is applied, lists are atomic: that is true of no list of a CRD
// that two managers apply.
func Definitions() (Resource, error) {
	crd := definition(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)})
	crd.Spec.Scope = apiextensionsv1.ClusterScoped
	return Custom(crd)
}

// definitions is the resource of CRDs.
var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Undefine has a type be served while its CRD is stored. Others are always served, until EndType.
func (s *Store) Undefine(resource schema.GroupVersionResource) {
	s.defined = append(s.defined, resource)
	s.types[resource] = gone
}

// definer does what the controllers of CRDs do.
type definer struct{ *Store }

// define accepts a CRD, begins to serve its type, and lets a CRD go when its last object is gone.
func (s definer) define() {
	for _, resource := range s.defined {
		name := types.NamespacedName{Name: resource.GroupResource().String()}
		crd := s.Get(definitions, name)
		switch {
		case crd == nil:
			s.types[resource] = gone
		case crd.GetDeletionTimestamp() == nil && !isAccepted(crd): // it is new, or of an older copy of etcd
			s.accept(crd)
		case crd.GetDeletionTimestamp() == nil:
			delete(s.types, resource)
		case s.types[resource] == gone:
			free := crd.DeepCopy()
			free.SetFinalizers(nil)
			_, _ = s.Update(definitions, free, definingManager)
		default:
			s.types[resource] = ends
		}
	}
}

// definingManager is the field manager of the controllers of CRDs.
const definingManager = "apiextensions-apiserver"

// isAccepted reports whether a CRD has all that accept gives it.
func isAccepted(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return len(crd.GetFinalizers()) > 0 && len(conditions) > 0
}

// accept gives a CRD the finalizer and the status of one whose type is served.
func (s definer) accept(crd *unstructured.Unstructured) {
	crd = crd.DeepCopy()
	crd.SetFinalizers([]string{apiextensionsv1.CustomResourceCleanupFinalizer})
	crd, err := s.Update(definitions, crd, definingManager)
	if err != nil {
		return
	}
	crd = crd.DeepCopy()
	var conditions []any
	for _, is := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted,
		apiextensionsv1.Established} {
		conditions = append(conditions,
			map[string]any{"type": string(is), "status": string(apiextensionsv1.ConditionTrue)})
	}
	_ = unstructured.SetNestedSlice(crd.Object, conditions, "status", "conditions")
	_, _ = s.UpdateStatus(definitions, crd, definingManager)
}

// isDefined reports whether a type is served while its CRD is stored.
func (s definer) isDefined(resource schema.GroupVersionResource) bool {
	return slices.Contains(s.defined, resource)
}

// endDefinition begins the deletion of a CRD.
func (s definer) endDefinition(resource schema.GroupVersionResource) {
	_ = s.Delete(definitions, types.NamespacedName{Name: resource.GroupResource().String()},
		metav1.DeletePropagationBackground)
}
