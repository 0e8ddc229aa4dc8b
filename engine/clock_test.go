package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockWatch(t *testing.T) {
	t.Parallel()
	passed := time.Now()
	clock := passed.Round(0)
	var w clockWatch
	require.False(t, w.isAhead(passed, clock), "the first time")
	for _, step := range []struct {
		name          string
		passed, clock time.Duration
		want          bool
	}{
		{"as ever", time.Second, time.Second, false},
		{"a late tick", time.Minute, time.Minute, false},
		{"corrected", time.Second, time.Second + 500*time.Millisecond, false},
		{"suspended for an hour", time.Second, time.Hour, true},
		{"as ever after that", time.Second, time.Second, false},
		{"set back", time.Second, -time.Hour, false},
	} {
		passed, clock = passed.Add(step.passed), clock.Add(step.clock)
		require.Equal(t, step.want, w.isAhead(passed, clock), step.name)
	}
}

// After the clock was set forward, all objects are reconciled: their timers are late.
func TestObjectsAreQueuedWhenTheClockIsSet(t *testing.T) {
	t.Parallel()
	c, _ := runningAt(t, &answers{})
	require.True(t, c.work(t.Context()))
	require.Zero(t, c.queue.Len())
	now := time.Now()
	var clock clockWatch
	c.requeueLate(&clock, now, now.Round(0))
	c.requeueLate(&clock, now.Add(time.Second), now.Round(0).Add(time.Second))
	require.Zero(t, c.queue.Len())
	c.requeueLate(&clock, now.Add(2*time.Second), now.Round(0).Add(time.Hour))
	require.Equal(t, 1, c.queue.Len())
}
