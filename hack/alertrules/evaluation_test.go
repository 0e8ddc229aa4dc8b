package alertrules

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"
)

// evaluation is what a Prometheus with some rules knows.
type evaluation struct {
	rules  []rulefmt.Rule
	engine *promql.Engine
	series []*storage.SeriesEntry
	data   map[string][]chunks.Sample // by the labels of the series
	active map[string]*alert          // by rule and labels
}

// alert is one that is pending or fires.
type alert struct {
	rule   rulefmt.Rule
	labels labels.Labels // with those of the rule
	since  time.Duration
	value  float64
	seen   time.Duration
}

func newEvaluation(rules []rulefmt.Rule) *evaluation {
	return &evaluation{
		rules:  rules,
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute, LookbackDelta: 5 * time.Minute}),
		data:   make(map[string][]chunks.Sample), active: make(map[string]*alert),
	}
}

// append adds a sample, which must be newer than those that its series has.
func (e *evaluation) append(metric labels.Labels, at time.Duration, v float64) {
	key := metric.String()
	if _, known := e.data[key]; !known {
		e.series = append(e.series, &storage.SeriesEntry{Lset: metric, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			return storage.NewListSeriesIterator(samples(e.data[key]))
		}})
	}
	e.data[key] = append(e.data[key], sample{at.Milliseconds(), v})
}

// step evaluates all rules at a time, and returns the alerts that fire then.
func (e *evaluation) step(t *testing.T, now time.Duration) (firing []*alert) {
	t.Helper()
	for _, rule := range e.rules {
		for _, s := range e.vector(t, rule.Expr, now) {
			b := labels.NewBuilder(s.Metric).Del(labels.MetricName)
			for name, text := range rule.Labels {
				b.Set(name, text)
			}
			a := &alert{rule: rule, labels: b.Labels(), since: now}
			key := rule.Alert + a.labels.String()
			if known := e.active[key]; known != nil {
				a.since = known.since
			}
			a.value, a.seen = s.F, now
			e.active[key] = a
		}
	}
	for key, a := range e.active {
		fires := now-a.since >= time.Duration(a.rule.For)
		switch {
		case a.seen != now:
			e.append(a.metric("pending"), now, math.Float64frombits(value.StaleNaN))
			e.append(a.metric("firing"), now, math.Float64frombits(value.StaleNaN))
			delete(e.active, key)
		case fires:
			e.append(a.metric("pending"), now, math.Float64frombits(value.StaleNaN))
			e.append(a.metric("firing"), now, 1)
			firing = append(firing, a)
		default:
			e.append(a.metric("pending"), now, 1)
		}
	}
	return firing
}

// metric is the series by which Prometheus shows an alert.
func (a *alert) metric(state string) labels.Labels {
	return labels.NewBuilder(a.labels).Set(labels.MetricName, "ALERTS").Set(labels.AlertName, a.rule.Alert).Set("alertstate", state).Labels()
}

// annotations are those of the rule with the labels filled in.
func (a *alert) annotations(t *testing.T, now time.Duration) map[string]string {
	t.Helper()
	filled := make(map[string]string)
	data := template.AlertTemplateData(a.labels.Map(), nil, "", promql.Sample{F: a.value})
	for name, text := range a.rule.Annotations {
		expander := template.NewTemplateExpander(t.Context(), "{{$labels := .Labels}}{{$value := .Value}}"+text, name, data, model.Time(now.Milliseconds()), nil, nil, nil)
		var err error
		filled[name], err = expander.Expand()
		require.NoError(t, err)
	}
	return filled
}

// query evaluates an expression and prints what it gives.
func (e *evaluation) query(t *testing.T, expr string, at time.Duration) []string {
	t.Helper()
	printed := []string{}
	for _, s := range e.vector(t, expr, at) {
		printed = append(printed, fmt.Sprint(s.Metric, s.F))
	}
	return printed
}

func (e *evaluation) vector(t *testing.T, expr string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := e.engine.NewInstantQuery(t.Context(), &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: e.find}}, nil, expr, time.UnixMilli(at.Milliseconds()))
	require.NoError(t, err)
	defer query.Close()
	result := query.Exec(t.Context())
	require.Empty(t, result.Warnings)
	vector, err := result.Vector()
	require.NoError(t, err, expr)
	return slices.Clone(vector)
}

// find is the storage's part of a query.
func (e *evaluation) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{at: -1}
	for _, s := range e.series {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Lset.Get(m.Name)) }) {
			found.list = append(found.list, s)
		}
	}
	slices.SortFunc(found.list, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}

type seriesSet struct {
	list []storage.Series
	at   int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.list) }
func (s *seriesSet) At() storage.Series                { return s.list[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

type samples []chunks.Sample

func (s samples) Get(i int) chunks.Sample { return s[i] }
func (s samples) Len() int                { return len(s) }

type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
