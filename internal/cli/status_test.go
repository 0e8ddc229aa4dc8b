package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

func TestHealthOfObjects(t *testing.T) {
	t.Parallel()
	k := kindtest.Named(t, kindtest.Shipped(t), "At")
	condition := func(kind, status, reason, message string) any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}
	}
	for name, tc := range map[string]struct {
		conditions []any
		observed   int64
		deleted    bool
		want       health
		reason     string
	}{
		"no status":             {nil, 0, false, inProgress, ""},
		"running":               {[]any{condition("Succeeded", "Unknown", "RUNNING", "")}, 2, false, inProgress, "RUNNING"},
		"done":                  {[]any{condition("Succeeded", "True", "DONE", "")}, 2, false, current, "DONE"},
		"ready":                 {[]any{condition("Ready", "True", "Reconciled", "")}, 2, false, current, "Reconciled"},
		"not ready":             {[]any{condition("Ready", "False", "Waiting", "")}, 2, false, inProgress, "Waiting"},
		"ended in failure":      {[]any{condition("Succeeded", "False", "BROKEN", "")}, 2, false, failed, "BROKEN"},
		"stalled":               {[]any{condition("Stalled", "True", "Invalid", "why"), condition("Succeeded", "Unknown", "RUNNING", "")}, 2, false, failed, "Invalid: why"},
		"ready, yet stalled":    {[]any{condition("Ready", "True", "Reconciled", ""), condition("Stalled", "True", "Invalid", "why")}, 2, false, failed, "Invalid: why"},
		"other conditions":      {[]any{condition("Paused", "False", "NotPaused", ""), condition("Ready", "True", "Reconciled", "")}, 2, false, current, "Reconciled"},
		"missed by Pods":        {[]any{condition("Ready", "True", "Reconciled", ""), condition("Injected", "False", "MissedPods", "why")}, 2, false, degraded, "MissedPods: why"},
		"outdated in Pods":      {[]any{condition("Injected", "False", "OutdatedPods", "why"), condition("Ready", "True", "Reconciled", "")}, 1, false, degraded, "OutdatedPods: why"},
		"missed, not ready":     {[]any{condition("Injected", "False", "MissedPods", "why"), condition("Ready", "False", "Waiting", "")}, 2, false, degraded, "MissedPods: why"},
		"missed, stalled":       {[]any{condition("Injected", "False", "MissedPods", "why"), condition("Stalled", "True", "Invalid", "")}, 2, false, failed, "Invalid"},
		"injected":              {[]any{condition("Injected", "True", "InjectedIntoAll", ""), condition("Ready", "True", "Reconciled", "")}, 2, false, current, "Reconciled"},
		"outdated":              {[]any{condition("Ready", "True", "Reconciled", "")}, 1, false, inProgress, "Changed: the last change has not been reconciled yet"},
		"being deleted":         {[]any{condition("Ready", "True", "Reconciled", "")}, 2, true, inProgress, "Terminating"},
		"not written by Fescue": {[]any{"nonsense"}, 2, false, inProgress, "Unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "a", "generation": int64(2)},
				"status":   map[string]any{"conditions": tc.conditions, "observedGeneration": tc.observed},
			}}
			if tc.deleted {
				object.SetDeletionTimestamp(new(metav1.Now()))
			}
			row := rowOf(k, object)
			require.Equal(t, tc.want.String(), row.Health.String())
			require.Equal(t, tc.reason, strings.TrimSuffix(row.Reason+": "+row.Message, ": "))
		})
	}
}

// Control characters are escaped. Only terminals get colours.
func TestStatusTable(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 5, 0, 0, time.UTC)
	row := statusRow{Kind: "At", Name: "b", Health: failed, Phase: "RUNNING", Reason: "Invalid", Message: "line 1\nline 2", Created: metav1.NewTime(now.Add(-5 * time.Minute))}
	other := statusRow{Kind: "At", Name: "a", Health: current, Created: row.Created}
	late := statusRow{Kind: "At", Name: "d", Health: inProgress, Created: row.Created}
	missed := statusRow{Kind: "At", Name: "c", Health: degraded, Created: row.Created}
	var out bytes.Buffer
	p := &statusPrinter{out: &out, o: &statusOptions{output: "table"}, now: func() time.Time { return now }}
	require.NoError(t, p.print([]statusRow{other, late, missed, row}))
	require.Equal(t, `OBJECT   STATUS       PHASE     CONDITIONS   AGE   REASON
At/b     Failed       RUNNING   -            5m    Invalid: line 1; line 2
At/c     Degraded     -         -            5m    -
At/d     InProgress   -         -            5m    -
At/a     Current      -         -            5m    -
`, out.String())
	out.Reset()
	require.NoError(t, p.print([]statusRow{{Kind: "At", Name: "e", Health: failed, Reason: "Invalid", Message: "\x1b[2J", Created: row.Created}}))
	require.Equal(t, `OBJECT   STATUS   PHASE   CONDITIONS   AGE   REASON
At/e     Failed   -       -            5m    Invalid: ^[[2J
`, out.String())
	p.colour = true
	require.Equal(t, "\x1b[31mx\x1b[0m", p.paint(failed, "x"))
	require.Equal(t, "\x1b[31mx\x1b[0m", p.paint(degraded, "x"))
	require.Equal(t, "x", p.paint(current, "x"))
}
