package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// webhooks returns those of the operators, as the API server is told to call them.
func (h *history) webhooks() *apiserver.Webhooks {
	mutating, validating := admission.Configurations(kind.WithoutDecorators(h.Kinds), admission.Webhooks{
		Service: new(admissionregistrationv1.ServiceReference{Namespace: leases, Name: product}), User: product,
	})
	return apiserver.NewWebhooks(mutating, validating, h.review)
}

// serve starts the webhooks of an operator.
func (h *history) serve() (*admission.Server, error) {
	server, err := admission.New(admission.Config{Kinds: kind.WithoutDecorators(h.Kinds), Log: slog.New(errorLog{slog.DiscardHandler, h})})
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serving = append(h.serving, server)
	return server, nil
}

// leave ends the webhooks of an operator.
func (h *history) leave(server *admission.Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.serving = slices.DeleteFunc(h.serving, func(s *admission.Server) bool { return s == server })
}

var errNoWebhook = errors.New("no operator answers")

// review has one of the operators answer a review.
func (h *history) review(path string, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	h.mu.Lock()
	serving := slices.Clone(h.serving)
	h.mu.Unlock()
	if len(serving) == 0 {
		return nil, errNoWebhook
	}
	sent, err := json.Marshal(review)
	if err != nil {
		return nil, err
	}
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(sent))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	serving[h.random.IntN(len(serving))].ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		return nil, fmt.Errorf("%d: %s", recorder.Code, recorder.Body)
	}
	answer := new(admissionv1.AdmissionReview)
	return answer, json.Unmarshal(recorder.Body.Bytes(), answer)
}
