package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/internal/informers"
)

// webhooks are those of the operators that run.
type webhooks struct {
	kinds  []*kind.Kind
	random *source
	log    *slog.Logger

	mu      sync.Mutex
	serving []*admission.Server
}

// configured returns them as the API server is told to call them.
func (w *webhooks) configured() *apiserver.Webhooks {
	mutating, validating := admission.Configurations(w.kinds, admission.Webhooks{
		Service: new(admissionregistrationv1.ServiceReference{Namespace: leases, Name: product}), User: product,
	})
	return apiserver.NewWebhooks(mutating, validating, w.review)
}

// injector returns what injects into Pods for an operator that runs kinds, and follows what they miss. It is nil if no
// kind injects.
func (w *webhooks) injector(
	caches *informers.Informers, kinds []*kind.Kind, missing func(context.Context, *kind.Kind) error,
) (*admission.Pods, func(context.Context, *kind.Kind) error, error) {
	if !slices.ContainsFunc(kinds, (*kind.Kind).Injects) {
		return nil, missing, nil
	}
	pods, err := admission.NewPods(admission.PodsConfig{Informers: caches, Kinds: kinds, Log: w.log})
	return pods, func(ctx context.Context, k *kind.Kind) error {
		err := missing(ctx, k)
		if _, isAbsent := errors.AsType[engine.Absent](err); err == nil || isAbsent {
			pods.Follow(k, err)
		}
		return err
	}, err
}

// serve starts the webhooks of an operator, which inject by pods until ctx ends; nil is nothing.
func (w *webhooks) serve(ctx context.Context, pods *admission.Pods) (*admission.Server, error) {
	config := admission.Config{Kinds: w.kinds, Log: w.log}
	if pods != nil {
		config.Injector = pods
		go pods.Run(ctx)
	}
	server, err := admission.New(config)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving = append(w.serving, server)
	return server, nil
}

// leave ends the webhooks of an operator.
func (w *webhooks) leave(server *admission.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serving = slices.DeleteFunc(w.serving, func(s *admission.Server) bool { return s == server })
}

var errNoWebhook = errors.New("no operator answers")

// review has one of the operators answer a review.
func (w *webhooks) review(path string, review *admissionv1.AdmissionReview) (*admissionv1.AdmissionReview, error) {
	answer := new(admissionv1.AdmissionReview)
	return answer, w.ask(path, review, answer)
}

// convert has one of the operators convert an object to another version.
func (w *webhooks) convert(
	object *unstructured.Unstructured, to schema.GroupVersion,
) (*unstructured.Unstructured, error) {
	encoded, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	review := &apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"},
		Request: &apiextensionsv1.ConversionRequest{UID: "1", DesiredAPIVersion: to.String(),
			Objects: []runtime.RawExtension{{Raw: encoded}}},
	}
	answer := new(apiextensionsv1.ConversionReview)
	if err := w.ask(admission.ConvertPath, review, answer); err != nil {
		return nil, err
	}
	if answer.Response.Result.Status != metav1.StatusSuccess || len(answer.Response.ConvertedObjects) != 1 {
		return nil, fmt.Errorf("conversion to %s: %s", to, answer.Response.Result.Message)
	}
	converted := new(unstructured.Unstructured)
	return converted, converted.UnmarshalJSON(answer.Response.ConvertedObjects[0].Raw)
}

// ask has one of the operators answer a request.
func (w *webhooks) ask(path string, question, answer any) error {
	w.mu.Lock()
	serving := slices.Clone(w.serving)
	w.mu.Unlock()
	if len(serving) == 0 {
		return errNoWebhook
	}
	sent, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(sent))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	serving[w.random.IntN(len(serving))].ServeHTTP(recorder, request)
	if recorder.Code != http.StatusOK {
		return fmt.Errorf("%d: %s", recorder.Code, recorder.Body)
	}
	return json.Unmarshal(recorder.Body.Bytes(), answer)
}
