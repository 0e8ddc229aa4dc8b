package operator

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/internal/informers"
)

// countWatchFailures returns a function that counts and logs each failure to list or watch a
// resource.
func countWatchFailures(log *slog.Logger) informers.Failed {
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fescue_watch_failures_total", Help: "Lists and watches of a resource that failed and are retried.",
	}, []string{"resource"})
	legacyregistry.RawMustRegister(failures)
	return func(resource schema.GroupResource, err error) {
		failures.WithLabelValues(resource.String()).Inc()
		log.Warn("watch failed; retrying", "resource", resource.String(), "error", err)
	}
}
