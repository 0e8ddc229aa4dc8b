package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// config is the folder that `make generate` writes to, with the tests of its alerts.
const config = "../../config/prometheus"

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(config, file))
	require.NoError(t, err)
	return text
}

// promtool returns the machine's, or the one that hack/promtool.sh has fetched.
func promtool(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"promtool", "../../.devcluster/bin/promtool"} {
		if path, err := exec.LookPath(name); err == nil {
			path, err = filepath.Abs(path)
			require.NoError(t, err)
			return path
		}
	}
	t.Skip("promtool is not here, and hack/promtool.sh could not fetch it")
	return ""
}

// Prometheus' own tool accepts the alert rules, and each fires when it should.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	var rule struct{ Spec any }
	require.NoError(t, yaml.Unmarshal(read(t, "prometheusrule-fescue.yaml"), &rule))
	rules, err := yaml.Marshal(rule.Spec)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), rules, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tests.yaml"), read(t, "tests.yaml"), 0o600))
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "rules.yaml"}, {"test", "rules", "tests.yaml"}} {
		command := exec.CommandContext(t.Context(), tool, args...)
		command.Dir = dir
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
}

// alertName returns the alert that a sample of ALERTS belongs to.
var alertName = regexp.MustCompile(`^ALERTS\{.*alertname="(\w+)"`)

func TestEachAlertIsTested(t *testing.T) {
	t.Parallel()
	var rule struct {
		Spec struct {
			Groups []struct{ Rules []struct{ Alert string } }
		}
	}
	require.NoError(t, yaml.Unmarshal(read(t, "prometheusrule-fescue.yaml"), &rule))
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string           `json:"alertname"`
				Expected []map[string]any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
			Expressions []struct {
				Expected []struct{ Labels string } `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(read(t, "tests.yaml"), &file))
	alerts, fired := sets.New[string](), sets.New[string]()
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			alerts.Insert(r.Alert)
		}
	}
	for _, test := range file.Tests {
		for _, alert := range test.Alerts {
			if len(alert.Expected) > 0 {
				fired.Insert(alert.Name)
			}
		}
		for _, expression := range test.Expressions {
			for _, sample := range expression.Expected {
				if name := alertName.FindStringSubmatch(sample.Labels); name != nil {
					fired.Insert(name[1])
				}
			}
		}
	}
	require.NotEmpty(t, alerts)
	require.Equal(t, alerts, fired)
}
