package admission

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gorilla/mux"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxBodyBytes is what the API server can send: it accepts objects of at most 3 MiB
// (MaxRequestBodyBytes in k8s.io/apiserver), an update carries two of them, and the user's
// groups and extra come from headers, which Go's server limits to 1 MiB.
const maxBodyBytes = 2*(3<<20) + 1<<20

// maxWait is how long a request waits for memory. The API server waits 5 s for a Pod, and may need
// a second try.
const maxWait = time.Second

// retryAfter is the seconds after which the API server, which retries by itself, may retry.
const retryAfter = "1"

// routes returns the handler of all paths.
func (s *Server) routes() http.Handler {
	router := mux.NewRouter()
	handle := func(path string, h handler) {
		endpoint := s.endpoint(path, h)
		router.Handle(path, endpoint)
		if s.config.PathPrefix != "" {
			router.Handle(s.config.PathPrefix+path, endpoint)
		}
	}
	handle(DefaultPath, s.objects.setDefaults)
	handle(ValidatePath, s.objects.validate)
	if s.config.Injector != nil {
		handle(InjectPath, injectWith(s.config.Injector))
	}
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.receive(w, r, failuref(http.StatusNotFound, "no webhook at %s", r.URL.Path), nil).write(w)
	})
	return router
}

// endpoint serves one webhook. Each has a limit of its own, so that objects of kinds do not wait
// for Pods, which may be many at once.
func (s *Server) endpoint(path string, handle handler) http.Handler {
	m := s.metrics.of(path)
	places := make(chan struct{}, s.config.MaxInFlight)
	limited := func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			return s.guarded(ctx, request, handle)
		default:
			return nil, failuref(http.StatusTooManyRequests, "%d requests are already being answered", cap(places))
		}
	}
	return s.traced(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		reply := s.receive(w, r, checkHeader(r), limited)
		reply.write(w)
		if reply.answer != nil {
			used(r.Context())
		}
		outcome := outcomeOf(reply.answer)
		traceOutcome(r.Context(), outcome)
		m.observe(reply.code, outcome, time.Since(began))
	}))
}

// receive receives and answers one HTTP request, or fails with unacceptable if that is not nil. The
// memory of the request is free when it returns, so a client that does not read its answer holds
// none of it.
func (s *Server) receive(w http.ResponseWriter, r *http.Request, unacceptable error, handle handler) reply {
	began := time.Now()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(began.Add(bodyTimeout)) // a test's recorder has none
	body := s.bodies.begin(func() { _ = connection.SetReadDeadline(began) })
	defer body.release()
	if err := readBody(w, r, body, unacceptable); err != nil {
		cutOff, _, _ := decodeReview(body.bytes)
		return s.failed(cutOff.UID, err)
	}
	_ = connection.SetReadDeadline(began.Add(maxTimeout)) // notices a client that is gone
	request, values, err := decodeReview(body.bytes)
	if err != nil {
		return s.failed(request.UID, err)
	}
	traceRequest(r.Context(), request)
	answer, err := s.answer(r.Context(), request, values, handle)
	if err != nil {
		traceError(r.Context(), err)
		return s.failed(request.UID, err)
	}
	return reply{http.StatusOK, encodeReview(request.UID, answer), answer}
}

// answer calls a handler as soon as there is memory for the values of a request, or fails.
func (s *Server) answer(ctx context.Context, request *admissionv1.AdmissionRequest, values int, handle handler) (*admissionv1.AdmissionResponse, error) {
	if !s.values.TryAcquire(int64(values)) {
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		if err := s.values.Acquire(waiting, int64(values)); err != nil {
			return nil, failuref(http.StatusTooManyRequests, "requests with %d values are already being answered", maxValues)
		}
	}
	defer s.values.Release(int64(values))
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	return handle(ctx, request)
}

// checkHeader rejects what the API server does not send. Only JSON is read: it has never sent
// anything else, and each further format would be one more parser to attack.
func checkHeader(r *http.Request) error {
	if r.Method != http.MethodPost {
		return failuref(http.StatusMethodNotAllowed, "method %s: must be POST", r.Method)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return failuref(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json", r.Header.Get("Content-Type"))
	}
	return nil
}

// readBody reads a body unless it is too large, or only its start if the request is not acceptable:
// the UID may be in it, which the API server writes first.
func readBody(w http.ResponseWriter, r *http.Request, body *body, unacceptable error) error {
	tooLarge := failuref(http.StatusRequestEntityTooLarge, "request body: must have at most %d bytes", maxBodyBytes)
	if unacceptable != nil || r.ContentLength > maxBodyBytes {
		_ = body.readAll(io.LimitReader(r.Body, bytes.MinRead))
		return cmp.Or[error](unacceptable, tooLarge)
	}
	err := body.readAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err == nil || errors.Is(err, errBusy) {
		return err
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge
	}
	return failuref(http.StatusBadRequest, "request body: %v", err)
}

// guarded calls a handler and turns a panic into an error.
func (s *Server) guarded(ctx context.Context, request *admissionv1.AdmissionRequest, handle handler) (response *admissionv1.AdmissionResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.Inc()
			s.config.Log.Error("panic in a webhook", "panic", p, "uid", request.UID, "stack", string(debug.Stack()))
			response, err = nil, fmt.Errorf("panic: %v [recovered]", p)
		}
	}()
	return handle(ctx, request)
}

// reply is the answer to an HTTP request.
type reply struct {
	code int
	body []byte
	// answer is that of the handler; nil if the request failed.
	answer *admissionv1.AdmissionResponse
}

// failed returns an AdmissionReview that does not allow the request, with a status code for a
// failure: the API server then applies the webhook's failure policy.
func (s *Server) failed(uid types.UID, err error) reply {
	code := http.StatusInternalServerError
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
	}
	level := slog.LevelDebug // anyone who can reach the port can send nonsense; the metrics count it
	if code >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	s.config.Log.Log(context.Background(), level, "webhook request failed", "uid", uid, "code", code, "error", err)
	return reply{code: code, body: encodeReview(uid, failed(code, err.Error()))}
}

// write sends a reply with its length, so that the connection can be reused.
func (r reply) write(w http.ResponseWriter) {
	if r.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body) // a client that does not wait gets no answer
}
