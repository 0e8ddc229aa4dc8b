package engine

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// isOurs tells whether a child has the labels, the annotation and the controller
// reference by which it is found.
func isOurs(is, wanted *unstructured.Unstructured) bool {
	for _, name := range ownLabels {
		if is.GetLabels()[name] != wanted.GetLabels()[name] {
			return false
		}
	}
	holder := metav1.GetControllerOfNoCopy(is)
	return holder != nil && holder.UID == wanted.GetOwnerReferences()[0].UID &&
		is.GetAnnotations()[annotationOwner] == wanted.GetAnnotations()[annotationOwner]
}

func sameTemplate(is, wanted *unstructured.Unstructured) bool {
	return is.GetAnnotations()[annotationTemplate] == wanted.GetAnnotations()[annotationTemplate]
}

// isCorrect tells whether a child of ours was made by the template that is wanted now and
// still has everything that it says.
func isCorrect(is, wanted *unstructured.Unstructured, settled *settled) bool {
	if !sameTemplate(is, wanted) {
		return false
	}
	said := wanted.DeepCopy()
	said.SetOwnerReferences(nil)
	return contains(is.Object, said.Object) || settled.has(is, said)
}

// contains tells whether an object has everything that a template says. Fields that
// the template does not mention may be anything; lists must be as long as they are in
// the template, since it says them whole.
func contains(is, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, ok := is.(map[string]any)
		if !ok {
			return is == nil && len(wanted) == 0
		}
		for name, value := range wanted {
			if !contains(has[name], value) {
				return false
			}
		}
		return true
	case []any:
		has, ok := is.([]any)
		if !ok || len(has) != len(wanted) {
			return is == nil && len(wanted) == 0
		}
		for i := range wanted {
			if !contains(has[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return equality.Semantic.DeepEqual(is, wanted)
}

// said is the part of an object that a template mentions.
func said(is, wanted any) any {
	switch wanted := wanted.(type) {
	case map[string]any:
		has, _ := is.(map[string]any)
		part := make(map[string]any, len(wanted))
		for name, value := range wanted {
			part[name] = said(has[name], value)
		}
		return part
	case []any:
		has, _ := is.([]any)
		if len(has) != len(wanted) {
			return is
		}
		part := make([]any, len(wanted))
		for i := range wanted {
			part[i] = said(has[i], wanted[i])
		}
		return part
	}
	return is
}

// settled remembers children in which the API server writes something in another way than
// their template does, as it does with the quantity "1000m" that it stores as "1". What
// it made of the template when it was applied is then what the template says.
type settled struct {
	mu      sync.Mutex
	byChild map[types.UID]any
}

func newSettled() *settled { return &settled{byChild: make(map[types.UID]any)} }

// remember takes what the API server answered when a child was applied.
func (s *settled) remember(stored, wanted *unstructured.Unstructured) {
	template := wanted.DeepCopy()
	template.SetOwnerReferences(nil)
	template.SetUID("")
	template.SetResourceVersion("")
	s.mu.Lock()
	defer s.mu.Unlock()
	if contains(stored.Object, template.Object) {
		delete(s.byChild, stored.GetUID())
		return
	}
	s.byChild[stored.GetUID()] = said(stored.Object, template.Object)
}

// has tells whether a child is still as the API server made it when its template was
// applied; the template is that of the child's annotation.
func (s *settled) has(is, wanted *unstructured.Unstructured) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, known := s.byChild[is.GetUID()]
	return known && equality.Semantic.DeepEqual(made, said(is.Object, wanted.Object))
}

// forget drops what is known of a child that is gone.
func (s *settled) forget(child types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byChild, child)
}
