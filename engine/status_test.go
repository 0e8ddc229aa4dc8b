package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// statusOf reports the plan for an object and its children.
func statusOf(t *testing.T, object, observed map[string]any, now time.Time) map[string]any {
	k := shippedAt(t)
	status, err := report(k, object, 1, makePlan(k, object, observed, now), now)
	require.NoError(t, err)
	return status
}

func TestReport(t *testing.T) {
	t.Parallel()
	first := statusOf(t, at("2026-01-02T03:04:06Z", ""), nil, now)
	require.Equal(t, map[string]any{
		"phase": "PENDING", "observedGeneration": int64(1), "lastPhaseTransitionTime": "2026-01-02T03:04:05.000Z",
		"conditions": []any{map[string]any{
			"type": "Succeeded", "status": "Unknown", "reason": "PENDING", "message": "",
			"observedGeneration": int64(1), "lastTransitionTime": "2026-01-02T03:04:05Z",
		}},
	}, first)

	// An hour later the object is done; the time of the condition says when.
	object := at("2026-01-02T03:04:06Z", "")
	object["status"] = first
	later := now.Add(time.Hour)
	done := statusOf(t, object, pod("Succeeded"), later)
	require.Equal(t, "DONE", done["phase"])
	require.Equal(t, map[string]any{
		"type": "Succeeded", "status": "True", "reason": "DONE", "message": "",
		"observedGeneration": int64(1), "lastTransitionTime": "2026-01-02T04:04:05Z",
	}, done["conditions"].([]any)[0])
}

// Nothing is written when nothing changed: a report of a reported object says the same.
func TestReportIsStable(t *testing.T) {
	t.Parallel()
	for name, observed := range map[string]map[string]any{"no pod": nil, "running": pod("Running"), "done": pod("Failed")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := at("2020-01-01T00:00:00Z", "RUNNING")
			object["status"] = statusOf(t, object, observed, now)
			require.Equal(t, object["status"], any(statusOf(t, object, observed, now.Add(time.Hour))))
		})
	}
}

func TestReportOfInvalidObject(t *testing.T) {
	t.Parallel()
	object := at("tomorrow", "PENDING")
	object["status"] = statusOf(t, object, nil, now)
	require.True(t, stalledBefore(object, &problem{reasonInvalid, makePlan(shippedAt(t), object, nil, now).stalled.message}))
	require.Len(t, object["status"].(map[string]any)["conditions"], 2)

	object["spec"].(map[string]any)["schedule"] = "2999-01-01T00:00:00Z"
	mended := statusOf(t, object, nil, now)
	require.Len(t, mended["conditions"], 1, "Stalled is there only while something is wrong")
}

func TestReportWithoutPhases(t *testing.T) {
	t.Parallel()
	k := corpusKind(t, "features")
	object := map[string]any{"apiVersion": "features.example.com/v1", "kind": "Feature", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"required": "x"}}
	p := makePlan(k, object, nil, now)
	status, err := report(k, object, 3, p, now)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"seen": int64(3), "observedGeneration": int64(3),
		"conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "reason": "Reconciled", "message": "",
			"observedGeneration": int64(3), "lastTransitionTime": "2026-01-02T03:04:05Z",
		}},
	}, status)

	p.stalled = &problem{reasonChild, "refused"}
	status, err = report(k, object, 3, p, now)
	require.NoError(t, err)
	require.Len(t, status["conditions"], 2)
	require.Equal(t, "False", status["conditions"].([]any)[0].(map[string]any)["status"])
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", truncate("short", 5))
	require.Equal(t, "ab…", truncate("abcdef", 5))
	require.Equal(t, "é…", truncate("éééé", 6))
}
