package kind

import (
	"sync/atomic"
)

// Counts is how often a kind was asked since it was loaded.
type Counts struct {
	// Decisions are the calls of Decide that succeeded, and Failures those that failed.
	Decisions, Failures uint64
}

// counters are the only thing about a kind that changes once it is loaded; no answer
// depends on them.
type counters struct{ decisions, failures atomic.Uint64 }

func (c *counters) decided(err error) {
	if err != nil {
		c.failures.Add(1)
		return
	}
	c.decisions.Add(1)
}

// Counts returns how often the kind was asked.
func (k *Kind) Counts() Counts {
	return Counts{Decisions: k.asked.decisions.Load(), Failures: k.asked.failures.Load()}
}
