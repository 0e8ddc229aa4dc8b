package admission

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/mux"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxBodyBytes is what the API server can send: it accepts objects of at most 3 MiB
// (MaxRequestBodyBytes in k8s.io/apiserver), an update carries two of them, and the user's
// groups and extra come from headers, which Go's server limits to 1 MiB.
const maxBodyBytes = 2*(3<<20) + 1<<20

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
		s.reject(w, r, failuref(http.StatusNotFound, "no webhook at %s", r.URL.Path))
	})
	return router
}

// endpoint serves one webhook. Each has a limit of its own, so that objects of kinds do not wait
// for Pods, which may be many at once.
func (s *Server) endpoint(path string, handle handler) http.Handler {
	m := s.metrics.of(path)
	places := make(chan struct{}, s.config.MaxInFlight)
	return s.traced(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		code, response := s.serve(w, r, places, handle)
		outcome := outcomeOf(response)
		traceOutcome(r.Context(), outcome)
		m.observe(code, outcome, time.Since(began))
	}))
}

// serve answers one HTTP request. It returns the status code and the answer of the handler, which
// is nil if it failed.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, places chan struct{}, handle handler) (code int, answer *admissionv1.AdmissionResponse) {
	began := time.Now()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(began.Add(bodyTimeout)) // a test's recorder has none
	// The limit applies before the body is read, because bodies use most of the memory.
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		w.Header().Set("Retry-After", retryAfter)
		return s.reject(w, r, failuref(http.StatusTooManyRequests, "%d requests are already being answered", cap(places)))
	}
	if err := checkHeader(r); err != nil {
		return s.reject(w, r, err)
	}
	body := buffers.Get().(*bytes.Buffer)
	defer release(body)
	if err := readBody(w, r, body); err != nil {
		cutOff, _ := decodeReview(body.Bytes())
		return s.fail(w, cutOff.UID, err)
	}
	_ = connection.SetReadDeadline(began.Add(maxTimeout)) // notices a client that is gone
	request, err := decodeReview(body.Bytes())
	if err != nil {
		return s.fail(w, request.UID, err)
	}
	traceRequest(r.Context(), request)
	ctx, cancel := context.WithTimeout(r.Context(), maxTimeout)
	defer cancel()
	response, err := s.guarded(ctx, request, handle)
	if err != nil {
		traceError(r.Context(), err)
		return s.fail(w, request.UID, err)
	}
	write(w, http.StatusOK, encodeReview(request.UID, response))
	return http.StatusOK, response
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

// readBody reads a body, unless it is too large. With an error, body has the part that was
// read, in which the UID may be.
func readBody(w http.ResponseWriter, r *http.Request, body *bytes.Buffer) error {
	if r.ContentLength > maxBodyBytes {
		readStart(r, body)
		return failuref(http.StatusRequestEntityTooLarge, "request body: must have at most %d bytes", maxBodyBytes)
	}
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom grows a buffer with less room
	}
	_, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return failuref(http.StatusRequestEntityTooLarge, "request body: must have at most %d bytes", maxBodyBytes)
	}
	if err != nil {
		return failuref(http.StatusBadRequest, "request body: %v", err)
	}
	return nil
}

// readStart reads enough of a body to find the UID, which the API server writes first.
func readStart(r *http.Request, body *bytes.Buffer) {
	_, _ = io.CopyN(body, r.Body, bytes.MinRead)
}

// buffers hold request bodies. The raw objects of a request share memory with one, which is
// reused when the request is answered.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptBytes bounds what an unused buffer holds: few objects have more than 64 KiB.
const maxKeptBytes = 64 << 10

// release returns a buffer for reuse, unless it would keep the memory of a large object.
func release(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBytes {
		b.Reset()
		buffers.Put(b)
	}
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

// reject fails a request whose body has not been read.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) (code int, answer *admissionv1.AdmissionResponse) {
	var start bytes.Buffer
	readStart(r, &start)
	cutOff, _ := decodeReview(start.Bytes())
	return s.fail(w, cutOff.UID, err)
}

// fail answers with an AdmissionReview that does not allow the request and with a status code for
// a failure: the API server then applies the webhook's failure policy. It returns what serve does.
func (s *Server) fail(w http.ResponseWriter, uid types.UID, err error) (code int, answer *admissionv1.AdmissionResponse) {
	code = http.StatusInternalServerError
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
	}
	level := slog.LevelDebug // anyone who can reach the port can send nonsense; the metrics count it
	if code >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	s.config.Log.Log(context.Background(), level, "webhook request failed", "uid", uid, "code", code, "error", err)
	write(w, code, encodeReview(uid, failed(code, err.Error())))
	return code, nil
}

// write sends an answer with its length, so that the connection can be reused.
func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that does not wait gets no answer
}
