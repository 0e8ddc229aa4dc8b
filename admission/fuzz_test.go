package admission

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// FuzzReview sends any bytes as a review, and then as the object of one: there is always a
// valid answer and never a panic.
func FuzzReview(f *testing.F) {
	kinds := append(kindtest.Shipped(f), injectingFence(f))
	kinds = append(kinds, kindtest.InCorpus(f, "versions")...)
	podSecurity, err := NewPodSecurity(func(context.Context, string) (map[string]string, error) { return nil, nil }, false)
	require.NoError(f, err)
	server, err := New(Config{
		Kinds: kinds, PodSecurity: podSecurity, Rights: NewRights(&reviewer{}, noTypes(), kinds, "ada"),
		Log: slog.New(slog.DiscardHandler),
		Injector: injectorFunc(func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
			return nil, nil, nil
		}),
	})
	require.NoError(f, err)
	for _, k := range kinds {
		f.Add(reviewOf(f, requestFor(f, k, validAt, "")))
		f.Add(reviewOf(f, requestFor(f, k, validAt, validAt)))
	}
	f.Add([]byte(validAt))
	f.Add([]byte(`{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"generateName":"a"},"spec":{"posts":[{"name":"x"}],"pod":{"spec":{"containers":[{}]}}}}`))
	f.Add([]byte(`{"request":{"uid":"u"`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":null}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{DefaultPath, ValidatePath, InjectPath} {
			requireAnswer(t, server, path, body)
			for _, k := range kinds {
				requireAnswer(t, server, path, reviewWith(t, k, body))
			}
		}
		require.Zero(t, testutil.ToFloat64(server.metrics.panics), "a handler panicked")
	})
}

// reviewWith is a review with raw bytes as object, and as the old one, whatever they are.
func reviewWith(t *testing.T, k *kind.Kind, raw []byte) []byte {
	body := reviewOf(t, requestFor(t, k, `"OBJECT"`, `"OBJECT"`))
	return bytes.ReplaceAll(body, []byte(`"OBJECT"`), raw)
}

func requireAnswer(t *testing.T, server *Server, path string, body []byte) {
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, request)
	requireReview(t, recorder.Code, recorder.Body.Bytes())
}
