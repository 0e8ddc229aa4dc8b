package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/reconcile"
)

// Metrics counts what an engine does. Those that controller-runtime has too have its names,
// so that its dashboards can be used; the label controller is the kind's resource, which is
// also the name of its queue.
type Metrics struct {
	reconciles, failures, panics, timeouts, transitions *prometheus.CounterVec
	cacheWaits, liveReads, endless                      *prometheus.CounterVec
	seconds                                             *prometheus.HistogramVec
	workers, busy, waiting, objects                     *prometheus.GaugeVec
	shards                                              prometheus.Gauge
}

// NewMetrics returns the metrics of one engine, for one registry.
func NewMetrics() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{"controller"}, labels...))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			append([]string{"controller"}, labels...))
	}
	return &Metrics{
		reconciles: counter("controller_runtime_reconcile_total", "Reconciles by result.", "result"),
		failures:   counter("controller_runtime_reconcile_errors_total", "Reconciles that failed."),
		panics:     counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked."),
		timeouts:   counter("controller_runtime_reconcile_timeouts_total", "Reconciles that timed out."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long reconciles take.",
			// One without a write takes well under a millisecond, one with a few about ten.
			Buckets: []float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"controller"}),
		cacheWaits: counter("fescue_cache_waits_total",
			"Reconciles that were postponed because a cache had not seen the last write yet."),
		liveReads: counter("fescue_live_reads_total",
			"Reconciles that read from the API server because a cache did not get to see the last write."),
		endless: counter("fescue_endless_children_total",
			"Children that were not created because they lead back to their own type again and again."),
		workers: gauge("controller_runtime_max_concurrent_reconciles", "Workers."),
		busy:    gauge("controller_runtime_active_workers", "Workers that are reconciling."),
		waiting: gauge("fescue_kinds_waiting",
			"1 for a kind that is not run because something is missing, 0 for one that is run."),
		objects: gauge("fescue_objects",
			"Objects by phase; it is empty for kinds without phases and for objects that have none yet.", "phase"),
		transitions: counter("fescue_transitions_total",
			"Phases that objects entered while this replica acted on them.", "phase"),
		shards: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fescue_shards_owned",
			Help: "Shards of the objects that this replica acts on; without leader election there is one.",
		}),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.reconciles, m.failures, m.panics, m.timeouts, m.transitions, m.cacheWaits, m.liveReads, m.endless,
		m.seconds, m.workers, m.busy, m.waiting, m.objects, m.shards,
	}
}

// Describe is for the registry.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect is for the registry.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// kindMetrics counts for one controller. All those of a kind count in the same series.
type kindMetrics struct {
	*Metrics
	kind    *kind.Kind
	name    string
	workers int
	seen    *seenObjects
}

// seenObjects are the objects that one controller has counted.
type seenObjects struct {
	mu      sync.Mutex
	byPhase map[string]int
	isOver  bool
}

// forKind starts all series of a kind at 0, so that rates of what has not happened yet
// are 0 and not absent.
func (m *Metrics) forKind(k *kind.Kind, workers int) kindMetrics {
	of := kindMetrics{m, k, k.Name(), workers, &seenObjects{byPhase: make(map[string]int)}}
	for _, label := range []string{labelSuccess, labelError, labelRequeue, labelRequeueAfter} {
		m.reconciles.WithLabelValues(of.name, label)
	}
	for _, c := range []*prometheus.CounterVec{m.failures, m.panics, m.timeouts, m.cacheWaits, m.liveReads, m.endless} {
		c.WithLabelValues(of.name)
	}
	m.busy.WithLabelValues(of.name)
	m.seconds.WithLabelValues(of.name)
	m.workers.WithLabelValues(of.name).Add(float64(workers))
	for phase := range k.Phases {
		m.objects.WithLabelValues(of.name, phase)
		m.transitions.WithLabelValues(of.name, phase)
	}
	if k.Initial == "" {
		m.objects.WithLabelValues(of.name, "")
	}
	return of
}

// The results of reconciles as dashboards for controller-runtime know them.
const (
	labelSuccess      = "success"
	labelError        = "error"
	labelRequeue      = "requeue"
	labelRequeueAfter = "requeue_after"
)

// labelOf returns a result as metrics have it. A rejection counts as an error.
func labelOf(result reconcile.Result) string {
	switch result.Then {
	case reconcile.Again:
		return labelRequeue
	case reconcile.Failed, reconcile.Rejected:
		return labelError
	}
	if result.At.IsZero() && result.Recheck == 0 {
		return labelSuccess
	}
	return labelRequeueAfter
}

// reconciled counts a reconcile that began at a time and has ended now.
func (m kindMetrics) reconciled(began time.Time, result reconcile.Result) {
	m.seconds.WithLabelValues(m.name).Observe(time.Since(began).Seconds())
	label := labelOf(result)
	if label == labelError {
		m.failures.WithLabelValues(m.name).Inc()
		if errors.Is(result.Err, context.DeadlineExceeded) {
			m.timeouts.WithLabelValues(m.name).Inc()
		}
	}
	m.reconciles.WithLabelValues(m.name, label).Inc()
}

// saw follows an object from one state in the cache to the next; nil is one that does
// not exist. Its transitions are counted by the replica that acts on it.
func (m kindMetrics) saw(before, after *unstructured.Unstructured, mine bool) {
	from, existed := m.phaseOf(before)
	to, exists := m.phaseOf(after)
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	if m.seen.isOver {
		return
	}
	if existed && exists && from != to && mine {
		m.transitions.WithLabelValues(m.name, to).Inc()
	}
	if existed {
		m.objects.WithLabelValues(m.name, from).Dec()
		m.seen.byPhase[from]--
	}
	if exists {
		m.objects.WithLabelValues(m.name, to).Inc()
		m.seen.byPhase[to]++
	}
}

// end takes back what a controller that has stopped still counts.
func (m kindMetrics) end() {
	m.seen.mu.Lock()
	defer m.seen.mu.Unlock()
	m.seen.isOver = true
	m.Metrics.workers.WithLabelValues(m.name).Sub(float64(m.workers))
	for phase, n := range m.seen.byPhase {
		m.objects.WithLabelValues(m.name, phase).Sub(float64(n))
	}
}

// phaseOf returns the phase of an object, and whether it counts: one that a decorator is not for does
// not.
func (m kindMetrics) phaseOf(object *unstructured.Unstructured) (phase string, exists bool) {
	if object == nil || m.kind.Target != nil && !children.Decorates(m.kind, object) {
		return "", false
	}
	return m.kind.PhaseOf(object.Object), true
}
