package admission

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// fullRequest has every field that a request can have.
func fullRequest() *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		UID:                "u",
		Kind:               metav1.GroupVersionKind{Group: "g", Version: "v", Kind: "K"},
		Resource:           metav1.GroupVersionResource{Group: "g", Version: "v", Resource: "ks"},
		SubResource:        "s",
		RequestKind:        &metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"},
		RequestResource:    &metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "ks"},
		RequestSubResource: "s",
		Name:               "n\"\\\u2028é",
		Namespace:          "ns",
		Operation:          admissionv1.Update,
		UserInfo:           authenticationv1.UserInfo{Username: "a\\", UID: "1", Groups: []string{"x", "}"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}},
		Object:             runtime.RawExtension{Raw: []byte(`{"a":["}",{"b":"\\\""}],"n":-1.5e3}`)},
		OldObject:          runtime.RawExtension{Raw: []byte(`null`)},
		DryRun:             new(true),
		Options:            runtime.RawExtension{Raw: []byte(`{}`)},
	}
}

func TestDecodeReview(t *testing.T) {
	t.Parallel()
	want := fullRequest()
	compact := reviewOf(t, want)
	var value any
	require.NoError(t, json.Unmarshal(compact, &value))
	indented, err := json.MarshalIndent(value, " ", "\t")
	require.NoError(t, err)
	for name, body := range map[string][]byte{"compact": compact, "indented, in another order": indented} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := decodeReview(body)
			require.NoError(t, err)
			require.JSONEq(t, string(want.Object.Raw), string(got.Object.Raw))
			got.Object, got.Options = want.Object, want.Options
			require.Equal(t, want, got)
		})
	}
	for n := range compact {
		_, _, err := decodeReview(compact[:n])
		require.Error(t, err, "cut off at %d", n)
	}
	_, _, err = decodeReview(append(compact, '}'))
	require.Error(t, err)
}

// FuzzDecodeReview compares with the decoder of the API machinery, for whatever it can read.
func FuzzDecodeReview(f *testing.F) {
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Request: fullRequest()})
	require.NoError(f, err)
	f.Add(body)
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u\u00e9","object":[],"dryRun":null,"other":[1,2]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			return
		}
		again, err := json.Marshal(review) // field names in their own case, each once
		require.NoError(t, err)
		got, _, err := decodeReview(again)
		if review.TypeMeta != reviewType || review.Request.UID == "" {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		want, err := json.Marshal(review.Request)
		require.NoError(t, err)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(text))
	})
}
