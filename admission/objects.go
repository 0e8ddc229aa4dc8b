package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// objects sets the defaults of objects and validates them.
type objects struct {
	kinds       *kind.Catalog
	rights      *Rights
	podSecurity *PodSecurity
	// isOtherVersion is that of Config.
	isOtherVersion func(*kind.Kind) bool
	// stored is that of Config.
	stored Stored

	// check and evaluate call a kind for an object. Tests count the calls.
	check    func(*kind.Kind, *kind.Budget, map[string]any) *kind.Checked
	evaluate func(*kind.Budget, *kind.Kind, map[string]any) *inject.Evaluation
}

func newObjects(kinds []*kind.Kind, rights *Rights, podSecurity *PodSecurity) *objects {
	return &objects{
		kinds: kind.NewCatalog(kinds...), rights: rights, podSecurity: podSecurity,
		check: (*kind.Kind).Check, evaluate: inject.Evaluate,
	}
}

// setDefaults answers with a patch that adds the defaults. An invalid object gets none: another
// webhook may still repair it, and otherwise it is rejected when it is validated.
func (o *objects) setDefaults(
	_ context.Context, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	s, err := o.read(request)
	if s == nil || err != nil {
		return allowed(nil), err
	}
	checked := s.object.check()
	if len(checked.Errors) > 0 {
		return allowed(nil), nil
	}
	operations := diff(s.object.content, checked.Object)
	if len(operations) == 0 {
		return allowed(nil), nil
	}
	patch, err := json.Marshal(operations)
	return allowed(patch), err
}

// validate rejects objects that their kinds do not allow, or whose author does not have the rights
// for what they make Fescue do.
func (o *objects) validate(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	if request.SubResource == scaleSubresource {
		return o.validateScale(ctx, request)
	}
	if request.SubResource == statusSubresource {
		return o.validateStatus(request)
	}
	s, err := o.read(request)
	if s == nil || err != nil {
		return allowed(nil), err
	}
	response, err := o.validateSubmission(ctx, s)
	if err == nil {
		response.Warnings = append(response.Warnings, otherVersionWarnings(o.isOtherVersion, s.kind)...)
	}
	return response, err
}

// otherVersionWarnings returns a warning if the CRD of a kind belongs to another version of it. The
// answer is still that of the kind of this process, as if the request had come before the upgrade:
// otherwise an upgrade would be an outage. docs/decisions/0022-versions-of-a-kind.md explains it.
func otherVersionWarnings(isOtherVersion func(*kind.Kind) bool, k *kind.Kind) []string {
	if isOtherVersion == nil || !isOtherVersion(k) {
		return nil
	}
	return []string{fmt.Sprintf(
		"the CRD %s belongs to another version of the kind than the Fescue that answers, which may be about to be upgraded", k.Name())}
}

func (o *objects) validateSubmission(ctx context.Context, s *submission) (*admissionv1.AdmissionResponse, error) {
	request := s.request
	if errs := s.errors(); len(errs) > 0 {
		return rejected(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name, errs))
	}
	warnings := s.kind.Versions.Deprecated(s.kind.NewBudget(), s.object.content)
	s, errs := s.asStored()
	if len(errs) > 0 {
		return rejected(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name, errs))
	}
	if !s.asksForMore() {
		return allowed(nil, warnings...), nil
	}
	if errs := s.injectionErrors(); len(errs) > 0 {
		return rejected(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name, errs))
	}
	places, reads := s.object.places(request.Namespace), s.object.needsOfReads()
	if s.object.budget.IsExceeded() { // what it reads may not be known, and its author's rights not be checked
		err := field.Invalid(field.NewPath("spec"), field.OmitValueType{}, s.object.budget.Excess())
		return rejected(apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name, field.ErrorList{err}))
	}
	if err := o.rights.check(ctx, s.kind, request, places, reads); err != nil {
		return rejected(err)
	}
	if err := o.podSecurity.check(ctx, s); err != nil {
		return rejected(err)
	}
	return allowed(nil, warnings...), nil
}

// scaleSubresource is where `kubectl scale` writes. Only a number is submitted there, but it
// changes the object.
const scaleSubresource = "scale"

// statusSubresource is where the engine writes the status.
const statusSubresource = "status"

// validateScale checks the object that a scale results in, as if its author had submitted the whole of it.
func (o *objects) validateScale(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	resource := schema.GroupVersionResource(request.Resource)
	k := o.kinds.ByResource(resource)
	if k == nil {
		return nil, failuref(http.StatusNotFound, "request.resource: %s is not served here", request.Resource)
	}
	if k.Scale == nil {
		return nil, failuref(http.StatusNotFound, "request.subResource: %s has no scale", k.Name())
	}
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(request.Object.Raw, &scale); err != nil {
		return nil, failuref(http.StatusBadRequest, "request.object: %v", err)
	}
	old, err := o.stored(ctx, resource, cache.ObjectName{Namespace: request.Namespace, Name: request.Name})
	if err != nil {
		return nil, failuref(http.StatusServiceUnavailable, "%s %s/%s cannot be read: %v", k.Name(), request.Namespace,
			request.Name, err)
	}
	if old == nil {
		return allowed(nil), nil // the API server says so
	}
	scaled := runtime.DeepCopyJSON(old)
	path := strings.Split(strings.TrimPrefix(k.Scale.SpecReplicasPath, "."), ".")
	if err := unstructured.SetNestedField(scaled, int64(scale.Spec.Replicas), path...); err != nil {
		return nil, failuref(http.StatusUnprocessableEntity, "%s: %v", k.Scale.SpecReplicasPath, err)
	}
	s := &submission{kind: k, request: request, name: request.Name, object: o.newState(k, scaled),
		old: o.newState(k, old)}
	return o.validateSubmission(ctx, s)
}

// validateStatus rejects a status in which anyone but the operator changes what the engine records of children: it
// would forget some, or take objects of others for them.
func (o *objects) validateStatus(request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	if o.rights.isExempt(request.UserInfo.Username) {
		return allowed(nil), nil
	}
	object, err := decodeObject("request.object", request.Object.Raw)
	if err != nil {
		return nil, err
	}
	old, err := decodeObject("request.oldObject", request.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	recorded, _, _ := unstructured.NestedFieldNoCopy(object, "status", kind.ChildInventory)
	before, _, _ := unstructured.NestedFieldNoCopy(old, "status", kind.ChildInventory)
	if equality.Semantic.DeepEqual(recorded, before) {
		return allowed(nil), nil
	}
	return rejected(apierrors.NewInvalid(schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind},
		request.Name, field.ErrorList{
			field.Forbidden(field.NewPath("status", kind.ChildInventory),
				"only the account of the operator may change it"),
		}))
}

// allowed accepts a request, changed by a patch if there is one.
func allowed(patch []byte, warnings ...string) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{Allowed: true, Warnings: warnings}
	if len(patch) > 0 {
		jsonPatch := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &jsonPatch
	}
	return response
}

// rejected answers with an error in the form in which the API server reports it; one without
// that form is a failure.
func rejected(err error) (*admissionv1.AdmissionResponse, error) {
	if status, ok := err.(apierrors.APIStatus); ok {
		result := status.Status()
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{
			Status: result.Status, Code: result.Code, Reason: result.Reason, Message: result.Message,
			Details: result.Details,
		}}, nil
	}
	return nil, err
}
