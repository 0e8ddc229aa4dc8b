package kind

import (
	"fmt"
	"time"
)

// Transition is a way out of a phase. It holds when its condition does, from the time of its
// trigger on.
type Transition struct {
	// To is the phase that the transition leads to.
	To string
	// When is the condition; it is true for a transition without one.
	When bool
	// After is the trigger; it is nil for a transition without one.
	After *Trigger
}

// Trigger is a point in time: an absolute one, or a delay since the phase was entered.
type Trigger struct {
	at    time.Time
	delay time.Duration
}

// ParseTrigger reads a time in RFC 3339 or a duration as time.ParseDuration takes it,
// which must not be negative.
func ParseTrigger(text string) (*Trigger, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &Trigger{at: at}, nil
	}
	delay, err := time.ParseDuration(text)
	if err != nil || delay < 0 {
		return nil, fmt.Errorf("%q is neither a time in RFC 3339 like \"2006-01-02T15:04:05Z\" nor a duration like \"5m\"", text)
	}
	return &Trigger{delay: delay}, nil
}

// Due returns the time from which on the trigger holds, for a phase entered at entered.
func (t *Trigger) Due(entered time.Time) time.Time {
	if t.at.IsZero() {
		return entered.Add(t.delay)
	}
	return t.at
}
