package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/fescue-dev/fescue/internal/jsontext"
)

// reviewLevels is how deep a review is read: its request, the fields of that, and their group,
// version and kind. Objects are decoded from their text.
const reviewLevels = 3

// maxValues is how many values a review may have: ten times what an object may have to be
// reconciled, because an update has two objects, with managedFields. Decoded, a value takes up to
// 350 bytes, as a map with one member does, and checking copies parts of it. So maxValues is also
// what all requests that are answered at a time may have together.
const maxValues = 200_000

// handler answers one request. With an error, the webhook's failure policy decides.
type handler func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error)

// failure is an error with the HTTP status code of its answer.
type failure struct {
	code   int
	reason string
}

func (f *failure) Error() string { return f.reason }

// failuref returns a failure with a formatted message; %w is not supported.
func failuref(code int, format string, args ...any) *failure {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// reviewType is the only type of review; Kubernetes 1.22 removed v1beta1.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// decodeReview reads the request of an AdmissionReview, and counts the values in the body. The raw objects of the
// request share memory with body. With an error comes a request with the UID, if that could be read.
func decodeReview(body []byte) (request *admissionv1.AdmissionRequest, values int, err error) {
	request = &admissionv1.AdmissionRequest{}
	values, err = decodeRequest(body, reviewType, &request.UID, func(name []byte, value jsontext.Value) error {
		return decodeField(request, name, value)
	})
	return request, values, err
}

// decodeRequest reads the request of a review of a type, field by field, and counts the values in the
// body. field reads the UID into uid. If something cannot be read, the UID is read nevertheless: the API
// server writes it first, so it can mostly be read from a body that is cut off.
func decodeRequest(
	body []byte, want metav1.TypeMeta, uid *types.UID, field func(name []byte, value jsontext.Value) error,
) (values int, err error) {
	review, err := jsontext.ParseTo(body, reviewLevels)
	defer review.Release()
	given := review.Member("request")
	defer func() {
		if err != nil {
			_ = decodeText(uid, given.Member("uid"))
		}
	}()
	if err != nil {
		return 0, failuref(http.StatusBadRequest, "request body: %v", err)
	}
	if values = review.ValuesOfText(); values > maxValues {
		return values, failuref(http.StatusRequestEntityTooLarge, "request body: has %d values: must have at most %d",
			values, maxValues)
	}
	if err := decodeFields(given, field); err != nil {
		return values, failuref(http.StatusBadRequest, "request body: request%v", err)
	}
	var reviewed metav1.TypeMeta
	err = errors.Join(decodeText(&reviewed.APIVersion, review.Member("apiVersion")),
		decodeText(&reviewed.Kind, review.Member("kind")))
	switch {
	case err != nil || reviewed != want:
		return values, failuref(http.StatusBadRequest, "request body: apiVersion %q, kind %q: must be %s, %s",
			reviewed.APIVersion, reviewed.Kind, want.APIVersion, want.Kind)
	case !given.IsSet():
		return values, failuref(http.StatusBadRequest, "request: Required value")
	case *uid == "":
		return values, failuref(http.StatusBadRequest, "request.uid: Required value")
	}
	return values, nil
}

// decodeField reads one field of a request, and skips those that are not known.
func decodeField(r *admissionv1.AdmissionRequest, name []byte, value jsontext.Value) error {
	switch string(name) {
	case "uid":
		return decodeText(&r.UID, value)
	case "operation":
		return decodeText(&r.Operation, value)
	case "name":
		return decodeText(&r.Name, value)
	case "namespace":
		return decodeText(&r.Namespace, value)
	case "subResource":
		return decodeText(&r.SubResource, value)
	case "requestSubResource":
		return decodeText(&r.RequestSubResource, value)
	case "kind":
		return decodeGroup(value, &r.Kind.Group, &r.Kind.Version, "kind", &r.Kind.Kind)
	case "requestKind":
		r.RequestKind = &metav1.GroupVersionKind{}
		return decodeGroup(value, &r.RequestKind.Group, &r.RequestKind.Version, "kind", &r.RequestKind.Kind)
	case "resource":
		return decodeGroup(value, &r.Resource.Group, &r.Resource.Version, "resource", &r.Resource.Resource)
	case "requestResource":
		r.RequestResource = &metav1.GroupVersionResource{}
		return decodeGroup(value, &r.RequestResource.Group, &r.RequestResource.Version, "resource",
			&r.RequestResource.Resource)
	case "userInfo":
		return decodeAny(&r.UserInfo, value)
	case "dryRun":
		return decodeAny(&r.DryRun, value)
	case "object":
		r.Object.Raw = value.Raw()
	case "oldObject":
		r.OldObject.Raw = value.Raw()
	case "options":
		r.Options.Raw = value.Raw()
	}
	return nil
}

// decodeGroup reads a GroupVersionKind or GroupVersionResource.
func decodeGroup(value jsontext.Value, group, version *string, last string, kind *string) error {
	return decodeFields(value, func(name []byte, member jsontext.Value) error {
		switch string(name) {
		case "group":
			return decodeText(group, member)
		case "version":
			return decodeText(version, member)
		case last:
			return decodeText(kind, member)
		}
		return nil
	})
}

// decodeFields calls decode for the fields of an object. An error names the field.
func decodeFields(object jsontext.Value, decode func(name []byte, value jsontext.Value) error) error {
	if object.IsSet() && !object.Is('{') {
		return errors.New(": must be an object")
	}
	for name, value := range object.Members {
		if err := decode(name.Content(), value); err != nil {
			return fmt.Errorf(".%s%w", name, err)
		}
	}
	return nil
}

// decodeText reads a string. Null is an empty one.
func decodeText[T ~string](into *T, value jsontext.Value) error {
	if value.IsSet() && !value.Is('"') {
		return errors.New(": must be a string")
	}
	*into = T(strings.ToValidUTF8(value.String(), "\uFFFD"))
	return nil
}

// decodeAny reads a value of any type.
func decodeAny(into any, value jsontext.Value) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value.Raw(), into); err != nil {
		return fmt.Errorf(": %w", err)
	}
	return nil
}

// encodeReview returns an AdmissionReview with the answer to the request with that UID.
func encodeReview(uid types.UID, response *admissionv1.AdmissionResponse) []byte {
	response.UID = uid
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Response: response})
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return body
}

// failed returns the answer to a request that cannot be reviewed.
func failed(code int, message string) *admissionv1.AdmissionResponse {
	status := failureOf(code, message)
	return &admissionv1.AdmissionResponse{Result: &status}
}

// failureOf returns the status of a request that failed.
func failureOf(code int, message string) metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(http.StatusText(code)),
		Message: message,
	}
}

// decodeObject reads an object as the API machinery does: whole numbers are int64. Unknown
// fields are kept.
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
