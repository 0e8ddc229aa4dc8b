package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fescue-dev/fescue/cue/kind"
)

var (
	decisionsDesc = prometheus.NewDesc("fescue_decisions_total", "Times that a kind was asked what to do for an object, by result.", []string{"controller", "result"}, nil)
	fallbacksDesc = prometheus.NewDesc("fescue_evaluator_fallbacks_total", "Objects that the CUE evaluator checked because the compiled schema does not cover them.", []string{"controller"}, nil)
)

// kindMetrics shows how often kinds were asked, by the engine and by the webhooks together.
type kindMetrics []*kind.Kind

// Describe is for the registry.
func (m kindMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- decisionsDesc
	to <- fallbacksDesc
}

// Collect is for the registry.
func (m kindMetrics) Collect(to chan<- prometheus.Metric) {
	for _, k := range m {
		counts, name := k.Counts(), k.Name()
		to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(counts.Decisions), name, "made")
		to <- prometheus.MustNewConstMetric(decisionsDesc, prometheus.CounterValue, float64(counts.Failures), name, "failed")
		to <- prometheus.MustNewConstMetric(fallbacksDesc, prometheus.CounterValue, float64(counts.Fallbacks), name)
	}
}
