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
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
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

// router returns the handler of all paths.
func (s *Server) router() http.Handler {
	router := mux.NewRouter()
	handle := func(path string, open opener) {
		endpoint := s.endpoint(path, open)
		router.Handle(path, endpoint)
		if s.config.PathPrefix != "" {
			router.Handle(s.config.PathPrefix+path, endpoint)
		}
	}
	handle(DefaultPath, reviews(s.objects.setDefaults))
	handle(ValidatePath, reviews(s.objects.validate))
	if s.config.Injector != nil {
		handle(InjectPath, reviews(injectWith(s.config.Injector)))
	}
	if slices.ContainsFunc(s.config.Kinds, func(k *kind.Kind) bool { return k.Versions.Converts() }) {
		handle(ConvertPath, conversions(s.objects.kinds, s.config.Log))
	}
	router.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.receive(w, r, failuref(http.StatusNotFound, "no webhook at %s", r.URL.Path), nil, reviews(nil)).write(w)
	})
	return router
}

// exchange is a request that was read from a body.
type exchange struct {
	uid types.UID
	// values is how many there are in the body.
	values int
	// answer returns the body of the answer.
	answer func(context.Context) ([]byte, outcome, error)
	// failed returns the body of the answer to a request that failed.
	failed func(code int, message string) []byte
}

// opener reads a request from a body. With an error, the exchange only has what was read before, and
// failed.
type opener func(body []byte) (*exchange, error)

// reviews opens admission reviews, which a handler answers.
func reviews(handle handler) opener {
	return func(body []byte) (*exchange, error) {
		request, values, err := decodeReview(body)
		return &exchange{
			uid: request.UID, values: values,
			answer: func(ctx context.Context) ([]byte, outcome, error) {
				response, err := handle(ctx, request)
				if err != nil {
					return nil, outcomeFailed, err
				}
				return encodeReview(request.UID, response), outcomeOf(response), nil
			},
			failed: func(code int, message string) []byte { return encodeReview(request.UID, failed(code, message)) },
		}, err
	}
}

// endpoint serves one webhook. Each has a limit of its own, so that objects of kinds do not wait
// for Pods, which may be many at once.
func (s *Server) endpoint(path string, open opener) http.Handler {
	m := s.metrics.of(path)
	places := make(chan struct{}, s.config.MaxInFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		if s.leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		reply := s.receive(w, r, checkHeader(r), places, open)
		reply.write(w)
		reply.on.end(reply.code == http.StatusOK)
		m.observe(reply.code, reply.outcome, time.Since(began))
	})
}

// receive receives and answers one HTTP request, or fails with unacceptable if that is not nil. It
// takes one of the places while it answers. The memory of the request is free when it returns, so a
// client that does not read its answer holds none of it.
func (s *Server) receive(
	w http.ResponseWriter, r *http.Request, unacceptable error, places chan struct{}, open opener,
) reply {
	began := time.Now()
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(began.Add(bodyTimeout)) // a test's recorder has none
	body := s.bodies.begin(func() { _ = connection.SetReadDeadline(began) })
	defer body.release()
	if err := readBody(w, r, body, unacceptable); err != nil {
		cutOff, _ := open(body.bytes)
		return s.failed(cutOff, err)
	}
	_ = connection.SetReadDeadline(began.Add(maxTimeout)) // notices a client that is gone
	on := begin(r)
	reply := s.reply(r.Context(), body.bytes, places, open)
	reply.on = on
	return reply
}

// reply answers a request whose body was read.
func (s *Server) reply(ctx context.Context, body []byte, places chan struct{}, open opener) reply {
	request, err := open(body)
	if err != nil {
		return s.failed(request, err)
	}
	answer, outcome, err := s.answer(ctx, request, places)
	if err != nil {
		return s.failed(request, err)
	}
	return reply{code: http.StatusOK, body: answer, outcome: outcome}
}

// answer answers a request as soon as there is memory for its values, or fails.
func (s *Server) answer(ctx context.Context, request *exchange, places chan struct{}) ([]byte, outcome, error) {
	if !s.values.TryAcquire(int64(request.values)) {
		waiting, cancel := context.WithTimeout(ctx, maxWait)
		defer cancel()
		if err := s.values.Acquire(waiting, int64(request.values)); err != nil {
			return nil, outcomeFailed,
				failuref(http.StatusTooManyRequests, "requests with %d values are already being answered", maxValues)
		}
	}
	defer s.values.Release(int64(request.values))
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		return s.guarded(ctx, request)
	default:
		return nil, outcomeFailed, failuref(http.StatusTooManyRequests, "%d requests are already being answered",
			cap(places))
	}
}

// checkHeader rejects what the API server does not send. Only JSON is read: it has never sent
// anything else, and each further format would be one more parser to attack.
func checkHeader(r *http.Request) error {
	if r.Method != http.MethodPost {
		return failuref(http.StatusMethodNotAllowed, "method %s: must be POST", r.Method)
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return failuref(http.StatusUnsupportedMediaType, "Content-Type %q: must be application/json",
			r.Header.Get("Content-Type"))
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

// guarded answers a request and turns a panic into an error.
func (s *Server) guarded(ctx context.Context, request *exchange) (body []byte, result outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.metrics.panics.Inc()
			s.config.Log.Error("panic in a webhook", "panic", p, "uid", request.uid, "stack", string(debug.Stack()))
			body, result, err = nil, outcomeFailed, fmt.Errorf("panic: %v [recovered]", p)
		}
	}()
	return request.answer(ctx)
}

// reply is the answer to an HTTP request.
type reply struct {
	code int
	body []byte
	// outcome is that of the answer, or that the request failed.
	outcome outcome
	// on is the connection on which the request is being answered; nil if it was not received as a whole.
	on *connection
}

// failed returns an answer that does not allow the request, with a status code for a failure: the API
// server then applies the webhook's failure policy.
func (s *Server) failed(request *exchange, err error) reply {
	code := http.StatusInternalServerError
	if f, ok := errors.AsType[*failure](err); ok {
		code = f.code
	}
	level := slog.LevelDebug // anyone who can reach the port can send nonsense; the metrics count it
	if code >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	s.config.Log.Log(context.Background(), level, "webhook request failed", "uid", request.uid, "code", code,
		"error", err)
	return reply{code: code, body: request.failed(code, err.Error()), outcome: outcomeFailed}
}

// write sends a reply with its length, so that the connection can be reused. When it returns, nothing is left to send.
func (r reply) write(w http.ResponseWriter) {
	if r.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body) // a client that does not wait gets no answer
	_ = http.NewResponseController(w).Flush()
}
