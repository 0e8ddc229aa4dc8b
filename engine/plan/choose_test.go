package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
)

// A transition with a condition and a time holds when both do.
func TestChooseNeedsAllThatIsStated(t *testing.T) {
	t.Parallel()
	after := func(text string) *kind.Trigger {
		trigger, err := kind.ParseTrigger(text)
		require.NoError(t, err)
		return trigger
	}
	for name, tc := range map[string]struct {
		next   []kind.Transition
		to     string
		wakeAt time.Duration
	}{
		"neither":      {[]kind.Transition{{To: "B", After: after("5s")}}, "", 0},
		"only when":    {[]kind.Transition{{To: "B", When: true, After: after("5s")}}, "", 5 * time.Second},
		"only after":   {[]kind.Transition{{To: "B", After: after("0s")}}, "", 0},
		"both":         {[]kind.Transition{{To: "B", When: true, After: after("0s")}}, "B", 0},
		"without time": {[]kind.Transition{{To: "B"}, {To: "C", When: true}}, "C", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, _, wakeAt := choose(tc.next, now, now)
			require.Equal(t, tc.to, to)
			if tc.wakeAt == 0 {
				require.Zero(t, wakeAt)
				return
			}
			require.Equal(t, now.Add(tc.wakeAt), wakeAt)
		})
	}
}

// The kind's own conditions keep their times, and go when the kind drops them.
func TestOwnConditions(t *testing.T) {
	t.Parallel()
	p := &Plan{Projection: map[string]any{}, Object: &unstructured.Unstructured{Object: map[string]any{}}, At: now, Conditions: []kind.Condition{{Type: "Fine", Status: "True", Reason: "R"}}}
	first := p.ownConditions(nil)
	require.Len(t, first, 1)
	p.At = now.Add(time.Minute)
	require.Equal(t, first, p.ownConditions(first))
	p.Conditions[0].Status = "False"
	require.Equal(t, p.At, p.ownConditions(first)[0].LastTransitionTime.Time)
	p.Conditions = nil
	require.Empty(t, p.ownConditions(first))
	p.Projection = nil
	require.Len(t, p.ownConditions(first), 1, "a stalled object keeps them")
}
