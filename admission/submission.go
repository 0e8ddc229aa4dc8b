package admission

import (
	"maps"
	"net/http"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// submission is one review of an object of a kind. Everything that is derived from the object is
// computed when it is first needed, and once. A submission belongs to one goroutine.
type submission struct {
	kind    *kind.Kind
	request *admissionv1.AdmissionRequest
	// name is for messages: that of the object, or its generateName.
	name string
	// object is created, or replaces old, which is then not nil.
	object, old *state
}

// state is an object as it was submitted, or as it was before.
type state struct {
	objects *objects
	kind    *kind.Kind
	budget  *kind.Budget
	// content is the object; where the API server still has to generate the name, it has a
	// stand-in.
	content map[string]any

	checked    *kind.Checked
	evaluation *inject.Evaluation
}

// read decodes what a request submits; nil means that there is nothing to review.
func (o *objects) read(request *admissionv1.AdmissionRequest) (*submission, error) {
	if request.SubResource != "" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return nil, nil
	}
	gvk := schema.GroupVersionKind(request.Kind)
	k := o.kinds.ByGVK(gvk)
	if k == nil {
		return nil, failuref(http.StatusNotFound, "request.kind: %s is not a kind that this server knows",
			kind.TypeName(gvk))
	}
	object, err := decodeObject("request.object", request.Object.Raw)
	if err != nil {
		return nil, err
	}
	metadata, _ := object["metadata"].(map[string]any)
	if metadata["deletionTimestamp"] != nil && k.OnDelete == "" {
		return nil, nil // whatever its errors, its finalizers must be removable
	}
	s := &submission{kind: k, request: request, object: o.newState(k, kind.WithName(object))}
	if s.name, _ = metadata["name"].(string); s.name == "" {
		s.name, _ = metadata["generateName"].(string)
	}
	if request.Operation == admissionv1.Update {
		old, err := decodeObject("request.oldObject", request.OldObject.Raw)
		if err != nil {
			return nil, err
		}
		s.old = o.newState(k, old)
	}
	return s, nil
}

// newState returns the state of an object with a budget of its own.
func (o *objects) newState(k *kind.Kind, content map[string]any) *state {
	return &state{objects: o, kind: k, budget: k.NewBudget(), content: content}
}

// check returns the object with its defaults, or with its errors.
func (s *state) check() *kind.Checked {
	if s.checked == nil {
		s.checked = s.objects.check(s.kind, s.budget, s.content)
	}
	return s.checked
}

// evaluate returns what the object adds to Pods. Its kind must inject.
func (s *state) evaluate() *inject.Evaluation {
	if s.evaluation == nil {
		s.evaluation = s.objects.evaluate(s.budget, s.kind, s.check().Stored().Object)
	}
	return s.evaluation
}

// injectionErrors returns what prevents a valid object from being injected.
func (s *state) injectionErrors() field.ErrorList {
	if !s.kind.Injects() || len(s.check().Errors) > 0 {
		return nil
	}
	return s.evaluate().Check()
}

// errors returns what prevents the object from being stored. Unchanged errors of the old object
// do not: an object whose kind has become stricter can still be labelled, and lose its
// finalizers.
func (s *submission) errors() field.ErrorList {
	if s.old == nil {
		return s.object.check().Errors
	}
	errs := s.object.check().ValidateUpdate(s.old.check())
	if len(errs) == 0 {
		return nil
	}
	return without(errs, s.old.check().Errors)
}

// asStored returns the submission as it will be stored, with what prevents that: what cannot be converted, is
// not valid in the stored version, or would be lost when the object is read in another one. As for errors, what
// the old object had already does not count.
func (s *submission) asStored() (*submission, field.ErrorList) {
	converted := *s
	var errs, before field.ErrorList
	if !s.kind.Versions.IsStored(s.object.content) {
		converted.object, errs = s.object.asStored()
		if s.old != nil {
			converted.old, before = s.old.asStored()
		}
		if errs = without(errs, before); len(errs) == 0 {
			errs = s.kind.Versions.ErrorsAsStored(converted.errors())
		}
	}
	if len(errs) > 0 {
		return s, errs
	}
	if errs = s.kind.Versions.Losses(converted.object.budget, converted.object.check().Object); len(errs) > 0 &&
		s.old != nil {
		before = s.kind.Versions.Losses(converted.old.budget, converted.old.check().Object)
	}
	return &converted, without(errs, before)
}

// asStored returns the object as it will be stored, with the errors of what cannot be converted.
func (s *state) asStored() (*state, field.ErrorList) {
	content, errs := s.kind.Versions.ToStored(s.budget, s.check().Object)
	return &state{objects: s.objects, kind: s.kind, budget: s.budget, content: content}, errs
}

// injectionErrors returns what prevents a valid object from being injected and did not before.
func (s *submission) injectionErrors() field.ErrorList {
	errs := s.object.injectionErrors()
	if len(errs) == 0 || s.old == nil {
		return errs
	}
	return without(errs, s.old.injectionErrors())
}

// without returns the errors that are not among those before.
func without(errs, before field.ErrorList) (added field.ErrorList) {
	for _, err := range errs {
		if !slices.ContainsFunc(before, func(old *field.Error) bool { return reflect.DeepEqual(old, err) }) {
			added = append(added, err)
		}
	}
	return added
}

// asksForMore reports whether the object may make its kind do something that it did not do
// before: it is new, or differs in more than its status and metadata that the kind does not read.
func (s *submission) asksForMore() bool {
	return s.old == nil || !reflect.DeepEqual(s.object.request(), s.old.request())
}

// request returns what the author asks for: the object without what others write, and with the
// defaults that an older version of the kind may not have set.
func (s *state) request() map[string]any {
	object := maps.Clone(s.check().Object)
	object["metadata"] = s.kind.Reads.Metadata(object)
	delete(object, "status")
	return object
}
