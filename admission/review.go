package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// handler answers one request. An error means that it cannot: the webhook's failure
// policy then decides.
type handler func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// failure is an error with the HTTP status code that it is answered with.
type failure struct {
	code   int
	reason string
}

func (f *failure) Error() string { return f.reason }

// failuref makes a failure with a message as fmt.Errorf writes it, without %w.
func failuref(code int, format string, args ...any) *failure {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// reviewType is the only type of review there is; v1beta1 is gone since Kubernetes 1.22.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// decodeReview reads the request of an AdmissionReview, whose raw parts are parts of body.
// With an error comes what could be read before, which is most often the UID, since the API
// server writes it first.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review metav1.TypeMeta
	request := &admissionv1.AdmissionRequest{}
	found := false
	s := &scanner{data: body}
	err := s.object(func(name []byte) (err error) {
		switch string(name) {
		case "apiVersion":
			review.APIVersion, err = s.str()
		case "kind":
			review.Kind, err = s.str()
		case "request":
			found = true
			err = s.object(func(name []byte) error { return inField(name, s.requestField(request, name)) })
		default:
			_, err = s.value()
		}
		return err
	})
	if err == nil && s.space() != 0 {
		err = errSyntax
	}
	switch {
	case err != nil:
		return request, failuref(http.StatusBadRequest, "request body: %v", err)
	case review != reviewType:
		return request, failuref(http.StatusBadRequest, "request body: apiVersion %q, kind %q: must be %s, %s", review.APIVersion, review.Kind, reviewType.APIVersion, reviewType.Kind)
	case !found:
		return request, failuref(http.StatusBadRequest, "request: Required value")
	case request.UID == "":
		return request, failuref(http.StatusBadRequest, "request.uid: Required value")
	}
	return request, nil
}

// inField says which field of the request an error is about.
func inField(name []byte, err error) error {
	if err != nil {
		return fmt.Errorf("request.%s: %w", name, err)
	}
	return nil
}

// requestField reads one field of a request. Those that are not known are skipped.
func (s *scanner) requestField(r *admissionv1.AdmissionRequest, name []byte) (err error) {
	var text string
	switch string(name) {
	case "uid":
		text, err = s.str()
		r.UID = types.UID(text)
	case "operation":
		text, err = s.str()
		r.Operation = admissionv1.Operation(text)
	case "name":
		r.Name, err = s.str()
	case "namespace":
		r.Namespace, err = s.str()
	case "subResource":
		r.SubResource, err = s.str()
	case "requestSubResource":
		r.RequestSubResource, err = s.str()
	case "kind":
		err = s.group(&r.Kind.Group, &r.Kind.Version, "kind", &r.Kind.Kind)
	case "requestKind":
		r.RequestKind = &metav1.GroupVersionKind{}
		err = s.group(&r.RequestKind.Group, &r.RequestKind.Version, "kind", &r.RequestKind.Kind)
	case "resource":
		err = s.group(&r.Resource.Group, &r.Resource.Version, "resource", &r.Resource.Resource)
	case "requestResource":
		r.RequestResource = &metav1.GroupVersionResource{}
		err = s.group(&r.RequestResource.Group, &r.RequestResource.Version, "resource", &r.RequestResource.Resource)
	case "userInfo":
		err = s.decode(&r.UserInfo)
	case "dryRun":
		err = s.decode(&r.DryRun)
	case "object":
		r.Object.Raw, err = s.value()
	case "oldObject":
		r.OldObject.Raw, err = s.value()
	case "options":
		r.Options.Raw, err = s.value()
	default:
		_, err = s.value()
	}
	return err
}

// group reads a GroupVersionKind or GroupVersionResource.
func (s *scanner) group(group, version *string, last string, kind *string) error {
	return s.object(func(name []byte) (err error) {
		switch string(name) {
		case "group":
			*group, err = s.str()
		case "version":
			*version, err = s.str()
		case last:
			*kind, err = s.str()
		default:
			_, err = s.value()
		}
		return err
	})
}

// encodeReview writes an AdmissionReview with the answer to the request of that UID.
func encodeReview(uid types.UID, response *admissionv1.AdmissionResponse) []byte {
	response.UID = uid
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
	if err != nil {
		panic(err) // strings and numbers are always written
	}
	return body
}

// failed is the answer to a request that cannot be answered.
func failed(code int, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(http.StatusText(code)), Message: message,
	}}
}

// decodeObject reads an object as the API machinery does: whole numbers are int64.
// Fields that no version of Kubernetes has are read like all others.
func decodeObject(field string, raw []byte) (map[string]any, error) {
	var object map[string]any
	if len(raw) == 0 {
		return nil, failuref(http.StatusBadRequest, "%s: Required value", field)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, failuref(http.StatusBadRequest, "%s: %v", field, err)
	}
	if object == nil {
		return nil, failuref(http.StatusBadRequest, "%s: Required value", field)
	}
	return object, nil
}
