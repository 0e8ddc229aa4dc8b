package simulate

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const waitingKind = `
package waiting

import "fescue.dev/cue/contract"

#App: {
	apiVersion!: "waiting.example.com/v1", kind!: "App", metadata!: {name!: string, ...}
	spec!: {public: *true | bool, guard: *"" | string}
	status?: {contract.#Status, address?: string}
}
#AppController: contract.#Controller & {
	object!: #App
	observed: _
	names: plural: "apps"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		db: {
			template: {apiVersion: "v1", kind: "Secret"}
			ready: observed.db.status.phase == "Running"
		}
		web: {
			when: observed.db.status.phase == "Running"
			template: {apiVersion: "v1", kind: "ConfigMap", data: address: observed.db.status.address}
		}
		pods: {
			when: observed.db.status.phase == "Running"
			replicas: 2
			template: {apiVersion: "v1", kind: "Service"}
		}
		if object.spec.public {public: template: {apiVersion: "v1", kind: "ConfigMap"}}
		if object.spec.guard == "unknown" if observed.db.status.unknown {guarded: template: {apiVersion: "v1", kind: "ConfigMap"}}
	}
	status: address: observed.db.status.address
	conditions: Available: {status: observed.db.status.phase == "Running", message: "at \(observed.db.status.address)"}
}
`

// rendered is what a reconcile writes and reports, given children as Kind/child: status in YAML.
func rendered(t *testing.T, k *kind.Kind, spec map[string]any, observed map[string]map[string]any) (steps string, status map[string]any) {
	t.Helper()
	var children []*unstructured.Unstructured
	for name, fields := range observed {
		kind, child, _ := strings.Cut(name, "/")
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{
			"name": "a-" + child, "labels": map[string]any{"fescue.dev/child": child},
		}}}
		maps.Copy(object.Object, fields)
		children = append(children, object)
	}
	r, err := Render(k, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "waiting.example.com/v1", "kind": "App", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}, children, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	require.NoError(t, err)
	var all []string
	for _, s := range r.Steps {
		if s.Verb != string(plan.Apply) && s.Verb != string(plan.Adopt) {
			all = append(all, s.Verb+" "+s.Name)
		}
	}
	return strings.Join(all, ", "), r.Status
}

func describeCondition(t *testing.T, status map[string]any, name string) string {
	t.Helper()
	for _, c := range status["conditions"].([]any) {
		if c := c.(map[string]any); c["type"] == name {
			return fmt.Sprintf("%s %s: %s", c["status"], c["reason"], c["message"])
		}
	}
	return ""
}

func TestChildrenWait(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, waitingKind)
	running := map[string]any{"status": map[string]any{"phase": "Running", "address": "10.0.0.1"}}
	starting := map[string]any{"status": map[string]any{"phase": "Starting"}}

	// Nothing that depends on the database is created before it runs.
	steps, status := rendered(t, k, nil, nil)
	require.Equal(t, "create a-db, create a-public", steps)
	ready := describeCondition(t, status, "Ready")
	require.Regexp(t, `^False Waiting: db: not ready; pods: waiting for observed.db.status \(.*\); public: ready; web: waiting for observed.db.status \(.*kind.cue:23\), observed.db.status \(.*kind.cue:22\)$`, ready)
	require.NotContains(t, status, "address")
	require.Regexp(t, `^Unknown Waiting: waiting for observed.db.status `, describeCondition(t, status, "Available"))

	steps, status = rendered(t, k, nil, map[string]map[string]any{"Secret/db": running})
	require.Equal(t, "create a-pods-98132-0, create a-pods-98132-1, create a-public, create a-web", steps)
	require.Equal(t, "10.0.0.1", status["address"])
	require.Equal(t, "True Available: at 10.0.0.1", describeCondition(t, status, "Available"))
	require.Equal(t, "True Reconciled: db: ready; pods: 2 of 2 ready; public: ready; web: ready", describeCondition(t, status, "Ready"))

	// What exists stays when it waits again, and so does what has no template then.
	all := map[string]map[string]any{"Secret/db": starting, "ConfigMap/web": {"data": map[string]any{"address": "10.0.0.1"}}, "Service/pods-98132-0": nil, "ConfigMap/public": nil}
	steps, status = rendered(t, k, nil, all)
	require.Empty(t, steps)
	require.Contains(t, describeCondition(t, status, "Ready"), "web: waiting for observed.db.status.address")
	require.Equal(t, "False NotAvailable: ", describeCondition(t, status, "Available"))

	// Only an if deletes, and nothing is deleted while one is undecided.
	steps, _ = rendered(t, k, map[string]any{"public": false}, all)
	require.Equal(t, "delete a-public", steps)
	steps, status = rendered(t, k, map[string]any{"public": false, "guard": "unknown"}, all)
	require.Empty(t, steps)
	require.Contains(t, describeCondition(t, status, "Ready"), "an if around children: waiting for observed.db.status.unknown")
}
