// Package alertrules tests the alert rules in config/prometheus with Prometheus' own parser and
// engine. It is a Go module of its own, since what Prometheus depends on is no business of
// Fescue.
package alertrules

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const folder = "../../config/prometheus"

// file is one for `promtool test rules`, as far as ours needs it.
type file struct {
	RuleFiles          []string       `json:"rule_files"` // for promtool
	EvaluationInterval model.Duration `json:"evaluation_interval"`
	Tests              []struct {
		Name        string         `json:"name"`
		Interval    model.Duration `json:"interval"`
		InputSeries []struct {
			Series string `json:"series"`
			Values string `json:"values"`
		} `json:"input_series"`
		Expressions []struct {
			Expr    string         `json:"expr"`
			At      model.Duration `json:"eval_time"`
			Samples []struct {
				Labels string  `json:"labels"`
				Value  float64 `json:"value"`
			} `json:"exp_samples"`
		} `json:"promql_expr_test"`
		Alerts []struct {
			Name   string         `json:"alertname"`
			At     model.Duration `json:"eval_time"`
			Alerts []struct {
				Labels      map[string]string `json:"exp_labels"`
				Annotations map[string]string `json:"exp_annotations"`
			} `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

// alertRules are those of the PrometheusRule, checked by Prometheus' parser.
func alertRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "prometheusrule-fescue.yaml"))
	require.NoError(t, err)
	var object map[string]any
	require.NoError(t, yaml.Unmarshal(text, &object))
	spec, err := yaml.Marshal(object["spec"])
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(spec, false)
	require.Empty(t, errs)
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	require.NotEmpty(t, rules)
	return rules
}

func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(folder, "tests.yaml"))
	require.NoError(t, err)
	var f file
	require.NoError(t, yaml.UnmarshalStrict(text, &f))
	rules := alertRules(t)
	fired := make(map[string]bool)
	for _, test := range f.Tests {
		t.Run(test.Name, func(t *testing.T) {
			e := newEvaluation(rules)
			for _, input := range test.InputSeries {
				metric, values, err := parser.ParseSeriesDesc(input.Series + " " + input.Values)
				require.NoError(t, err)
				for i, value := range values {
					if !value.Omitted {
						e.append(metric, time.Duration(i)*time.Duration(test.Interval), value.Value)
					}
				}
			}
			var end model.Duration
			for _, expression := range test.Expressions {
				end = max(end, expression.At)
			}
			for _, alert := range test.Alerts {
				end = max(end, alert.At)
			}
			for now := model.Duration(0); now <= end; now += f.EvaluationInterval {
				firing := e.step(t, time.Duration(now))
				for _, a := range firing {
					fired[a.rule.Alert] = true
				}
				for _, expression := range test.Expressions {
					if expression.At != now {
						continue
					}
					expected := []string{}
					for _, sample := range expression.Samples {
						metric, err := parser.ParseMetric(sample.Labels)
						require.NoError(t, err)
						expected = append(expected, fmt.Sprint(metric, sample.Value))
					}
					require.ElementsMatch(t, expected, e.query(t, expression.Expr, time.Duration(now)), "%s at %s", expression.Expr, now)
				}
				for _, alert := range test.Alerts {
					if alert.At != now {
						continue
					}
					var expected, is []string
					for _, a := range alert.Alerts {
						expected = append(expected, fmt.Sprint(labels.FromMap(a.Labels), a.Annotations))
					}
					for _, a := range firing {
						if a.rule.Alert == alert.Name {
							is = append(is, fmt.Sprint(a.labels, a.annotations(t, time.Duration(now))))
						}
					}
					require.ElementsMatch(t, expected, is, "%s at %s", alert.Name, now)
				}
			}
		})
	}
	for _, rule := range rules {
		require.True(t, fired[rule.Alert], "no test lets %s fire", rule.Alert)
	}
}
