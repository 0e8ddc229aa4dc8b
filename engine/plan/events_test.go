package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

func TestEventsOfTransitionsAndProblems(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
	p := Decide(k, object, &View{}, now)
	require.Equal(t, []Event{
		{Type: "Normal", Reason: "PENDING", Action: "ChangePhase", Note: "entered phase PENDING"},
		{Type: "Normal", Reason: "RUNNING", Action: "ChangePhase", Note: "phase changed from PENDING to RUNNING"},
	}, EventsOf(p, &Outcome{}))

	problem := &Problem{"Broken", "it does not work"}
	o := &Outcome{Stalled: problem}
	p = &Plan{Kind: k, Object: object}
	require.Equal(t, []Event{{Type: "Warning", Reason: "Broken", Action: "Reconcile", Note: "it does not work"}}, EventsOf(p, o))
	status, err := Report(p, o)
	require.NoError(t, err)
	object.Object["status"] = status
	require.Empty(t, EventsOf(p, o), "the status shows it")
}

func TestTruncate(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", truncate("short", 5))
	require.Equal(t, "ab…", truncate("abcdef", 5))
	require.Equal(t, "é…", truncate("éééé", 6))
}
