package admission

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// injectionMetrics count injections by their result. The label controller is the name
// of the kind, as in the metrics of the engine.
type injectionMetrics struct {
	injections, skips *prometheus.CounterVec
	names             map[schema.GroupKind]string // of the kinds that inject
}

// newInjectionMetrics returns metrics in which all series of the kinds that inject start at 0.
func newInjectionMetrics(kinds []*kind.Kind) *injectionMetrics {
	m := &injectionMetrics{
		injections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fescue_injections_total", Help: "Injections of one object into one Pod.",
		}, []string{"controller"}),
		skips: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fescue_injection_skips_total", Help: "Injections that Pods asked for and did not get, by reason.",
		}, []string{"controller", "reason"}),
		names: make(map[schema.GroupKind]string),
	}
	for _, k := range kinds {
		if !k.Injects() {
			continue
		}
		name := k.Name()
		m.names[k.GroupVersionKind.GroupKind()] = name
		m.injections.WithLabelValues(name)
		for _, reason := range inject.SkipReasons {
			m.skips.WithLabelValues(name, string(reason))
		}
	}
	return m
}

func (m *injectionMetrics) register(r prometheus.Registerer) error {
	if err := r.Register(m.injections); err != nil {
		return err
	}
	return r.Register(m.skips)
}

// count counts the injections that one Pod asked for.
func (m *injectionMetrics) count(outcomes []inject.Outcome) {
	for _, o := range outcomes {
		if o.Reason == inject.Injected {
			m.injections.WithLabelValues(m.names[o.Kind]).Inc()
			continue
		}
		m.skips.WithLabelValues(m.names[o.Kind], string(o.Reason)).Inc()
	}
}
