package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const tickingKind = `
package ticking

import (
	"time"

	"fescue.dev/cue/contract"
)

#Clock: {
	apiVersion!: "ticking.example.com/v1", kind!: "Clock", metadata!: {name!: string, ...}
	spec!: {schedule!: string, zone: *"Etc/UTC" | string, deadline: *"1h" | string, suspend: *false | bool}
	status?: {contract.#Status, contract.#ScheduleStatus, phase?: "TICKING"}
}
#ClockController: contract.#Controller & {
	object!: #Clock
	observed: _
	names: plural: "clocks"
	initial: "TICKING"
	phases: TICKING: {
		children: tick: template: {
			apiVersion: "v1", kind: "ConfigMap"
			metadata: name: "\(object.metadata.name)-\(time.FormatString("20060102-1504", object.status.lastScheduleTime))"
		}
		next: [if !object.spec.suspend {
			to: "TICKING", cron: object.spec.schedule, timeZone: object.spec.zone, startingDeadline: object.spec.deadline
		}]
	}
}
`

// ticking returns a cluster with a Clock, and a function that returns the children that were created.
func ticking(t *testing.T, spec map[string]any) (c *Cluster, clock func() *unstructured.Unstructured, created func() []string) {
	t.Helper()
	k := enginetest.Kind(t, tickingKind)
	start := time.Date(2030, 3, 30, 0, 20, 0, 0, time.UTC)
	c = New([]*kind.Kind{k}, start)
	require.NoError(t, c.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ticking.example.com/v1", "kind": "Clock", "metadata": map[string]any{"name": "a"}, "spec": spec,
	}}))
	require.NoError(t, c.Settle())
	clock = func() *unstructured.Unstructured { return c.find(k.GroupVersionKind, "default", "a") }
	created = func() (names []string) {
		for _, r := range c.Take() {
			if r.Step != nil && r.Step.Verb == plan.Create {
				names = append(names, r.Step.Wanted.GetName())
			}
		}
		return names
	}
	return c, clock, created
}

// A limit ends a wait early, with what has happened until then.
func TestLimit(t *testing.T) {
	t.Parallel()
	c, clock, created := ticking(t, map[string]any{"schedule": "@hourly"})
	began := c.Now()
	c.Limit(10)
	require.ErrorIs(t, c.Wait(7*24*time.Hour), ErrLimit)
	require.Less(t, c.Now().Sub(began), 11*time.Hour)
	require.NotEmpty(t, created())
	require.NotNil(t, clock())
	require.ErrorIs(t, c.Wait(0), ErrLimit)
}

// A clock that is set back repeats no time of a schedule, also with another process, and one that is set
// forward skips to the last one.
func TestScheduleOverAClockStep(t *testing.T) {
	t.Parallel()
	c, clock, created := ticking(t, map[string]any{"schedule": "@hourly", "deadline": "12h"})
	last := func() string {
		text, _, _ := unstructured.NestedString(clock().Object, "status", "lastScheduleTime")
		return text
	}
	require.NoError(t, c.Wait(time.Hour))
	require.Equal(t, []string{"a-20300330-0100"}, created())
	for range 3 {
		c.now = c.now.Add(-2 * time.Hour)
		c.Restart()
		require.NoError(t, c.Wait(2*time.Hour))
		require.Empty(t, created())
		require.Equal(t, "2030-03-30T01:00:00Z", last())
	}
	c.now = c.now.Add(10 * time.Hour)
	c.Restart()
	require.NoError(t, c.Settle())
	require.Equal(t, []string{"a-20300330-1100"}, created())
	require.NoError(t, c.Wait(time.Hour))
	require.Equal(t, []string{"a-20300330-1200"}, created())
}

// "@every 1h" goes on after a missed time: the next one is an hour later than that, and not an hour from now.
func TestDelayAfterAMissedTime(t *testing.T) {
	t.Parallel()
	c, _, created := ticking(t, map[string]any{"schedule": "@every 1h", "deadline": "5m"})
	require.NoError(t, c.Wait(time.Hour))
	require.Equal(t, []string{"a-20300330-0120"}, created())
	c.now = c.now.Add(90 * time.Minute)
	c.Restart()
	require.NoError(t, c.Settle())
	require.Empty(t, created())
	require.NoError(t, c.Wait(2*time.Hour))
	require.Equal(t, []string{"a-20300330-0320", "a-20300330-0420"}, created())
}

// A phase is entered again at each time of its schedule, and each time has one child, however often
// the operator restarts. A phase that is entered again with nothing to do in it is no circle.
func TestWeekOfAnHourlyKind(t *testing.T) {
	t.Parallel()
	c, clock, created := ticking(t, map[string]any{"schedule": "@hourly"})
	require.Empty(t, created(), "there is no time of the schedule yet")
	for hour := range 7 * 24 {
		require.NoError(t, c.Wait(30*time.Minute))
		c.Restart()
		require.NoError(t, c.Wait(30*time.Minute))
		scheduled := time.Date(2030, 3, 30, 1+hour, 0, 0, 0, time.UTC)
		require.Equal(t, []string{"a-" + scheduled.Format("20060102-1504")}, created())
		last, _, _ := unstructured.NestedString(clock().Object, "status", "lastScheduleTime")
		require.Equal(t, scheduled.Format(time.RFC3339), last)
	}
	require.Len(t, c.objects, 1+7*24)
}

// A time in an hour that is repeated comes twice, one in an hour that is skipped does not come.
func TestScheduleOverSummerTime(t *testing.T) {
	t.Parallel()
	c, _, created := ticking(t, map[string]any{"schedule": "30 2 * * *", "zone": "Europe/Berlin"})
	require.NoError(t, c.Wait(72*time.Hour))
	require.Equal(t, []string{"a-20300330-0130", "a-20300401-0030"}, created())
}

// What an operator that did not run has missed counts as one time, if it is not too late for that.
func TestMissedSchedule(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline string
		created  []string
		message  string
	}{
		"the last one counts": {"59m", []string{"a-20300330-0500"}, "waiting until 2030-03-30T06:00:00Z"},
		"it is too late":      {"10m", nil, "too late for the schedule of 2030-03-30T05:00:00Z; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, clock, created := ticking(t, map[string]any{"schedule": "@hourly", "deadline": tc.deadline})
			c.now = c.now.Add(5 * time.Hour) // nothing runs meanwhile
			c.Restart()
			require.NoError(t, c.Settle())
			missed := 0
			for _, r := range c.log {
				if r.Event != nil && r.Event.Reason == "MissedSchedule" {
					missed++
				}
			}
			require.Equal(t, tc.created, created())
			require.Equal(t, map[bool]int{true: 1}[tc.created == nil], missed)
			require.Contains(t, messageOf(t, clock(), kind.ConditionReady), tc.message)
			before := clock()
			c.Restart()
			require.NoError(t, c.Settle())
			require.Equal(t, before, clock(), "nothing is written again")
			require.NoError(t, c.Wait(40*time.Minute))
			require.Equal(t, []string{"a-20300330-0600"}, created())
		})
	}
}

// messageOf returns the message of a condition.
func messageOf(t *testing.T, object *unstructured.Unstructured, condition string) string {
	t.Helper()
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	require.NoError(t, err)
	for _, c := range conditions {
		if fields := c.(map[string]any); fields["type"] == condition {
			return fields["message"].(string)
		}
	}
	require.Fail(t, "no condition "+condition, "%v", conditions)
	return ""
}

// A clock that is set back meets no time a second time.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	c, _, created := ticking(t, map[string]any{"schedule": "@hourly"})
	require.NoError(t, c.Wait(2*time.Hour))
	require.Equal(t, []string{"a-20300330-0100", "a-20300330-0200"}, created())
	c.now = c.now.Add(-90 * time.Minute)
	c.Restart()
	require.NoError(t, c.Wait(2*time.Hour))
	require.Empty(t, created())
	require.NoError(t, c.Wait(time.Hour))
	require.Equal(t, []string{"a-20300330-0300"}, created())
}

// A suspended kind creates nothing; then the last time that it missed counts.
func TestSuspendedSchedule(t *testing.T) {
	t.Parallel()
	c, clock, created := ticking(t, map[string]any{"schedule": "@hourly", "suspend": true})
	require.NoError(t, c.Wait(24*time.Hour))
	require.Empty(t, created())
	require.Zero(t, c.WakeAt(clock()))
	require.NoError(t, c.Patch(clock(), map[string]any{"spec": map[string]any{"suspend": false}}))
	require.NoError(t, c.Wait(40*time.Minute))
	require.Equal(t, []string{"a-20300331-0000", "a-20300331-0100"}, created())
}

// A schedule that follows from the object and is wrong stalls it, with the name of the field.
func TestWrongSchedule(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]string{
		"schedule": `phases.TICKING.next.0.cron: "never" is not a cron schedule like "0 6 * * 1-5": expected exactly 5 fields, found 1: [never]`,
		"zone":     `phases.TICKING.next.0.timeZone: "never" is not the name of a time zone like "Europe/Berlin": unknown time zone never`,
		"deadline": `phases.TICKING.next.0.startingDeadline: "never" must be a duration like "5m"`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			spec := map[string]any{"schedule": "@hourly"}
			spec[field] = "never"
			_, clock, created := ticking(t, spec)
			require.Empty(t, created())
			require.Contains(t, messageOf(t, clock(), kind.ConditionStalled), want)
		})
	}
}
