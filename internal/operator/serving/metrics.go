package serving

import (
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // adds rest_client_* to the registry
	_ "k8s.io/component-base/metrics/prometheus/workqueue"  // adds workqueue_*
)

// served are the prefixes of the metrics that are served. The libraries of the API server put
// their own metrics into the same registry.
var served = []string{"certwatcher_", "controller_runtime_", "fescue_", "go_", "process_", "rest_client_", "workqueue_"}

// gather collects the metrics that are served.
func gather() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return !slices.ContainsFunc(served, func(prefix string) bool { return strings.HasPrefix(f.GetName(), prefix) })
	}), err
}

// metricsHandler serves /metrics and, with profiling, /debug/pprof.
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
