package kind

import (
	"errors"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind is one kind of Kubernetes object and its behaviour. It never changes once
// loaded and may be used by many goroutines at once.
type Kind struct {
	// GroupVersionKind is how manifests name the kind.
	GroupVersionKind schema.GroupVersionKind
	// Names are how the API server names it; ListKind is <Kind>List.
	Names apiextensionsv1.CustomResourceDefinitionNames
	// Scope says whether objects of the kind live in namespaces.
	Scope apiextensionsv1.ResourceScope
	// Columns are what kubectl prints after the name.
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	// Schema is the structural OpenAPI schema of the object's versions.
	Schema *apiextensionsv1.JSONSchemaProps
	// Initial is the phase of an object that has none; it is empty if the kind has no phases.
	Initial string
	// Phases are the states of the kind by name.
	Phases map[string]PhaseFacts
	// Owns are the types of the children, each once, in a fixed order.
	Owns []schema.GroupVersionKind

	engine evaluator
}

// PhaseFacts is what is known of a phase without looking at any object.
type PhaseFacts struct {
	// Terminal says that nothing is done any more for an object in this phase.
	Terminal bool
	// Failed says that an object that ends in this phase has failed.
	Failed bool
}

// evaluator answers the three questions about an object. The one that asks the
// CUE evaluator can be replaced by a compiled one without a caller noticing.
type evaluator interface {
	validate(object map[string]any) field.ErrorList
	withDefaults(object map[string]any) (map[string]any, error)
	decide(object, observed map[string]any) (*Decision, error)
}

// GroupVersionResource is where the API server serves objects of the kind.
func (k *Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersionKind.GroupVersion().WithResource(k.Names.Plural)
}

// Validate lists everything that is wrong with an object, sorted by field. The
// object is not changed. Limits are checked before anything else, and exceeding one
// is then the only error reported.
func (k *Kind) Validate(object map[string]any) field.ErrorList {
	if err := checkLimits(object); err != nil {
		return field.ErrorList{err}
	}
	errs := k.engine.validate(object)
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

// Default returns a copy of a valid object in which every absent field that has a
// default is set to it.
func (k *Kind) Default(object map[string]any) (map[string]any, error) {
	return k.engine.withDefaults(object)
}

// Decide says what is to be done for a valid, defaulted object whose phase is
// object.status.phase. observed holds its children by the names that the kind gives
// them. A part of observed that is missing makes a condition not hold; any other
// failure is an *EvaluationError.
func (k *Kind) Decide(object, observed map[string]any) (*Decision, error) {
	if err := checkLimits(observed); err != nil {
		return nil, &EvaluationError{Path: "observed." + err.Field, Err: errors.New(err.Detail)}
	}
	return k.engine.decide(object, observed)
}

// PhaseOf reads the phase of an object; one that has none yet is in phase "".
func PhaseOf(object map[string]any) string {
	status, _ := object["status"].(map[string]any)
	phase, _ := status["phase"].(string)
	return phase
}

// Decision is what a kind wants for one object in its present phase.
type Decision struct {
	// Children are the objects to keep in place, sorted by name.
	Children []Child
	// Next are the ways out of the phase; the first that holds is to be taken.
	Next []Transition
	// Status is the kind's own part of the status.
	Status map[string]any
}

// Child is an object that is to be kept in place.
type Child struct {
	// Name is how the kind calls it, not the name of the object.
	Name string
	// Phase is the phase that the child is of; it is empty for one of all phases.
	Phase string
	// Template is the object as far as the kind says it.
	Template map[string]any
	// Update says what becomes of a child that exists and differs.
	Update UpdatePolicy
}

// UpdatePolicy says what becomes of a child that exists and differs from its template.
type UpdatePolicy string

const (
	// Apply corrects the child by server-side apply.
	Apply UpdatePolicy = "Apply"
	// Recreate deletes the child, to make it anew once it is gone.
	Recreate UpdatePolicy = "Recreate"
	// Never leaves the child as it is.
	Never UpdatePolicy = "Never"
)
