package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The paths of the webhooks.
const (
	DefaultPath  = "/default"
	ValidatePath = "/validate"
	InjectPath   = "/inject"
)

const (
	// bodyTimeout is how long a body may take, which holds a place meanwhile: the API server
	// sends it at once, and 7 MiB take a second at 60 Mbit/s.
	bodyTimeout = 5 * time.Second
	// maxTimeout is the longest that an API server waits for a webhook.
	maxTimeout = 30 * time.Second
	// idleTimeout is above the 90 s for which client-go keeps an unused connection, so that it is
	// the API server who closes one, and no request meets a closed one.
	idleTimeout = 2 * time.Minute
	// stopTimeout bounds how long a stop waits for requests, below the 30 s after which, by
	// default, a kubelet kills a container.
	stopTimeout = 20 * time.Second
)

// DefaultMaxInFlight is what three API servers send at once if all their
// writes come to one webhook: each works on 200 at a time (--max-mutating-requests-inflight).
const DefaultMaxInFlight = 3 * 200

// Config is what a server works with.
type Config struct {
	// Kinds are those whose objects get defaults and are validated.
	Kinds []*kind.Kind
	// Injector answers InjectPath; nil means that there is no such path.
	Injector Injector
	// PathPrefix is what the paths are served under as well, for who reaches them through no
	// proxy that takes it away; "" is nothing.
	PathPrefix string
	// Rights checks what the author of an object may do; nil allows everything.
	Rights *Rights
	// PodSecurity checks what objects inject; nil allows everything.
	PodSecurity *PodSecurity

	// Certificate is asked for at each handshake.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// MinTLSVersion is one of the versions in crypto/tls; 0 means TLS 1.3.
	MinTLSVersion uint16
	// ClientCAs are those of which one has to have signed a client's certificate; nil
	// means that clients need none.
	ClientCAs *x509.CertPool
	// HTTP2 allows HTTP/2, whose streams cost an attacker less than they cost us
	// (CVE-2023-44487).
	HTTP2 bool
	// MaxInFlight is how many requests are answered at a time by each webhook, before others
	// get 429; 0 means DefaultMaxInFlight.
	MaxInFlight int

	// Metrics is where the server's metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
	// Tracing records a span of each review, in the trace of the API server's request if that
	// says that it has one; nil means none.
	Tracing trace.TracerProvider
	// Log receives what goes wrong; nil means slog.Default.
	Log *slog.Logger
}

// Injector makes the patch of a Pod.
type Injector interface {
	// Inject returns an RFC 6902 patch, which may be empty, and warnings for who
	// submits the Pod. With an error, the webhook's failure policy decides. The raw
	// objects of the request must not be kept: their memory is used anew.
	Inject(context.Context, *admissionv1.AdmissionRequest) (patch []byte, warnings []string, err error)
}

// Server answers admission reviews.
type Server struct {
	config  Config
	objects *objects
	metrics *metrics
	http    *http.Server
	// leaving is set when clients are to go elsewhere.
	leaving atomic.Bool
}

// New wires a server; it does no I/O. It is an error if the metrics are registered already.
func New(config Config) (*Server, error) {
	if config.MinTLSVersion == 0 {
		config.MinTLSVersion = tls.VersionTLS13
	}
	if config.MaxInFlight == 0 {
		config.MaxInFlight = DefaultMaxInFlight
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Server{
		config:  config,
		objects: newObjects(config.Kinds, config.Rights, config.PodSecurity),
		metrics: newMetrics(),
	}
	if config.Metrics != nil {
		if err := s.metrics.register(config.Metrics); err != nil {
			return nil, fmt.Errorf("webhook metrics: %w", err)
		}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config.HTTP2)
	s.http = &http.Server{
		Handler:   s.routes(),
		Protocols: protocols,
		TLSConfig: s.tlsConfig(),
		// The API server sends at once; only who wants to keep a connection busy is slower.
		ReadHeaderTimeout: bodyTimeout,
		ReadTimeout:       maxTimeout,
		WriteTimeout:      2 * maxTimeout, // from the header on: to read, to answer
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(config.Log.Handler(), slog.LevelDebug), // failed handshakes, mostly scans
	}
	return s, nil
}

func (s *Server) tlsConfig() *tls.Config {
	config := &tls.Config{MinVersion: s.config.MinTLSVersion, GetCertificate: s.config.Certificate}
	if s.config.ClientCAs != nil {
		config.ClientCAs, config.ClientAuth = s.config.ClientCAs, tls.RequireAndVerifyClientCert
	}
	return config
}

// Serve answers on a listener until ctx ends. It then lets the running requests finish
// and returns nil, or an error if they did not in time.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		stopped <- s.http.Shutdown(finishing)
	})
	err := s.http.ServeTLS(listener, "", "")
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("webhook server: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("webhook server stopped before all requests were answered: %w", err)
	}
	return nil
}

// Leave sends clients elsewhere, while Serve goes on: each answer closes its connection,
// so that the next request makes a new one, which a Service leads to a replica that stays.
// Connections without a request are left open: to close one fails the request that may
// just be on its way.
func (s *Server) Leave() { s.leaving.Store(true) }

// injectWith makes a handler of an injector.
func injectWith(injector Injector) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		patch, warnings, err := injector.Inject(ctx, request)
		if err != nil {
			return nil, err
		}
		return allowed(patch, warnings...), nil
	}
}
