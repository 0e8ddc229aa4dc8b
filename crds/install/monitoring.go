package install

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// monitoringObjects are for the Prometheus operator, whose Go types are not worth a
// dependency.
func monitoringObjects(o Options) []runtime.Object {
	return []runtime.Object{
		monitoringObject(o, "ServiceMonitor", map[string]any{
			"selector":  map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": name, "app.kubernetes.io/component": "metrics"}},
			"endpoints": []any{metricsEndpoint(o)},
		}),
		monitoringObject(o, "PrometheusRule", map[string]any{
			"groups": []any{map[string]any{"name": name, "rules": alertRules(o)}},
		}),
	}
}

func monitoringObject(o Options, kind string, spec map[string]any) runtime.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": kind,
		"metadata": map[string]any{"name": name, "namespace": o.Namespace, "labels": map[string]any{"app.kubernetes.io/name": name}},
		"spec":     spec,
	}}
}

// alert is one alert rule.
type alert struct{ name, expr, after, severity, summary, description string }

// alerts are for an installation.
func alerts(o Options) []alert {
	return []alert{
		{"FescueDown",
			fmt.Sprintf(`absent(up{job="fescue-metrics",namespace=%q} == 1)`, o.Namespace),
			"5m", "critical", "No replica of Fescue is up.",
			"Objects are not reconciled until one is."},
		{"FescueHasNoLeader",
			fmt.Sprintf(`sum(fescue_shards_owned{job="fescue-metrics",namespace=%q}) < %d`, o.Namespace, max(1, o.Shards)),
			"2m", "critical", "Some or all objects have no replica of Fescue that reconciles them.",
			"See the Leases fescue… and the logs of the replicas."},
		{"FescueKindNotRun",
			`max by (controller) (fescue_kinds_waiting) > 0`,
			"10m", "warning", "The kind {{ $labels.controller }} is not running.",
			"Its CRD, a right or the type of a decorator's targets is missing, or its CRD belongs to another version of it; /readyz?verbose and the log of the operator show the reason."},
		// A watch that fails is retried at least every 8 seconds; an API server that restarts takes less than 5 minutes.
		{"FescueWatchesFail",
			`sum by (resource) (increase(fescue_watch_failures_total{job="fescue-metrics"}[5m])) > 10`,
			"5m", "warning", "Fescue cannot watch {{ $labels.resource }}.",
			"A right is missing or the API server does not answer; the log of the operator shows the reason. Until then, changes of these objects are not noticed."},
		{"FescueReconcilesFail",
			`sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="fescue-metrics"}[10m])) / ` +
				`sum by (controller) (rate(controller_runtime_reconcile_total{job="fescue-metrics"}[10m])) > 0.1`,
			"15m", "warning", "More than a tenth of the reconciles of {{ $labels.controller }} fail.",
			"The log of the operator shows the reason for each object."},
		{"FescueReconcilePanicked",
			`increase(controller_runtime_reconcile_panics_total{job="fescue-metrics"}[10m]) > 0`,
			"0m", "warning", "A reconcile of {{ $labels.controller }} panicked.",
			"This is a bug in Fescue; its log has the stack."},
		{"FescueDecisionsFail",
			`sum by (controller) (increase(fescue_decisions_total{job="fescue-metrics",result="failed"}[10m])) > 0`,
			"0m", "warning", "The controller of {{ $labels.controller }} cannot be evaluated for some objects.",
			"fescue status lists them; their condition Stalled shows where the error is in the kind."},
		{"FescueQueueGrows",
			`workqueue_depth{job="fescue-metrics"} > 100 and deriv(workqueue_depth{job="fescue-metrics"}[10m]) > 0`,
			"15m", "warning", "The queue of {{ $labels.name }} grows.",
			"Objects change faster than the workers can reconcile them; see --workers."},
		{"FescueWorkerStuck",
			`workqueue_longest_running_processor_seconds{job="fescue-metrics"} > 120`,
			"1m", "warning", "A worker of {{ $labels.name }} is stuck.",
			"A reconcile times out after a minute; the liveness probe restarts the replica."},
		{"FescueWebhookFails",
			`sum by (webhook) (rate(controller_runtime_webhook_requests_total{job="fescue-metrics",code=~"429|5.."}[5m])) > 0`,
			"5m", "critical", "The webhook {{ $labels.webhook }} fails.",
			"Objects of the kinds cannot be created or changed, and Pods are created without injection; the log of the operator shows the reason."},
		{"FescueInjectionsSkipped",
			`sum by (controller, reason) (increase(fescue_injection_skips_total{job="fescue-metrics",reason=~"Conflict|Forbidden|Incomplete|Invalid|NotFound|PodSecurity|Stalled|TooLarge|TooMany|Unavailable"}[10m])) > 0`,
			"0m", "info", "Pods were not injected by {{ $labels.controller }}: {{ $labels.reason }}.",
			"See the annotation fescue.dev/injected of the Pods and the condition Injected of the objects."},
		// Fescue's own certificate has a third of its time left when it is renewed, and so do those of cert-manager.
		{"FescueCertificateExpires",
			`min by (pod) (fescue_certificate_expiry_timestamp_seconds{job="fescue-metrics"}) - time() < ` +
				`0.1 * (min by (pod) (fescue_certificate_expiry_timestamp_seconds{job="fescue-metrics"}) - min by (pod) (fescue_certificate_start_timestamp_seconds{job="fescue-metrics"}))`,
			"15m", "critical", "The certificate of the webhooks has less than a tenth of its lifetime left.",
			"It was not renewed; the log of the operator or the status of cert-manager shows the reason."},
	}
}

func alertRules(o Options) []any {
	var rules []any
	for _, a := range alerts(o) {
		rules = append(rules, map[string]any{
			"alert": a.name, "expr": a.expr, "for": a.after,
			"labels":      map[string]any{"severity": a.severity},
			"annotations": map[string]any{"summary": a.summary, "description": a.description},
		})
	}
	return rules
}

// panel is one graph of the dashboard.
type panel struct{ title, expr, legend, unit string }

var panels = []panel{
	{"Objects by phase", `sum by (controller, phase) (fescue_objects{job="fescue-metrics"} and on (instance) (fescue_shards_owned > 0))`, "{{controller}} {{phase}}", "short"},
	{"Transitions per second", `sum by (controller, phase) (rate(fescue_transitions_total[5m]))`, "{{controller}} {{phase}}", "ops"},
	{"Reconciles per second by result", `sum by (controller, result) (rate(controller_runtime_reconcile_total{job="fescue-metrics"}[5m]))`, "{{controller}} {{result}}", "ops"},
	{"Duration of a reconcile, 99 %", `histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{job="fescue-metrics"}[5m])))`, "{{controller}}", "s"},
	{"Busy workers", `sum by (controller) (controller_runtime_active_workers{job="fescue-metrics"})`, "{{controller}}", "short"},
	{"Queue depth", `max by (name) (workqueue_depth{job="fescue-metrics"})`, "{{name}}", "short"},
	{"Wait in the queue, 99 %", `histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket{job="fescue-metrics"}[5m])))`, "{{name}}", "s"},
	{"Requests to the API server per second", `sum by (method, code) (rate(rest_client_requests_total{job="fescue-metrics"}[5m]))`, "{{method}} {{code}}", "ops"},
	{"Decisions per second by result", `sum by (controller, result) (rate(fescue_decisions_total{job="fescue-metrics"}[5m]))`, "{{controller}} {{result}}", "ops"},
	{"Admission reviews per second by outcome", `sum by (webhook, outcome) (rate(fescue_admission_reviews_total{job="fescue-metrics"}[5m]))`, "{{webhook}} {{outcome}}", "ops"},
	{"Duration of an admission review, 99 %", `histogram_quantile(0.99, sum by (webhook, le) (rate(controller_runtime_webhook_latency_seconds_bucket{job="fescue-metrics"}[5m])))`, "{{webhook}}", "s"},
	{"Injections per second", `sum by (controller) (rate(fescue_injections_total{job="fescue-metrics"}[5m]))`, "{{controller}}", "ops"},
	{"Skipped injections per second", `sum by (controller, reason) (rate(fescue_injection_skips_total{job="fescue-metrics"}[5m]))`, "{{controller}} {{reason}}", "ops"},
	{"Remaining time of the webhooks' certificate", `min by (pod) (fescue_certificate_expiry_timestamp_seconds{job="fescue-metrics"}) - time()`, "{{pod}}", "s"},
	{"Shards", `fescue_shards_owned`, "{{pod}}", "short"},
	{"Memory", `process_resident_memory_bytes{job="fescue-metrics"}`, "{{pod}}", "bytes"},
}

// dashboard returns a Grafana dashboard, as its import dialogue takes it.
func dashboard() map[string]any {
	const width, height, columns = 12, 8, 2 // Grafana's grid is 24 wide
	source := map[string]any{"type": "prometheus", "uid": "${source}"}
	var list []any
	for i, p := range panels {
		list = append(list, map[string]any{
			"id": i + 1, "type": "timeseries", "title": p.title, "datasource": source,
			"gridPos":     map[string]any{"x": i % columns * width, "y": i / columns * height, "w": width, "h": height},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit}, "overrides": []any{}},
			"targets":     []any{map[string]any{"refId": "A", "expr": p.expr, "legendFormat": p.legend, "datasource": source}},
		})
	}
	return map[string]any{
		"title": "Fescue", "uid": name, "schemaVersion": 39, "refresh": "30s",
		"tags": []any{"kubernetes", name}, "time": map[string]any{"from": "now-1h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}}},
		"panels":     list,
	}
}
