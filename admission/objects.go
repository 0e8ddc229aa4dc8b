package admission

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// objects sets defaults of objects and validates them.
type objects struct {
	kinds       map[schema.GroupVersionKind]*kind.Kind
	rights      *Rights
	podSecurity *PodSecurity
}

// newObjects finds kinds by all the versions that they serve.
func newObjects(kinds []*kind.Kind, rights *Rights, podSecurity *PodSecurity) *objects {
	o := &objects{make(map[schema.GroupVersionKind]*kind.Kind), rights, podSecurity}
	for _, k := range kinds {
		for _, version := range k.Versions {
			o.kinds[version.GroupVersionKind] = k
		}
	}
	return o
}

// submission is an object of a kind that is created, or replaces old, which is then not nil.
type submission struct {
	kind        *kind.Kind
	request     *admissionv1.AdmissionRequest
	object, old map[string]any
}

// read decodes what a request submits; nil means that there is nothing to look at.
func (o *objects) read(request *admissionv1.AdmissionRequest) (*submission, error) {
	if request.SubResource != "" || request.Operation != admissionv1.Create && request.Operation != admissionv1.Update {
		return nil, nil
	}
	gvk := schema.GroupVersionKind(request.Kind)
	s := &submission{kind: o.kinds[gvk], request: request}
	if s.kind == nil {
		return nil, failuref(http.StatusNotFound, "request.kind: %s is not a kind that this server knows", gvk)
	}
	var err error
	if s.object, err = decodeObject("request.object", request.Object.Raw); err != nil {
		return nil, err
	}
	if isDeleted(s.object) {
		return nil, nil // whatever is wrong with it, its finalizers have to come off
	}
	if request.Operation == admissionv1.Update {
		if s.old, err = decodeObject("request.oldObject", request.OldObject.Raw); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// isDeleted tells whether an object is being deleted and waits for its finalizers.
func isDeleted(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata["deletionTimestamp"] != nil
}

// setDefaults answers with a patch that adds the defaults. An invalid object gets none:
// another webhook may still mend it, or else it is refused when it is validated.
func (o *objects) setDefaults(_ context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	s, err := o.read(request)
	if s == nil || err != nil {
		return allowed(nil), err
	}
	object := kind.WithName(s.object)
	defaulted, errs := s.kind.DefaultAndValidate(object)
	if len(errs) > 0 {
		return allowed(nil), nil
	}
	operations := diff(object, defaulted)
	if len(operations) == 0 {
		return allowed(nil), nil
	}
	patch, err := json.Marshal(operations)
	return allowed(patch), err
}

// validate refuses objects that their kinds do not allow, or that their author may not make.
func (o *objects) validate(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	if request.SubResource == scaleSubresource {
		return o.validateScale(ctx, request)
	}
	s, err := o.read(request)
	if s == nil || err != nil {
		return allowed(nil), err
	}
	if errs := s.problems(); len(errs) > 0 {
		return refused(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name(), errs))
	}
	warnings := s.kind.Deprecated(s.object)
	if !s.asksForMore() {
		return allowed(nil, warnings...), nil
	}
	if errs := s.injectionProblems(); len(errs) > 0 {
		return refused(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name(), errs))
	}
	if err := o.rights.check(ctx, s.kind, request); err != nil {
		return refused(err)
	}
	if err := o.podSecurity.check(ctx, s); err != nil {
		return refused(err)
	}
	return allowed(nil, warnings...), nil
}

// scaleSubresource is where `kubectl scale` writes: what is submitted there is a number
// only, which changes the object nevertheless.
const scaleSubresource = "scale"

// validateScale checks the rights alone: the API server puts the number into the object and
// holds it against the CRD's schema.
func (o *objects) validateScale(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	for gvk, k := range o.kinds {
		if gvk.Group == request.Resource.Group && gvk.Version == request.Resource.Version && k.Names.Plural == request.Resource.Resource {
			if err := o.rights.check(ctx, k, request); err != nil {
				return refused(err)
			}
			return allowed(nil), nil
		}
	}
	return nil, failuref(http.StatusNotFound, "request.resource: %s is not served here", request.Resource)
}

// problems are what keeps the object from being stored. What was wrong already and stays
// as it was does not: an object of a kind that has become stricter can still be
// labelled, and lose its finalizers.
func (s *submission) problems() field.ErrorList {
	object := kind.WithName(s.object)
	if s.old == nil {
		return s.kind.Validate(object)
	}
	errs := s.kind.ValidateUpdate(object, s.old)
	if len(errs) == 0 {
		return nil
	}
	return without(errs, s.kind.Validate(s.old))
}

// injectionProblems are what keeps a valid object from being injected, but for what was so already.
func (s *submission) injectionProblems() field.ErrorList {
	errs := inject.Check(s.kind, kind.WithName(s.object))
	if len(errs) == 0 || s.old == nil {
		return errs
	}
	return without(errs, inject.Check(s.kind, s.old))
}

// without are the errors that are not among those before.
func without(errs, before field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		return slices.ContainsFunc(before, func(old *field.Error) bool { return reflect.DeepEqual(old, err) })
	})
}

// asksForMore tells whether the object may make its kind do something that it did not
// do: it is new, or differs in more than its status and metadata that the kind does not read.
func (s *submission) asksForMore() bool {
	return s.old == nil || !reflect.DeepEqual(behaviour(s.kind, s.object), behaviour(s.kind, s.old))
}

// behaviour is an object without what others than its author write, and with the defaults
// that an older version of the kind may not have set.
func behaviour(k *kind.Kind, object map[string]any) map[string]any {
	if defaulted, errs := k.DefaultAndValidate(object); len(errs) == 0 {
		object = defaulted
	}
	object = maps.Clone(object)
	object["metadata"] = k.ReadMetadata(object)
	delete(object, "status")
	return object
}

// name is what the object is called, as far as it is known.
func (s *submission) name() string {
	name, _ := metadataOf(s.object)["name"].(string)
	if name == "" {
		name, _ = metadataOf(s.object)["generateName"].(string)
	}
	return name
}

// metadataOf is nil if there is none, or no object in its place.
func metadataOf(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata
}

// allowed lets a request pass, changed by a patch if there is one.
func allowed(patch []byte, warnings ...string) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
	if len(patch) > 0 {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &jsonPatch
	}
	return response
}

// refused answers with an error as the API server itself reports it; one that is not of
// that form is a failure.
func refused(err error) (*admissionv1.AdmissionResponse, error) {
	if status, ok := err.(apierrors.APIStatus); ok {
		result := status.Status()
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Status: result.Status, Code: result.Code, Reason: result.Reason, Message: result.Message, Details: result.Details,
		}}, nil
	}
	return nil, err
}
