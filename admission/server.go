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
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
)

// The paths of the webhooks.
const (
	DefaultPath  = "/default"
	ValidatePath = "/validate"
	InjectPath   = "/inject"
	ConvertPath  = "/convert"
)

const (
	// bodyTimeout is how long reading a body may take, which counts as a request in flight. The
	// API server sends it at once, and 7 MiB take a second at 60 Mbit/s.
	bodyTimeout = 5 * time.Second
	// maxTimeout is the longest that an API server waits for a webhook.
	maxTimeout = 30 * time.Second
	// idleTimeout is above the 90 s for which client-go keeps an unused connection. So the API
	// server closes it first, and no request is sent on a closed one. This holds for one that was never
	// used as well: of several that the API server opens at once, it may need some only later.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes bounds a request's header, to which Go's server adds 4 KiB. That of the API
	// server has some 500 bytes; proxies add to it.
	maxHeaderBytes = 8 << 10
	// stopTimeout bounds how long a stop waits for requests, below the 30 s after which, by
	// default, a kubelet kills a container.
	stopTimeout = 20 * time.Second
)

// DefaultMaxInFlight is what three API servers send at once if all their
// writes go to one webhook: each handles 200 at a time (--max-mutating-requests-inflight).
const DefaultMaxInFlight = 3 * maxStreams

// maxStreams is how many requests one API server sends at once, on one connection over HTTP/2.
const maxStreams = 200

// Config configures a server.
type Config struct {
	// Kinds are those whose objects get defaults and are validated.
	Kinds []*kind.Kind
	// Injector answers InjectPath; nil means that this path does not exist.
	Injector Injector
	// PathPrefix is a prefix under which the paths are served as well, for clients whose proxy
	// does not remove it; "" is none.
	PathPrefix string
	// Rights checks what the author of an object may do; nil allows everything.
	Rights *Rights
	// PodSecurity checks what objects inject; nil allows everything.
	PodSecurity *PodSecurity
	// Stored reads objects whose scale is changed.
	Stored Stored
	// IsOtherVersion reports whether the CRD of a kind belongs to another version of it, of which
	// answers warn; nil means never.
	IsOtherVersion func(*kind.Kind) bool

	// Certificate is called at each handshake.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// MinTLSVersion is one of the versions in crypto/tls; 0 means TLS 1.3.
	MinTLSVersion uint16
	// ClientCAs are the trusted authorities for clients' certificates; nil means that clients
	// need none.
	ClientCAs *x509.CertPool
	// HTTP2 allows HTTP/2, whose streams cost an attacker less than they cost the server
	// (CVE-2023-44487).
	HTTP2 bool
	// MaxInFlight is how many requests each webhook answers at a time before it answers others
	// with 429; 0 means DefaultMaxInFlight.
	MaxInFlight int
	// MaxConnections is how many connections are open at a time; 0 means DefaultMaxConnections.
	MaxConnections int

	// Metrics is the registry for the server's metrics; nil means none.
	Metrics prometheus.Registerer
	// Log receives failures; nil means slog.Default.
	Log *slog.Logger
}

// Stored returns an object as the API server has it now, in the version of a resource; nil if there is none.
type Stored func(context.Context, schema.GroupVersionResource, cache.ObjectName) (map[string]any, error)

// Injector returns the patch of a Pod.
type Injector interface {
	// Inject returns an RFC 6902 patch, which may be empty, and warnings for the author of
	// the Pod. With an error, the webhook's failure policy decides. The raw objects of the
	// request must not be kept: their memory is reused.
	Inject(context.Context, *admissionv1.AdmissionRequest) (patch []byte, warnings []string, err error)
}

// Server answers admission reviews.
type Server struct {
	config  Config
	objects *objects
	metrics *metrics
	bodies  *bodies
	// values bounds the memory of decoded reviews.
	values *semaphore.Weighted
	routes http.Handler
	http   *http.Server
	// leaving is set when clients should connect to another replica.
	leaving atomic.Bool
}

// New wires a server; it does no I/O. It fails if the metrics are registered already.
func New(config Config) (*Server, error) {
	if config.MinTLSVersion == 0 {
		config.MinTLSVersion = tls.VersionTLS13
	}
	if config.MaxInFlight == 0 {
		config.MaxInFlight = DefaultMaxInFlight
	}
	if config.MaxConnections == 0 {
		config.MaxConnections = DefaultMaxConnections
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Server{
		config:  config,
		objects: newObjects(config.Kinds, config.Rights, config.PodSecurity),
		metrics: newMetrics(),
		bodies:  newBodies(bodyBudget),
		values:  semaphore.NewWeighted(maxValues),
	}
	s.objects.isOtherVersion, s.objects.stored = config.IsOtherVersion, config.Stored
	if config.Metrics != nil {
		if err := s.metrics.register(config.Metrics); err != nil {
			return nil, fmt.Errorf("webhook metrics: %w", err)
		}
	}
	s.routes = s.router()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(config.HTTP2)
	s.http = &http.Server{
		Handler:   s,
		Protocols: protocols,
		TLSConfig: s.tlsConfig(),
		// The time for the first header counts from the handshake on. That for bodies is limited as they are
		// received.
		ReadHeaderTimeout: idleTimeout,
		WriteTimeout:      2 * maxTimeout, // from the header on: reading and answering
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Frames and windows of the smallest size that the protocol allows: they are buffers.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: 1 << 14,
			MaxReceiveBufferPerConnection: 1 << 16, MaxReceiveBufferPerStream: 1 << 16,
		},
		ConnContext: withConnection,
		ErrorLog:    slog.NewLogLogger(config.Log.Handler(), slog.LevelDebug), // failed handshakes, mostly scans
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

// ServeHTTP implements http.Handler: it answers one review.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

// Serve answers on a listener until ctx ends. It then lets the running requests finish
// and returns nil, or an error if they did not finish in time.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		stopped <- s.http.Shutdown(finishing)
	})
	err := s.http.ServeTLS(newConnections(listener, s.config.MaxConnections), "", "")
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("webhook server: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("webhook server stopped before all requests were answered: %w", err)
	}
	return nil
}

// Leave makes clients connect to other replicas while Serve continues: each answer closes its
// connection, and a Service leads the next one to a replica that stays. Idle connections are
// left open: closing one would fail a request that may just have been sent.
func (s *Server) Leave() { s.leaving.Store(true) }

// injectWith returns a handler that answers with an injector.
func injectWith(injector Injector) handler {
	return func(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
		patch, warnings, err := injector.Inject(ctx, request)
		if err != nil {
			return nil, err
		}
		return allowed(patch, warnings...), nil
	}
}
