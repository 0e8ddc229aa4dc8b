package operator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fescue-dev/fescue/cue/kind"
)

var decisionsDesc = prometheus.NewDesc("fescue_decisions_total",
	"Evaluations of a kind's behaviour for an object, by result.", []string{"controller", "result"}, nil)

// kindMetrics returns the kinds whose evaluations are counted, by the engine and the webhooks
// together.
type kindMetrics func() []*kind.Kind

// Describe implements prometheus.Collector.
func (m kindMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- decisionsDesc
}

// Collect implements prometheus.Collector.
func (m kindMetrics) Collect(to chan<- prometheus.Metric) {
	for _, k := range m() {
		counts, name := k.Counts(), k.Name()
		to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(counts.Decisions), name,
			"made")
		to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(counts.Failures), name,
			"failed")
	}
}
