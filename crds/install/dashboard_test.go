package install

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

const docs = "../../docs"

// grafana is what Grafana's importer reads of a dashboard, as far as ours has it; any other field is an error.
type grafana struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Refresh       string `json:"refresh"`
	Tags          []string
	Time          struct{ From, To string }
	Templating    struct {
		List []struct{ Name, Type, Query, Label string }
	}
	Panels []struct {
		ID          int `json:"id"`
		Type, Title string
		Datasource  struct{ Type, UID string }
		GridPos     struct{ X, Y, W, H int }
		FieldConfig struct {
			Defaults  struct{ Unit string }
			Overrides []any
		}
		Targets []struct {
			RefID              string `json:"refId"`
			Expr, LegendFormat string
			Datasource         struct{ Type, UID string }
		}
	}
}

// units are those of Grafana that the dashboard has: numbers, operations per second, seconds and bytes.
var units = []string{"short", "ops", "s", "bytes"}

// Grafana can import the dashboard: panels are told apart and do not overlap, and each asks the data source that the user chooses.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var d grafana
	decoder := json.NewDecoder(strings.NewReader(string(read(t, "dashboard.json"))))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&d))
	require.NotEmpty(t, d.Title)
	require.Regexp(t, `^[a-zA-Z0-9_-]{1,40}$`, d.UID)
	require.GreaterOrEqual(t, d.SchemaVersion, 36, "data sources are objects since then")
	require.Len(t, d.Templating.List, 1)
	source := d.Templating.List[0]
	require.Equal(t, "datasource", source.Type)
	require.Equal(t, "prometheus", source.Query)

	const wide = 24
	ids, taken := sets.New[int](), sets.New[[2]int]()
	require.NotEmpty(t, d.Panels)
	for _, p := range d.Panels {
		require.NotEmpty(t, p.Title)
		require.False(t, ids.Has(p.ID), p.Title)
		ids.Insert(p.ID)
		require.Equal(t, "timeseries", p.Type, p.Title)
		require.Contains(t, units, p.FieldConfig.Defaults.Unit, p.Title)
		require.Positive(t, p.GridPos.W*p.GridPos.H, p.Title)
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, wide, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.False(t, taken.Has(place), p.Title)
				taken.Insert(place)
			}
		}
		require.Len(t, p.Targets, 1, p.Title)
		for _, of := range []struct{ Type, UID string }{p.Datasource, p.Targets[0].Datasource} {
			require.Equal(t, struct{ Type, UID string }{"prometheus", "${" + source.Name + "}"}, of, p.Title)
		}
		require.NotEmpty(t, p.Targets[0].RefID, p.Title)
		for _, label := range regexp.MustCompile(`\{\{(.*?)\}\}`).FindAllStringSubmatch(p.Targets[0].LegendFormat, -1) {
			require.Regexp(t, `^\w+$`, label[1], p.Title)
		}
	}
}

// queries returns the queries of the dashboard, of the alerts and of docs/operate/monitoring.md, by where they stand.
func queries(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, p := range panels {
		all["panel "+p.title] = p.expr
	}
	for _, a := range alerts(Options{Namespace: DefaultNamespace}) {
		all["alert "+a.name] = a.expr
	}
	page := monitoringPage(t)
	_, objectives, _ := strings.Cut(page, "\n## Objectives\n")
	objectives, _, _ = strings.Cut(objectives, "\n## ")
	blocks := regexp.MustCompile(`(?m)^    (\S.*)$`).FindAllStringSubmatch(objectives, -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		all["objective "+block[1]] = block[1]
	}
	return all
}

func monitoringPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "operate/monitoring.md"))
	require.NoError(t, err)
	return string(text)
}

var (
	metricRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (counter|gauge|histogram)")
	// quoted, selected and ranged match the parts of a query that name no metric.
	quoted   = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	word     = regexp.MustCompile(`\b[a-zA-Z_:][\w:]*\b`)
	keywords = regexp.MustCompile(`^(and|or|unless|bool|offset|sum|min|max|avg|count|rate|increase|deriv|absent|time|histogram_quantile|avg_over_time)$`)
	suffixes = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// metricsOf returns the metrics that a query names.
func metricsOf(query string) []string {
	query = grouping.ReplaceAllString(quoted.ReplaceAllString(query, ""), "")
	return slices.DeleteFunc(word.FindAllString(query, -1), keywords.MatchString)
}

// Each metric of the dashboard, of the alerts and of the objectives is one that docs/reference/metrics.md describes.
func TestQueriesNameMetrics(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(docs, "reference", "metrics.md"))
	require.NoError(t, err)
	types := make(map[string]string)
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		types[row[1]] = row[2]
	}
	require.Contains(t, types, "fescue_objects")
	for where, query := range queries(t) {
		found := metricsOf(query)
		require.NotEmpty(t, found, where)
		for _, name := range found {
			if name == "up" || strings.HasPrefix(name, "process_") { // Prometheus' own, and those of its client library
				continue
			}
			base := suffixes.ReplaceAllString(name, "")
			if types[base] == "histogram" {
				require.NotEqual(t, base, name, "%s: a histogram has no value of its own", where)
				continue
			}
			require.Contains(t, types, name, where)
			if types[name] == "counter" {
				require.Regexp(t, `(rate|increase)\(`+name+`\b`, query, "%s: a counter is read as a rate", where)
			}
		}
	}
}

// Prometheus' own tool can parse all queries.
func TestQueriesAreValid(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	var rules []any
	for where, query := range queries(t) {
		rules = append(rules, map[string]any{"record": "fescue:query", "expr": query, "labels": map[string]any{"at": where}})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": rules}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	output, err := exec.CommandContext(t.Context(), tool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// docs/operate/monitoring.md lists the panels in their order, and the alerts with their severities.
func TestMonitoringPage(t *testing.T) {
	t.Parallel()
	page := monitoringPage(t)
	var titles, shown []string
	for _, p := range panels {
		titles = append(titles, p.title)
	}
	_, dashboard, _ := strings.Cut(page, "\n## Dashboard\n")
	dashboard, _, _ = strings.Cut(dashboard, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(dashboard, -1) {
		shown = append(shown, row[1])
	}
	require.Equal(t, append([]string{"panel"}, titles...), shown)
	listed, defined := make(map[string]string), make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(Fescue\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(page, -1) {
		listed[row[1]] = row[2]
	}
	for _, a := range alerts(Options{Namespace: DefaultNamespace}) {
		defined[a.name] = a.severity
	}
	require.Equal(t, defined, listed)
}
