package kind

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
)

// Target says which objects of a type a decorator is for.
type Target struct {
	// Decorator is the name of the decorator: ServicePerPod for #ServicePerPodDecorator.
	Decorator string
	// Annotation is one that the objects have; it is empty if they need none.
	Annotation string
	// Selector selects them by their labels; it selects everything if none is stated.
	Selector labels.Selector
}

// Selects reports whether an object of the type is one of the decorator's.
func (t *Target) Selects(object metav1.Object) bool {
	if t.Annotation != "" { // both getters copy their maps, and every event of the type comes here
		if _, found := object.GetAnnotations()[t.Annotation]; !found {
			return false
		}
	}
	return t.Selector.Empty() || t.Selector.Matches(labels.Set(object.GetLabels()))
}

// String describes the objects for people: what they have.
func (t *Target) String() string {
	var parts []string
	if requirements, _ := t.Selector.Requirements(); len(requirements) == 1 {
		parts = append(parts, "the label "+t.Selector.String())
	} else if len(requirements) > 1 {
		parts = append(parts, "the labels "+t.Selector.String())
	}
	if t.Annotation != "" {
		parts = append(parts, "the annotation "+t.Annotation)
	}
	return strings.Join(parts, " and ")
}

// WithoutDecorators returns the kinds that have objects of their own.
func WithoutDecorators(kinds []*Kind) []*Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *Kind) bool { return k.Target != nil })
}

// Title is how people name the kind: Greeting for #Greeting, and ServicePerPod for
// #ServicePerPodDecorator.
func (k *Kind) Title() string {
	if k.Target != nil {
		return k.Target.Decorator
	}
	return k.GroupVersionKind.Kind
}

// LoadName is the name by which the kind is loaded: that of its definition for a decorator.
func (k *Kind) LoadName() string {
	if k.Target != nil {
		return k.Target.Decorator + behaviour.DecoratorSuffix
	}
	return k.GroupVersionKind.Kind
}
