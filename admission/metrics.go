package admission

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
)

// metrics have the names that controller-runtime gives them, so that its dashboards work.
type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
	panics   prometheus.Counter
	reviews  *prometheus.CounterVec
}

// newMetrics returns metrics that are not registered, so that a server can run without.
func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_requests_total",
			Help: "Reviews (admission and conversion) by HTTP status code.",
		}, []string{"webhook", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_webhook_latency_seconds", Help: "How long reviews take.",
			// From the time for a small object to the longest time that an API server waits.
			Buckets: prometheus.ExponentialBucketsRange(0.0001, 30, 20),
		}, []string{"webhook"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "controller_runtime_webhook_requests_in_flight", Help: "Reviews that are being answered.",
		}, []string{"webhook"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "controller_runtime_webhook_panics_total", Help: "Panics in webhooks, which were recovered.",
		}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fescue_admission_reviews_total", Help: "Reviews (admission and conversion) by outcome.",
		}, []string{"webhook", "outcome"}),
	}
}

// register fails if a metric of the same name is registered already.
func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.requests, m.latency, m.inFlight, m.panics, m.reviews} {
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
	outcomes map[outcome]prometheus.Counter
}

// outcome is the result of a review.
type outcome string

const (
	outcomeAllowed  outcome = "allowed" // unchanged
	outcomePatched  outcome = "patched" // allowed with a patch
	outcomeRejected outcome = "rejected"
	outcomeFailed   outcome = "failed" // no answer: the failure policy decides

	// Those of conversions; one that cannot be done counts as rejected.
	outcomeConverted  outcome = "converted"
	outcomeIncomplete outcome = "incomplete" // an object was converted without a part
)

var (
	outcomes = []outcome{outcomeAllowed, outcomePatched, outcomeRejected, outcomeFailed}
	// conversionOutcomes are those of ConvertPath.
	conversionOutcomes = []outcome{outcomeConverted, outcomeIncomplete, outcomeRejected, outcomeFailed}
)

// outcomeOf returns the outcome of a review.
func outcomeOf(response *admissionv1.AdmissionResponse) outcome {
	switch {
	case !response.Allowed:
		return outcomeRejected
	case len(response.Patch) > 0:
		return outcomePatched
	}
	return outcomeAllowed
}

// of returns the metrics of one path. It sets the counters to 0, so that rates are right from the
// first request.
func (m *metrics) of(path string) webhookMetrics {
	requests := m.requests.MustCurryWith(prometheus.Labels{"webhook": path})
	requests.WithLabelValues(strconv.Itoa(http.StatusInternalServerError))
	reviews := make(map[outcome]prometheus.Counter, len(outcomes))
	possible := outcomes
	if path == ConvertPath {
		possible = conversionOutcomes
	}
	for _, o := range possible {
		reviews[o] = m.reviews.WithLabelValues(path, string(o))
	}
	return webhookMetrics{
		outcomes: reviews,
		requests: requests,
		ok:       requests.WithLabelValues(strconv.Itoa(http.StatusOK)),
		latency:  m.latency.WithLabelValues(path),
		inFlight: m.inFlight.WithLabelValues(path),
	}
}

// observe counts an answered request. Nearly all have status code 200, so its counter needs no
// lookup.
func (m webhookMetrics) observe(code int, o outcome, took time.Duration) {
	m.outcomes[o].Inc()
	m.latency.Observe(took.Seconds())
	if code == http.StatusOK {
		m.ok.Inc()
		return
	}
	m.requests.WithLabelValues(strconv.Itoa(code)).Inc()
}
