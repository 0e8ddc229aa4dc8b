// Package serving serves health checks, metrics and profiles over HTTP, metrics to authorized
// clients only if asked to.
//
// It knows HTTP and the registry of metrics. It does not know kinds, the engine or webhooks:
// what has to be checked is passed in as data.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
)

// readHeaderTimeout bounds the wait for a request's header. Profiles and traces take as long as
// the client asks for, so the response has no limit. The value is controller-runtime's.
const readHeaderTimeout = 32 * time.Second

// Config configures the servers.
type Config struct {
	Options
	// Ready and Live are the checks of /readyz and /livez.
	Ready, Live []healthz.HealthChecker
	// Notes returns lines that /readyz?verbose adds: what keeps the process from being useful, and not
	// from being ready. Nil means none.
	Notes func() []string
	// Client reviews tokens and access for Options.Auth.
	Client kubernetes.Interface
	// GetCertificate returns the certificate for Options.Auth; nil means a self-signed one.
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Log            *slog.Logger
}

// endpoint is one address with what it serves.
type endpoint struct {
	flag, address string
	handler       http.Handler
	tls           *tls.Config // nil serves plain HTTP
}

// Start serves metrics and health on the addresses of the options. The returned function stops
// serving.
func Start(c Config) (stop func(), err error) {
	metrics := endpoint{flag: "--metrics-listen", address: c.MetricsAddress, handler: metricsHandler(c.Profiling)}
	if c.Auth {
		metrics.handler = newAuth(c.Client, c.Log).protect(metrics.handler)
		if metrics.tls, err = tlsConfig(c.GetCertificate); err != nil {
			return nil, fmt.Errorf("--metrics-auth: %w", err)
		}
	}
	health := endpoint{flag: "--health-listen", address: c.HealthAddress,
		handler: healthHandler(c.Ready, c.Live, c.Notes)}

	var servers []*http.Server
	stop = func() {
		for _, server := range servers {
			_ = server.Close() // clients need no answer from a process that stops
		}
	}
	for _, e := range []endpoint{metrics, health} {
		if e.address == "" {
			continue
		}
		server, err := e.serve(c.Log)
		if err != nil {
			stop()
			return nil, err
		}
		servers = append(servers, server)
	}
	return stop, nil
}

// serve listens and serves in the background.
func (e endpoint) serve(log *slog.Logger) (*http.Server, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", e.address)
	if err != nil {
		return nil, fmt.Errorf("%s: invalid value %q: %w", e.flag, e.address, err)
	}
	if e.tls != nil {
		listener = tls.NewListener(listener, e.tls)
	}
	log.Info("listening", "flag", e.flag, "address", listener.Addr().String())
	server := &http.Server{
		Handler: e.handler, ReadHeaderTimeout: readHeaderTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("stopped listening", "flag", e.flag, "error", err)
		}
	}()
	return server, nil
}

// healthHandler serves /healthz (the process answers), /readyz (it can work) and /livez (it need
// not be restarted), each in the form of the API server's own. A check that fails is named
// there, and gives its reason at a path of its own, such as /readyz/caches. /readyz?verbose ends with
// the notes.
func healthHandler(ready, live []healthz.HealthChecker, notes func() []string) http.Handler {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallReadyzHandler(mux, append([]healthz.HealthChecker{healthz.PingHealthz}, ready...)...)
	healthz.InstallLivezHandler(mux, append([]healthz.HealthChecker{healthz.PingHealthz}, live...)...)
	if notes == nil {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r)
		if r.URL.Path != "/readyz" || !r.URL.Query().Has("verbose") {
			return
		}
		for _, note := range notes() {
			_, _ = fmt.Fprintln(w, note)
		}
	})
}
