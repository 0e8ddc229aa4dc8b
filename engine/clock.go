package engine

import "time"

// clockStep is how far the clock may move ahead of the time that has passed before all objects are
// reconciled. Clocks that are only corrected differ by milliseconds.
const clockStep = 2 * time.Second

// clockWatch notices that the clock was set forward. The times that objects wait for are times of the
// clock, and timers count the time that passes. So after a suspended machine went on, or one that had
// started with a wrong time got the right one, timers would be late by as much.
type clockWatch struct{ passed, clock time.Time }

// isAhead reports whether the clock was set forward since the last call. passed has the time that has
// passed, as time.Now returns it, and clock is the time of the clock.
func (w *clockWatch) isAhead(passed, clock time.Time) bool {
	before := *w
	*w = clockWatch{passed, clock}
	return !before.clock.IsZero() && clock.Sub(before.clock)-passed.Sub(before.passed) > clockStep
}
