package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// Strays are the unmanaged objects that a set may take: those in its namespace that have the labels of its template.
// Only the plan knows these, so an Attempt asks for them before it compares.
type Strays struct {
	Set, Namespace string
	Labels         map[string]string
	// Objects are what a World has found.
	Objects []*unstructured.Unstructured
}

// isFor reports whether the strays are those that others ask for.
func (s Strays) isFor(others Strays) bool {
	return s.Set == others.Set && s.Namespace == others.Namespace && maps.Equal(s.Labels, others.Labels)
}

// straysOf returns what a set of a plan asks for; ok is false if it takes no strays.
func (p *Plan) straysOf(child kind.Child) (asked Strays, ok bool) {
	isKept := p.Leaving && child.Phase == ""
	if child.Set == nil || !child.Set.DeleteStrays || child.Set.Ordered || isKept {
		return Strays{}, false
	}
	template, _, err := unstructured.NestedStringMap(child.Template, "metadata", "labels")
	if err != nil || len(template) == 0 {
		return Strays{}, false // no labels would select everything
	}
	return Strays{Set: child.Name, Namespace: children.NamespaceOf(p.Kind, p.Object, child), Labels: template}, true
}

// unknownStrays returns what the sets of a plan ask for and a view does not have.
func (p *Plan) unknownStrays(v *View) (unknown []Strays) {
	for _, child := range p.Children {
		if asked, ok := p.straysOf(child); ok && !slices.ContainsFunc(v.Strays, asked.isFor) {
			unknown = append(unknown, asked)
		}
	}
	return unknown
}

// withStrays returns the view with what a World has found of asked, which is not asked for again. What sets have asked
// for before with other labels is dropped: the World goes by the last question.
func (v *View) withStrays(asked, found []Strays) *View {
	isAskedAnew := func(s Strays) bool {
		return slices.ContainsFunc(asked, func(a Strays) bool { return a.Set == s.Set })
	}
	next := *v
	next.Strays = slices.Concat(slices.DeleteFunc(slices.Clone(v.Strays), isAskedAnew), found, asked)
	return &next
}

// without returns strays without the objects that were deleted.
func without(all []Strays, deleted map[types.UID]bool) []Strays {
	left := slices.Clone(all)
	for i := range left {
		left[i].Objects = slices.DeleteFunc(slices.Clone(left[i].Objects),
			func(s *unstructured.Unstructured) bool { return deleted[s.GetUID()] })
	}
	return left
}

// WithLabels returns those of the objects that have all these labels.
func WithLabels(objects []*unstructured.Unstructured, wanted map[string]string) []*unstructured.Unstructured {
	selector := labels.SelectorFromSet(wanted)
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	return found
}
