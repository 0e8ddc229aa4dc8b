package admission

import (
	"bytes"
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

func failuref(code int, format string, args ...any) *failure {
	return &failure{code, fmt.Sprintf(format, args...)}
}

// reviewType is the only type of review there is; v1beta1 is gone since Kubernetes 1.22.
var reviewType = metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"}

// decodeReview reads the request of an AdmissionReview. With an error comes a request
// that has the UID, as far as it can be read.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return &admissionv1.AdmissionRequest{UID: uidIn(body)}, failuref(http.StatusBadRequest, "request body: %v", err)
	}
	request := review.Request
	if request == nil {
		request = &admissionv1.AdmissionRequest{}
	}
	switch {
	case review.TypeMeta != reviewType:
		return request, failuref(http.StatusBadRequest, "request body: apiVersion %q, kind %q: must be %s, %s", review.APIVersion, review.Kind, reviewType.APIVersion, reviewType.Kind)
	case review.Request == nil:
		return request, failuref(http.StatusBadRequest, "request: Required value")
	case request.UID == "":
		return request, failuref(http.StatusBadRequest, "request.uid: Required value")
	}
	return request, nil
}

// uidIn finds request.uid in a body that is cut off or broken behind it.
func uidIn(body []byte) types.UID {
	d := json.NewDecoder(bytes.NewReader(body))
	if !enterField(d, "request") || !enterField(d, "uid") {
		return ""
	}
	token, err := d.Token()
	uid, ok := token.(string)
	if err != nil || !ok {
		return ""
	}
	return types.UID(uid)
}

// enterField reads the object that comes next up to the value of one of its fields.
func enterField(d *json.Decoder, name string) bool {
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return false
	}
	for d.More() {
		if token, err := d.Token(); err != nil || token == name {
			return err == nil
		}
		var skipped json.RawMessage
		if err := d.Decode(&skipped); err != nil {
			return false
		}
	}
	return false
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
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &object); err != nil {
		return nil, failuref(http.StatusBadRequest, "%s: %v", field, err)
	}
	if object == nil {
		return nil, failuref(http.StatusBadRequest, "%s: Required value", field)
	}
	return object, nil
}
