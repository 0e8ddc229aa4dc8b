package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// statusOf returns the status of an object with these children.
func statusOf(t *testing.T, object, observed map[string]any, now time.Time) map[string]any {
	k := enginetest.Shipped(t, "At")
	p := planOf(k, object, observed, now)
	status, err := Report(p, outcome(p))
	require.NoError(t, err)
	return status
}

// outcome returns that of a plan with nothing to write.
func outcome(p *Plan) *Outcome { return outcomeOf(p, &Comparison{}, &Changes{}, &View{}) }

func TestReport(t *testing.T) {
	t.Parallel()
	first := statusOf(t, enginetest.At("2026-01-02T03:04:06Z", ""), nil, now)
	require.Equal(t, map[string]any{
		"phase": "PENDING", "observedGeneration": int64(1), "lastPhaseTransitionTime": "2026-01-02T03:04:05.000Z",
		"childInventory": map[string]any{"types": []any{map[string]any{"apiVersion": "v1", "kind": "Pod"}}},
		"conditions": []any{
			map[string]any{
				"type": "Succeeded", "status": "Unknown", "reason": "PENDING", "message": "waiting until 2026-01-02T03:04:06Z",
				"observedGeneration": int64(1), "lastTransitionTime": "2026-01-02T03:04:05Z",
			},
			map[string]any{
				"type": "Reconciling", "status": "True", "reason": "PENDING", "message": "",
				"observedGeneration": int64(1), "lastTransitionTime": "2026-01-02T03:04:05Z",
			},
		},
	}, first)

	// An hour later the object is done; the condition has that time.
	object := enginetest.At("2026-01-02T03:04:06Z", "")
	object["status"] = first
	later := now.Add(time.Hour)
	object["status"] = statusOf(t, object, pod("Succeeded"), later) // RUNNING is stored first
	done := statusOf(t, object, pod("Succeeded"), later)
	require.Equal(t, "DONE", done["phase"])
	require.Equal(t, map[string]any{
		"type": "Succeeded", "status": "True", "reason": "DONE", "message": "",
		"observedGeneration": int64(1), "lastTransitionTime": "2026-01-02T04:04:05Z",
	}, done["conditions"].([]any)[0])
	require.Len(t, done["conditions"], 1, "it is no longer reconciling")
}

// Nothing is written when nothing changed: reporting again gives the same status.
func TestReportIsStable(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]map[string]any{"no pod": nil, "running": pod("Running"), "done": pod("Failed")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := enginetest.At("2020-01-01T00:00:00Z", "RUNNING")
			object["status"] = statusOf(t, object, observed, now)
			require.Equal(t, object["status"], any(statusOf(t, object, observed, now.Add(time.Hour))))
		})
	}
}

// A status, or a template, with whole floats is written once: the API server returns 2 for 2.0.
func TestReportOfFloats(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package halves

import "fescue.dev/cue/contract"

#Half: {
	apiVersion!: "halves.example.com/v1", kind!: "Half", metadata!: {name!: string, ...}
	spec!: {of: number}
	status?: {contract.#Status, half?: number, list?: [...number]}
}
#HalfController: contract.#Controller & {
	object!: #Half
	names: plural: "halves"
	owns: [{apiVersion: "halves.example.com/v1", kind: "Thing"}]
	children: thing: template: {apiVersion: "halves.example.com/v1", kind: "Thing", spec: half: object.spec.of / 2}
	status: {half: object.spec.of / 2, list: [object.spec.of * 0.5, 1e300]}
}
`)
	for of, want := range map[any]any{int64(4): int64(2), 4.5: 2.25, int64(0): int64(0)} {
		object := map[string]any{
			"apiVersion": "halves.example.com/v1", "kind": "Half", "metadata": map[string]any{"name": "a", "generation": int64(1)},
			"spec": map[string]any{"of": of},
		}
		p := planOf(k, object, nil, now)
		status, err := Report(p, outcome(p))
		require.NoError(t, err)
		require.Equal(t, want, status["half"])
		require.Equal(t, map[string]any{"half": want}, p.Children[0].Template["spec"])
		encoded, err := json.Marshal(status)
		require.NoError(t, err)
		stored := make(map[string]any)
		require.NoError(t, json.Unmarshal(encoded, &stored))
		object["status"] = stored
		p = planOf(k, object, nil, now)
		status, err = Report(p, outcome(p))
		require.NoError(t, err)
		require.False(t, outcome(p).IsDue(p, status), "%v", status)
	}
}

func TestReportOfInvalidObject(t *testing.T) {
	t.Parallel()
	object := enginetest.At("tomorrow", "PENDING")
	object["status"] = statusOf(t, object, nil, now)
	require.True(t, (&Problem{reasonInvalid, planOf(enginetest.Shipped(t, "At"), object, nil, now).Stalled.Message}).isReportedBy(object))
	require.Len(t, object["status"].(map[string]any)["conditions"], 2)

	object["spec"].(map[string]any)["schedule"] = "2999-01-01T00:00:00Z"
	mended := statusOf(t, object, nil, now)
	_, reason, _ := conditionIn(mended, kind.ConditionStalled)
	require.Empty(t, reason, "Stalled exists only while something is wrong")
}

func TestReportWithoutPhases(t *testing.T) {
	t.Parallel()
	k := enginetest.Corpus(t, "features")
	object := map[string]any{"apiVersion": "features.example.com/v1", "kind": "Feature", "metadata": map[string]any{"name": "a", "generation": int64(3)}, "spec": map[string]any{"required": "x"}}
	p := planOf(k, object, nil, now)
	status, err := Report(p, outcome(p))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"seen": int64(3), "observedGeneration": int64(3),
		"childInventory": map[string]any{"types": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, map[string]any{"apiVersion": "v1", "kind": "Secret"}}},
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Reconciled", "message": "",
			"observedGeneration": int64(3), "lastTransitionTime": "2026-01-02T03:04:05Z",
		}},
	}, status)

	status, err = Report(p, &Outcome{Stalled: &Problem{reasonChild, "rejected"}})
	require.NoError(t, err)
	require.Len(t, status["conditions"], 2)
	require.Equal(t, "False", status["conditions"].([]any)[0].(map[string]any)["status"])
}

// conditionIn returns a condition of a status; all is empty if it does not exist.
func conditionIn(status map[string]any, kind string) (value, reason, message string) {
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			value, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return value, reason, message
}

// The status shows that an object is not ready in time, and that it is ready after all; a new
// spec begins a new attempt.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(enginetest.Shipped(t, "Customcluster"), customcluster(2, "m"))
	w.do(w.compare(t).Steps)
	reconcile := func(at time.Time) (ready, reason string, wakeAt time.Time) {
		p := Decide(w.kind, w.owner, w.view(), at)
		o := outcomeOf(p, Compare(p, w.view()), &Changes{}, w.view())
		status, err := Report(p, o)
		require.NoError(t, err)
		w.owner.Object["status"] = status
		ready, reason, _ = conditionIn(status, kind.ConditionReady)
		return ready, reason, o.WakeAt
	}
	requireReport := func(at time.Time, ready, reason string, wakeAt time.Time) {
		t.Helper()
		isReady, why, wakes := reconcile(at)
		require.Equal(t, []any{ready, reason}, []any{isReady, why})
		require.True(t, wakeAt.Equal(wakes), wakes)
	}
	requireReport(now, "False", "Progressing", now.Add(5*time.Minute))
	requireReport(now.Add(time.Minute), "False", "Progressing", now.Add(5*time.Minute))
	requireReport(now.Add(5*time.Minute), "False", "ProgressDeadlineExceeded", time.Time{})
	requireReport(now.Add(time.Hour), "False", "ProgressDeadlineExceeded", time.Time{})
	w.owner.SetGeneration(2)
	requireReport(now.Add(2*time.Hour), "False", "Progressing", now.Add(2*time.Hour+5*time.Minute))
	requireReport(now.Add(3*time.Hour), "False", "ProgressDeadlineExceeded", time.Time{})
	w.ready()
	requireReport(now.Add(4*time.Hour), "True", "Reconciled", time.Time{})
	w.objects = w.objects[1:]
	requireReport(now.Add(5*time.Hour), "False", "Progressing", now.Add(5*time.Hour+5*time.Minute))
}

// An object that never ends is Ready, for tools that wait for it, once the children of its phase are
// known and ready.
func TestReportWithoutEnd(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `package kinds

import "fescue.dev/cue/contract"

#Light: {apiVersion!: "traffic.example.com/v1", kind!: "Light", metadata!: {name!: string, ...}, status?: contract.#Status}
#LightController: contract.#Controller & {
	object!: #Light
	names: plural: "lights"
	initial: "RED"
	phases: {
		RED: {
			children: lamp: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "lamp", image: "red:1"}]}
			next: [{to: "GREEN", after: "1m"}]
		}
		GREEN: next: [{to: "RED", after: "1m"}]
	}
}
`)
	object := map[string]any{
		"apiVersion": "traffic.example.com/v1", "kind": "Light",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "generation": int64(1)},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": kind.ConditionSucceeded, "status": "Unknown", "reason": "RED", "message": "", "lastTransitionTime": "2026-01-02T03:00:00Z",
		}}},
	}
	condition := func(p *Plan, states ...ChildState) map[string]any {
		o := outcome(p)
		o.States = states
		status, err := Report(p, o)
		require.NoError(t, err)
		object["status"] = status
		require.Len(t, status["conditions"], 1, "it neither succeeds nor reconciles for good")
		return status["conditions"].([]any)[0].(map[string]any)
	}
	of := func(c map[string]any) []any {
		return []any{c["type"], c["status"], c["message"], c["lastTransitionTime"]}
	}

	stored := condition(planOf(k, object, nil, now))
	require.Equal(t, []any{"Ready", "False", "waiting until 2026-01-02T03:05:05Z", "2026-01-02T03:04:05Z"}, of(stored), "the lamp is not created yet")
	created := condition(planOf(k, object, nil, now.Add(time.Second)), ChildState{name: "lamp", wanted: 1})
	require.Equal(t, []any{"Ready", "False", "lamp: not ready; waiting until 2026-01-02T03:05:05Z", "2026-01-02T03:04:05Z"}, of(created))
	ready := condition(planOf(k, object, nil, now.Add(2*time.Second)), ChildState{name: "lamp", wanted: 1, ready: 1})
	require.Equal(t, []any{"Ready", "True", "lamp: ready; waiting until 2026-01-02T03:05:05Z", "2026-01-02T03:04:07Z"}, of(ready))
	green := condition(planOf(k, object, map[string]any{"lamp": map[string]any{}}, now.Add(time.Minute)))
	require.Equal(t, []any{"Ready", "True", "waiting until 2026-01-02T03:06:05Z", "2026-01-02T03:04:07Z"}, of(green))
}

// What a quota rejects is expected to pass: the object is reconciling for ten minutes, or as long as its deadline, and
// stalled after that until the quota is raised.
func TestQuotaIsExpectedToPass(t *testing.T) {
	t.Parallel()
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"))
	policy := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(`violates PodSecurity "restricted:latest"`))
	k := enginetest.Shipped(t, "Customcluster")
	for name, test := range map[string]struct {
		after   time.Duration
		limit   time.Duration
		err     error
		stalled string
	}{
		"at once":               {0, 0, quota, ""},
		"after nine minutes":    {9 * time.Minute, 0, quota, ""},
		"after ten":             {10 * time.Minute, 0, quota, "QuotaExceeded"},
		"after its deadline":    {time.Minute, time.Minute, quota, "QuotaExceeded"},
		"needs a person":        {0, 0, policy, "ChildRejected"},
		"one of two does":       {0, 0, errors.Join(quota, policy), "ChildRejected"},
		"both pass":             {0, 0, errors.Join(fmt.Errorf("child %q: %w", "a", quota), quota), ""},
		"the quota is not read": {0, 0, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("status unknown for quota: q, resources: pods")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := customcluster(3, "m")
			var conditions []metav1.Condition
			for _, elapsed := range []time.Duration{0, test.after} {
				p := Decide(k, owner, newWorld(k, owner).view(), now.Add(elapsed))
				p.Deadline = test.limit
				o := outcomeOf(p, &Comparison{}, &Changes{Obstacles: Obstacles{Rejected: test.err}}, newWorld(k, owner).view())
				status, err := Report(p, o)
				require.NoError(t, err)
				owner = owner.DeepCopy()
				owner.Object["status"] = status
				conditions = conditionsOf(status)
			}
			reconciling, stalled := meta.FindStatusCondition(conditions, kind.ConditionReconciling), meta.FindStatusCondition(conditions, kind.ConditionStalled)
			if test.stalled != "" {
				require.Nil(t, reconciling)
				require.Equal(t, test.stalled, stalled.Reason)
				return
			}
			require.Nil(t, stalled)
			require.Equal(t, "QuotaExceeded", reconciling.Reason)
			require.True(t, reconciling.LastTransitionTime.Time.Equal(now), "since when")
			require.False(t, meta.IsStatusConditionTrue(conditions, kind.ConditionReady))
		})
	}
}

// What is no condition, and was stored while nothing checked it, is dropped by the next write of the status.
func TestStatusWithoutConditions(t *testing.T) {
	t.Parallel()
	custom := map[string]any{"type": "Custom", "status": "True", "reason": "Own", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	for _, stored := range []any{"x", []any{int64(1)}, []any{map[string]any{"type": int64(5)}}, map[string]any{}, []any{"x", custom}} {
		object := enginetest.At("tomorrow", "PENDING")
		object["status"].(map[string]any)["conditions"] = stored
		p := planOf(enginetest.Shipped(t, "At"), object, nil, now)
		status, err := Report(p, outcome(p))
		require.NoError(t, err)
		var types []string
		for _, c := range conditionsOf(status) {
			types = append(types, c.Type)
		}
		want := []string{"Succeeded", "Stalled"}
		if list, ok := stored.([]any); ok && len(list) == 2 {
			want = append(want, "Custom")
		}
		require.ElementsMatch(t, want, types)
	}
}

// Children that lead back without end are reported with a reason of their own.
func TestEndlessChildrenAreStalled(t *testing.T) {
	t.Parallel()
	o := &Outcome{}
	o.noteRejection(&Plan{Object: &unstructured.Unstructured{}}, fmt.Errorf(`child "next": %w`, children.EndlessError("it leads back")))
	require.Equal(t, &Problem{"EndlessChildren", `child "next": it leads back`}, o.Stalled)
}
