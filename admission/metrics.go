package admission

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have the names that controller-runtime gives them, so that its dashboards work.
type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	panics   prometheus.Counter
}

// newMetrics makes the metrics without registering them, so that a server can do without.
func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total", Help: "Admission requests by HTTP status code.",
		}, []string{"webhook", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_webhook_latency_seconds", Help: "How long admission requests take.",
			// From what a small object takes to the longest that an API server waits.
			Buckets: prometheus.ExponentialBucketsRange(0.0001, 30, 20),
		}, []string{"webhook"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight", Help: "Admission requests that are being answered.",
		}, []string{"webhook"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_panics_total", Help: "Panics in webhooks, which were recovered.",
		}),
	}
}

// register fails if a metric of the same name is registered already.
func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.inFlight, m.panics} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// webhookMetrics are those of one path.
type webhookMetrics struct {
	requests *prometheus.CounterVec
	ok       prometheus.Counter
	latency  prometheus.Observer
	inFlight prometheus.Gauge
}

// of also sets the counters to 0, so that rates are right from the first request on.
func (m *metrics) of(path string) webhookMetrics {
	requests := m.requests.MustCurryWith(prometheus.Labels{"webhook": path})
	requests.WithLabelValues(strconv.Itoa(http.StatusInternalServerError))
	return webhookMetrics{
		requests: requests,
		ok:       requests.WithLabelValues(strconv.Itoa(http.StatusOK)),
		latency:  m.latency.WithLabelValues(path),
		inFlight: m.inFlight.WithLabelValues(path),
	}
}

// observe counts an answered request. Nearly all have status code 200, whose counter is
// not looked up.
func (m webhookMetrics) observe(code int, took time.Duration) {
	m.latency.Observe(took.Seconds())
	if code == http.StatusOK {
		m.ok.Inc()
		return
	}
	m.requests.WithLabelValues(strconv.Itoa(code)).Inc()
}
