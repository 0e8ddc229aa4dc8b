package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"

	// These add workqueue_*, rest_client_* and leader_election_* to the registry.
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"

	"github.com/fescue-dev/fescue/engine"
)

type listenOptions struct {
	metrics, health string
	profiling, auth bool
	certDir         string // of the metrics
}

func (o *listenOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.metrics, "metrics-listen", "", "address for /metrics, like :8080; none if not given")
	flags.StringVar(&o.health, "health-listen", "", "address for /healthz, /readyz and /livez, like :8081; none if not given")
	flags.BoolVar(&o.auth, "metrics-auth", false, "serve /metrics by HTTPS, and only to those whose bearer token the API server knows and who have the right to get that path")
	flags.StringVar(&o.certDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for --metrics-auth, which are reloaded when they change; without it the certificate is self-signed")
	flags.BoolVar(&o.profiling, "profiling", false, "serve /debug/pprof beside /metrics")
}

// complete checks that no flag is given in vain.
func (o *listenOptions) complete() error {
	switch {
	case o.profiling && o.metrics == "":
		return errors.New("--profiling: needs --metrics-listen, which says where")
	case o.auth && o.metrics == "":
		return errors.New("--metrics-auth: needs --metrics-listen, which says where")
	case o.certDir != "" && !o.auth:
		return errors.New("--metrics-cert-dir: needs --metrics-auth, which turns HTTPS on")
	}
	return nil
}

// protected adds to the handler of the metrics what --metrics-auth says; without it, the TLS
// configuration is nil.
func (o *listenOptions) protected(ctx context.Context, handler http.Handler, client kubernetes.Interface, log *slog.Logger) (http.Handler, *tls.Config, error) {
	if !o.auth {
		return handler, nil, nil
	}
	auth, err := newMetricsAuth(client, log)
	if err != nil {
		return nil, nil, err
	}
	config, err := o.metricsTLS(ctx, log)
	return auth.protect(handler), config, err
}

// serve serves metrics and health where the flags say so. The function that it returns
// stops it.
func serve(ctx context.Context, o listenOptions, client kubernetes.Interface, e *engine.Engine, leader election, hooks *webhooks, log *slog.Logger) (stop func(), err error) {
	metrics, encryption, err := o.protected(ctx, metricsHandler(o.profiling), client, log)
	if err != nil {
		return nil, err
	}
	var servers []*http.Server
	stop = func() {
		for _, server := range servers {
			_ = server.Close() // nobody waits for what a scrape would have got
		}
	}
	for _, s := range []struct {
		flag, address string
		handler       http.Handler
		encryption    *tls.Config
	}{
		{"--metrics-listen", o.metrics, metrics, encryption},
		{"--health-listen", o.health, healthHandler(e, leader, hooks), nil},
	} {
		if s.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", s.address)
		if err != nil {
			stop()
			return nil, fmt.Errorf("%s: invalid value %q: %w", s.flag, s.address, err)
		}
		if s.encryption != nil {
			listener = tls.NewListener(listener, s.encryption)
		}
		log.Info("listening", "flag", s.flag, "address", listener.Addr().String())
		// A profile or a trace is as long as it was asked for, so only the header is
		// waited for with a limit, the one of controller-runtime.
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 32 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				log.Error("stopped listening", "flag", s.flag, "error", err)
			}
		}()
	}
	return stop, nil
}

// shown are the prefixes of metrics that are about Fescue. Libraries of the API server,
// by which schemas are checked, put their own into the same registry.
var shown = []string{"certwatcher_", "controller_runtime_", "fescue_", "go_", "leader_election_", "process_", "rest_client_", "workqueue_"}

// gather collects the metrics that are shown.
func gather() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(shown, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	}), err
}

// metricsHandler serves /metrics.
func metricsHandler(profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.GathererFunc(gather), promhttp.HandlerOpts{}))
	if profiling {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// check is one of the things that make a process healthy.
type check struct {
	name  string
	check func(*http.Request) error
}

// healthHandler serves /healthz, whether the process answers; /readyz, whether it is
// ready to work; and /livez, whether a restart would help. Each check also has a path of
// its own, as in the API server.
func healthHandler(e *engine.Engine, leader election, hooks *webhooks) http.Handler {
	mux := http.NewServeMux()
	addChecks(mux, "/healthz")
	addChecks(mux, "/readyz", append(hooks.checks(), check{"caches", func(*http.Request) error { return e.Synced() }})...)
	addChecks(mux, "/livez",
		check{"workers", func(*http.Request) error { return e.Alive() }},
		check{"leader-election", leader.check})
	return mux
}

// addChecks serves checks at path, in the form that the API server gives its own.
func addChecks(mux *http.ServeMux, path string, checks ...check) {
	all := append([]check{{"ping", func(*http.Request) error { return nil }}}, checks...)
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { answer(w, r, path, all) })
	for _, c := range all {
		mux.HandleFunc("GET "+path+"/"+c.name, func(w http.ResponseWriter, r *http.Request) { answer(w, r, path, []check{c}) })
	}
}

// answer runs checks and prints them, with the reasons of those that fail; a success is
// one word unless ?verbose asks for more.
func answer(w http.ResponseWriter, r *http.Request, path string, checks []check) {
	var out strings.Builder
	healthy := true
	for _, c := range checks {
		if err := c.check(r); err != nil {
			healthy = false
			_, _ = fmt.Fprintf(&out, "[-]%s failed: %s\n", c.name, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		_, _ = fmt.Fprintf(&out, "[+]%s ok\n", c.name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := strings.TrimPrefix(path, "/")
	switch {
	case !healthy:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintf(w, "%s%s check failed\n", out.String(), name)
	case r.URL.Query().Has("verbose"):
		_, _ = fmt.Fprintf(w, "%s%s check passed\n", out.String(), name)
	default:
		_, _ = fmt.Fprint(w, "ok")
	}
}
