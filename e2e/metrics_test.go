package e2e

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// scrape returns the metrics of an operator.
func (o *process) scrape() map[string]*dto.MetricFamily {
	o.t.Helper()
	code, body := get(o.t, o.address("--metrics-listen")+"/metrics")
	require.Equal(o.t, http.StatusOK, code)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(o.t, err)
	return families
}

// sample returns the value of the series of a family with these labels.
func sample(t *testing.T, families map[string]*dto.MetricFamily, name string, labels map[string]string) float64 {
	t.Helper()
	require.Contains(t, families, name)
	for _, metric := range families[name].GetMetric() {
		matching := 0
		for _, label := range metric.GetLabel() {
			if value, ok := labels[label.GetName()]; ok && value == label.GetValue() {
				matching++
			}
		}
		if matching == len(labels) {
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	require.FailNow(t, "no such series", "%s%v", name, labels)
	return 0
}

// documented returns the names in the tables of docs/reference/metrics.md by the heading above them.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/reference/metrics.md")
	require.NoError(t, err)
	names, heading := make(map[string][]string), ""
	for line := range strings.Lines(string(text)) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(h)
		}
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			names[heading] = append(names[heading], name)
		}
	}
	require.ElementsMatch(t, []string{headingAlways, headingWebhooks, headingOnce}, slices.Collect(maps.Keys(names)))
	return names
}

const (
	headingAlways   = "Always"
	headingWebhooks = "With webhooks"
	headingOnce     = "Only after the event"
)

// requireDocumented checks that all metrics are documented, and that all documented metrics exist:
// those that always exist, and those that flags turn on, which have the headings.
func requireDocumented(t *testing.T, families map[string]*dto.MetricFamily, headings ...string) {
	t.Helper()
	names := documented(t)
	expected := slices.Clone(names[headingAlways])
	for _, heading := range headings {
		expected = append(expected, names[heading]...)
	}
	for name := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // of the Go client, as the page explains
		}
		require.Contains(t, append(names[headingOnce], expected...), name, "is not in docs/reference/metrics.md")
	}
	for _, name := range expected {
		require.Contains(t, families, name, "docs/reference/metrics.md has it")
	}
}

func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--metrics-listen", "127.0.0.1:0", "--leader-elect")
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")
	const controller = "ats.cnat.fescue.dev"
	var families map[string]*dto.MetricFamily
	require.Eventually(t, func() bool { // the cache is updated a little later
		families = o.scrape()
		return sample(t, families, "fescue_objects", map[string]string{"controller": controller, "phase": "DONE"}) == 1
	}, testcluster.Timeout, testcluster.Poll)

	requireDocumented(t, families)
	transitions := func(phase string) float64 {
		return sample(t, families, "fescue_transitions_total", map[string]string{"controller": controller, "phase": phase})
	}
	require.InDelta(t, 1, transitions("DONE"), 0)
	// These may be skipped when a watch breaks, for example because another test changes a CRD.
	require.LessOrEqual(t, transitions("PENDING"), 1.0)
	require.LessOrEqual(t, transitions("RUNNING"), 1.0)
	require.LessOrEqual(t, 3.0, sample(t, families, "fescue_decisions_total", map[string]string{"controller": controller, "result": "made"}), "one for each phase")
	require.InDelta(t, 0, sample(t, families, "fescue_decisions_total", map[string]string{"controller": controller, "result": "failed"}), 0)
	require.InDelta(t, 32, sample(t, families, "controller_runtime_max_concurrent_reconciles", map[string]string{"controller": controller}), 0)
	require.Positive(t, sample(t, families, "controller_runtime_reconcile_total", map[string]string{"controller": controller, "result": "success"})+
		sample(t, families, "controller_runtime_reconcile_total", map[string]string{"controller": controller, "result": "requeue_after"}), "the record of the Pod may be due later")
	require.Positive(t, sample(t, families, "controller_runtime_reconcile_time_seconds", map[string]string{"controller": controller}))
	require.Positive(t, sample(t, families, "workqueue_adds_total", map[string]string{"name": controller}))
	require.Positive(t, sample(t, families, "rest_client_requests_total", map[string]string{"method": "POST", "code": "201"}))
	require.InDelta(t, 0, sample(t, families, "fescue_kinds_waiting", map[string]string{"controller": controller}), 0)

	code, _ := get(t, o.address("--metrics-listen")+"/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code, "profiling is off by default")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--metrics-listen", "127.0.0.1:0", "--profiling")
	for path, want := range map[string]string{
		"/healthz":        "ok",
		"/readyz":         "ok",
		"/readyz?verbose": "[+]ping ok\n[+]kinds ok\n[+]caches ok\nreadyz check passed\n",
		"/readyz/caches":  "ok",
		"/livez?verbose":  "[+]ping ok\n[+]workers ok\n[+]leader-election ok\nlivez check passed\n",
		"/livez/workers":  "ok",
	} {
		code, body := get(t, o.address("--health-listen")+path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, want, body, path)
	}
	code, _ := get(t, o.address("--metrics-listen")+"/debug/pprof/")
	require.Equal(t, http.StatusOK, code)
}

func TestAlertsAndDashboardUseDocumentedMetrics(t *testing.T) {
	t.Parallel()
	names := slices.Concat(slices.Collect(maps.Values(documented(t)))...)
	pattern := regexp.MustCompile(`\b(?:fescue|controller_runtime|workqueue|rest_client)_[a-z_]+`)
	for _, file := range []string{"prometheusrule-fescue.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("..", "config", "prometheus", file))
		require.NoError(t, err)
		used := pattern.FindAllString(string(text), -1)
		require.NotEmpty(t, used)
		for _, name := range used {
			require.Contains(t, names, strings.TrimSuffix(name, "_bucket"), file)
		}
	}
}
