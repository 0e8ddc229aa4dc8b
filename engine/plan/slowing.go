package plan

import "time"

const (
	// slowingBase is the wait after the writes that are not delayed. It doubles with each further
	// one, up to slowingMax.
	slowingBase = time.Second
	slowingMax  = 5 * time.Minute
	// slowingQuiet is the least time without a write after which writes are not delayed again; it is
	// at least twice the last wait.
	slowingQuiet = time.Minute
)

// Slowing delays writes that are repeated: the first few are not delayed, and each further one twice
// as long as the one before.
type Slowing struct {
	// Free is how many are not delayed.
	Free int
	// Count is how many there were, and Last the time of the last one.
	Count int
	Last  time.Time
	// Problem describes a write that was held; it is nil before that.
	Problem *Problem
}

// Wrote counts a write.
func (s *Slowing) Wrote(now time.Time) {
	s.Count++
	s.Last = now
}

// delay is the wait before the next write.
func (s *Slowing) delay() time.Duration {
	if s.Count < s.Free {
		return 0
	}
	return min(slowingBase<<min(s.Count-s.Free, 16), slowingMax)
}

func (s *Slowing) due() time.Time { return s.Last.Add(s.delay()) }

func (s *Slowing) over() time.Time { return s.Last.Add(max(slowingQuiet, 2*s.delay())) }

// IsHeld reports whether the next write has to wait.
func (s *Slowing) IsHeld(now time.Time) bool { return now.Before(s.due()) }

// IsOver reports whether no write was necessary for so long that the next ones are not delayed.
func (s *Slowing) IsOver(now time.Time) bool { return !now.Before(s.over()) }

// Next returns when the next write may happen or, if it may already, when the slowing ends.
func (s *Slowing) Next(now time.Time) time.Time {
	if s.IsHeld(now) {
		return s.due()
	}
	return s.over()
}
