package kind

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
	"k8s.io/utils/lru"
)

// Schedule is a cron schedule in a time zone, as in a CronJob.
type Schedule struct {
	Times    cron.Schedule
	Location *time.Location
}

// maxMissed is for how many years back a time may have been missed: far below what a time.Duration
// can hold, and more than a schedule for the 29th of February needs.
const maxMissed = 20

// schedules are those that were parsed last: reading a time zone takes longer than a decision.
var schedules = lru.New(1000)

// ParseSchedule reads a schedule of five fields, or a name like @hourly, as a CronJob does, and the
// name of a time zone; an empty one is UTC. Daylight saving time counts as in a CronJob: a time that
// the clock skips is left out, and one that it repeats comes twice.
func ParseSchedule(text, zone string) (*Schedule, error) {
	key := [2]string{text, zone}
	if known, ok := schedules.Get(key); ok {
		return known.(*Schedule), nil
	}
	s, err := parseSchedule(text, zone)
	if err == nil {
		schedules.Add(key, s)
	}
	return s, err
}

func parseSchedule(text, zone string) (*Schedule, error) {
	if strings.Contains(text, "TZ") { // the parser would accept it, and panics for some
		return nil, fmt.Errorf("%q must not have a time zone: write timeZone", text)
	}
	times, err := cron.ParseStandard(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a cron schedule like \"0 6 * * 1-5\": %w", text, err)
	}
	if times.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q is a cron schedule without any time: no month has that day", text)
	}
	location, err := ParseTimeZone(zone)
	if err != nil {
		return nil, err
	}
	return &Schedule{times, location}, nil
}

// ParseTimeZone reads the name of a time zone of the IANA database; an empty one is UTC.
func ParseTimeZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err == nil && strings.EqualFold(name, time.Local.String()) {
		err = errors.New("it depends on the machine")
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not the name of a time zone like \"Europe/Berlin\": %w", name, err)
	}
	return location, nil
}

// Next returns the first time of the schedule after another time; the zero time if there is none
// within five years.
func (s *Schedule) Next(after time.Time) time.Time {
	return s.Times.Next(after.In(s.Location)).UTC()
}

// Around returns the last time of the schedule that is later than since and not later than now, as Last does, and the
// first one after that, which is later than now. The times of "@every 1h" count from since. The zero time is none.
func (s *Schedule) Around(since, now time.Time) (last, next time.Time) {
	if last = s.Last(since, now); !last.IsZero() {
		since = last
	}
	return last, s.Next(since)
}

// Last returns the last time of the schedule that is later than since and not later than now; the
// zero time if there is none.
func (s *Schedule) Last(since, now time.Time) time.Time {
	if earliest := now.AddDate(-maxMissed, 0, 0); since.Before(earliest) {
		since = earliest
	}
	first := s.Next(since)
	if first.IsZero() || first.After(now) {
		return time.Time{}
	}
	if every, ok := s.Times.(cron.ConstantDelaySchedule); ok {
		return first.Add(now.Sub(first).Truncate(every.Delay))
	}
	// Schedules have whole seconds, and a later time never has an earlier successor. Years may
	// have been missed, so the last second with a successor that is over is searched for.
	at := func(second int) time.Time { return first.Add(time.Duration(second-1) * time.Second) }
	seconds := int(now.Sub(first)/time.Second) + 1
	return s.Next(at(sort.Search(seconds, func(i int) bool { return s.Next(at(i + 1)).After(now) })))
}
