package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// address is where an operator listens for what a flag says, by its log.
func (o *operator) address(flag string) string {
	o.t.Helper()
	pattern := regexp.MustCompile(`msg=listening flag=` + flag + ` address=(\S+)`)
	var found []string
	require.Eventually(o.t, func() bool {
		found = pattern.FindStringSubmatch(o.log.String())
		return found != nil
	}, timeout, poll)
	return "http://" + found[1]
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func (o *operator) scrape() map[string]*dto.MetricFamily {
	o.t.Helper()
	code, body := get(o.t, o.address("--metrics-listen")+"/metrics")
	require.Equal(o.t, http.StatusOK, code)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(o.t, err)
	return families
}

// sample is the value of the one series of a family that has all labels.
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

// documented are the names in the tables of docs/metrics.md; those of the second kind
// are there only once something has happened.
func documented(t *testing.T) (always, sometimes map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("docs/metrics.md")
	require.NoError(t, err)
	always, sometimes = make(map[string]bool), make(map[string]bool)
	into := always
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "## ") {
			into = always
			if strings.Contains(line, "once") {
				into = sometimes
			}
		}
		if name, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			into[name] = true
		}
	}
	require.NotEmpty(t, always)
	return always, sometimes
}

func TestMetricsAreThoseThatAreDocumented(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--metrics-listen", "127.0.0.1:0", "--leader-elect")
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")
	const controller = "ats.cnat.fescue.dev"
	var families map[string]*dto.MetricFamily
	require.Eventually(t, func() bool { // the cache follows a little later
		families = o.scrape()
		return sample(t, families, "fescue_objects", map[string]string{"controller": controller, "phase": "DONE"}) == 1
	}, timeout, poll)

	always, sometimes := documented(t)
	for name := range families {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue // the page says where those are from
		}
		require.True(t, always[name] || sometimes[name], "%s is not in docs/metrics.md", name)
	}
	for name := range always {
		require.Contains(t, families, name, "docs/metrics.md says that it is always there")
	}
	transitions := func(phase string) float64 {
		return sample(t, families, "fescue_transitions_total", map[string]string{"controller": controller, "phase": phase})
	}
	require.InDelta(t, 1, transitions("DONE"), 0)
	// A watch that breaks, as when a CRD is changed beside this test, may skip these.
	require.LessOrEqual(t, transitions("PENDING"), 1.0)
	require.LessOrEqual(t, transitions("RUNNING"), 1.0)
	require.InDelta(t, 4, sample(t, families, "controller_runtime_max_concurrent_reconciles", map[string]string{"controller": controller}), 0)
	require.Positive(t, sample(t, families, "controller_runtime_reconcile_total", map[string]string{"controller": controller, "result": "success"}))
	require.Positive(t, sample(t, families, "controller_runtime_reconcile_time_seconds", map[string]string{"controller": controller}))
	require.Positive(t, sample(t, families, "workqueue_adds_total", map[string]string{"name": controller}))
	require.Positive(t, sample(t, families, "rest_client_requests_total", map[string]string{"method": "PATCH", "code": "201"}))
	require.InDelta(t, 1, sample(t, families, "leader_election_master_status", map[string]string{"name": "fescue"}), 0)
	require.InDelta(t, 0, sample(t, families, "fescue_kinds_waiting", map[string]string{"controller": controller}), 0)

	code, _ := get(t, o.address("--metrics-listen")+"/debug/pprof/")
	require.Equal(t, http.StatusNotFound, code, "profiling is off unless asked for")
}

func TestHealth(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--health-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--profiling")
	o.awaitLog("kind=At group=cnat.fescue.dev workers=")
	o.awaitLog("kind=Watcher group=watch.fescue.dev workers=")
	o.awaitLog("kind=Customcluster group=samplecontroller.fescue.dev workers=")
	for path, want := range map[string]string{
		"/healthz":                "ok",
		"/readyz":                 "ok",
		"/readyz?verbose":         "[+]ping ok\n[+]caches ok\nreadyz check passed\n",
		"/readyz/caches":          "ok",
		"/livez?verbose":          "[+]ping ok\n[+]workers ok\n[+]leader-election ok\nlivez check passed\n",
		"/livez/workers?verbose=": "[+]workers ok\nlivez check passed\n",
	} {
		code, body := get(t, o.address("--health-listen")+path)
		require.Equal(t, http.StatusOK, code, path)
		require.Equal(t, want, body, path)
	}
	code, _ := get(t, o.address("--metrics-listen")+"/debug/pprof/")
	require.Equal(t, http.StatusOK, code)
}

// A check that fails is named with its reason, and the others are still run.
func TestFailedChecksAreNamed(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	addChecks(mux, "/readyz",
		check{"caches", func(*http.Request) error {
			return errors.Join(errors.New("a is not filled"), errors.New("b is not filled"))
		}},
		check{"certificate", func(*http.Request) error { return nil }})
	recorder := httptest.NewRecorder()
	mux.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
	require.Equal(t, http.StatusServiceUnavailable, recorder.Code)
	require.Equal(t, "[+]ping ok\n[-]caches failed: a is not filled; b is not filled\n[+]certificate ok\nreadyz check failed\n", recorder.Body.String())
}

// What alerts and the dashboard ask for is there.
func TestAlertsAndDashboardUseDocumentedMetrics(t *testing.T) {
	t.Parallel()
	always, sometimes := documented(t)
	pattern := regexp.MustCompile(`\b(?:fescue|controller_runtime|workqueue|rest_client|leader_election)_[a-z_]+`)
	for _, file := range []string{"prometheusrule-fescue.yaml", "dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("config", "prometheus", file))
		require.NoError(t, err)
		names := pattern.FindAllString(string(text), -1)
		require.NotEmpty(t, names)
		for _, name := range names {
			name = strings.TrimSuffix(name, "_bucket")
			require.True(t, always[name] || sometimes[name], "%s: %s", file, name)
		}
	}
}
