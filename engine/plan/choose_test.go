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
			c := (&Plan{Entered: now, At: now}).choose(tc.next)
			require.Equal(t, tc.to, c.to)
			if tc.wakeAt == 0 {
				require.Zero(t, c.wakeAt)
				return
			}
			require.Equal(t, now.Add(tc.wakeAt), c.wakeAt)
		})
	}
}

// A time of a schedule is met once, whatever the clock and the process that meets it.
func TestChooseBySchedule(t *testing.T) {
	t.Parallel()
	hourly, err := kind.ParseSchedule("@hourly", "")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		entered, scheduled, now string
		deadline                time.Duration
		off                     bool
		met, missed, wakeAt     string
	}{
		"before the first time":          {entered: "09:30", now: "09:59", wakeAt: "10:00"},
		"at its time":                    {entered: "09:30", now: "10:00", met: "10:00"},
		"later":                          {entered: "09:30", now: "10:20", met: "10:00"},
		"only the last of several":       {entered: "09:30", now: "15:20", met: "15:00"},
		"not what was before the phase":  {entered: "10:00", now: "10:20", wakeAt: "11:00"},
		"when already met":               {entered: "09:59", scheduled: "10:00", now: "10:00", wakeAt: "11:00"},
		"after the clock was set back":   {entered: "09:40", scheduled: "11:00", now: "10:30", wakeAt: "12:00"},
		"entered in what is now future":  {entered: "11:30", scheduled: "10:00", now: "10:30", wakeAt: "12:00"},
		"without its condition":          {entered: "09:30", now: "10:20", off: true},
		"in time":                        {entered: "09:30", now: "10:05", deadline: 5 * time.Minute, met: "10:00"},
		"too late":                       {entered: "09:30", now: "10:06", deadline: 5 * time.Minute, missed: "10:00", wakeAt: "11:00"},
		"the last of several, too late":  {entered: "09:30", now: "15:06", deadline: 5 * time.Minute, missed: "15:00", wakeAt: "16:00"},
		"too late, and met already":      {entered: "09:30", scheduled: "10:00", now: "10:06", deadline: 5 * time.Minute, wakeAt: "11:00"},
		"a deadline longer than an hour": {entered: "09:30", now: "15:20", deadline: 24 * time.Hour, met: "15:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := func(text string) time.Time {
				if text == "" {
					return time.Time{}
				}
				parsed, err := time.Parse("2006-01-02 15:04", "2030-01-01 "+text)
				require.NoError(t, err)
				return parsed
			}
			p := &Plan{Entered: clock(tc.entered), Scheduled: clock(tc.scheduled), At: clock(tc.now)}
			c := p.choose([]kind.Transition{{To: "B", When: !tc.off, Cron: hourly, StartingDeadline: tc.deadline}})
			require.Equal(t, choice{
				to: map[bool]string{true: "B"}[tc.met != ""], since: clock(tc.met), scheduled: clock(tc.met),
				missed: clock(tc.missed), wakeAt: clock(tc.wakeAt),
			}, c)
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
