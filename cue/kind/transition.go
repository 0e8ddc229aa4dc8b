package kind

import (
	"errors"
	"fmt"
	"time"
)

// Transition is a way out of a phase. It holds when its condition does, from the time of its
// trigger on, or at the times of its schedule.
type Transition struct {
	// To is the phase that the transition leads to.
	To string
	// When is the condition; it is true for a transition without one.
	When bool
	// After is the trigger; it is nil for a transition without one.
	After *Trigger
	// Cron is the schedule; it is nil for a transition without one.
	Cron *Schedule
	// StartingDeadline is for how long a time of the schedule can be met; 0 means until the next.
	StartingDeadline time.Duration
}

// Missed reports whether it is too late for a time of the schedule.
func (t *Transition) Missed(scheduled, now time.Time) bool {
	return t.StartingDeadline > 0 && scheduled.Add(t.StartingDeadline).Before(now)
}

// Trigger is a point in time: an absolute one, or a delay since the phase was entered.
type Trigger struct {
	At    time.Time
	Delay time.Duration
}

// ParseTrigger reads a time in RFC 3339 or a duration as time.ParseDuration takes it,
// which must not be negative.
func ParseTrigger(text string) (*Trigger, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return &Trigger{At: at}, nil
	}
	delay, err := time.ParseDuration(text)
	if err == nil && delay < 0 {
		return nil, fmt.Errorf("%q must not be negative: it counts from when the object enters the phase", text)
	}
	if err != nil {
		return nil, fmt.Errorf("%q is neither a time in RFC 3339 like \"2006-01-02T15:04:05Z\" nor a duration like \"5m\"", text)
	}
	return &Trigger{Delay: delay}, nil
}

// Due returns the time from which on the trigger holds, for a phase entered at entered.
func (t *Trigger) Due(entered time.Time) time.Time {
	if t.At.IsZero() {
		return entered.Add(t.Delay)
	}
	return t.At
}

// TimeFields are the fields of a transition that say when it is taken.
var TimeFields = []string{"after", "cron", "timeZone", "startingDeadline"}

// TimeTexts are the values of timeFields that a transition has; nil is one that is not known yet.
type TimeTexts map[string]*string

// Read sets the times of a transition, as far as they are known. An error is about the field.
func (texts TimeTexts) Read(t *Transition) (field string, err error) {
	has := func(name string) bool { _, ok := texts[name]; return ok }
	if has("cron") && has("after") {
		return "cron", errors.New("a transition has after or cron, not both")
	}
	for _, name := range []string{"timeZone", "startingDeadline"} {
		if has(name) && !has("cron") {
			return name, errors.New("is for a transition with cron")
		}
	}
	if text := texts["after"]; text != nil {
		if t.After, err = ParseTrigger(*text); err != nil {
			return "after", err
		}
	}
	if text := texts["startingDeadline"]; text != nil {
		if t.StartingDeadline, err = ParseDeadline(*text); err != nil {
			return "startingDeadline", err
		}
	}
	zone := ""
	if text := texts["timeZone"]; text != nil {
		if zone = *text; zone == "" {
			return "timeZone", errors.New("must not be empty; without timeZone, the schedule is in UTC")
		}
		if texts["cron"] == nil {
			_, err = ParseTimeZone(zone)
			return "timeZone", err
		}
	}
	if text := texts["cron"]; text != nil {
		if t.Cron, err = ParseSchedule(*text, zone); err != nil {
			if _, unknown := ParseTimeZone(zone); unknown != nil {
				return "timeZone", unknown
			}
		}
	}
	return "cron", err
}
