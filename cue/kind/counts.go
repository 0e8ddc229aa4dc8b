package kind

import "sync/atomic"

// Counts is how often a kind was asked since it was loaded.
type Counts struct {
	// Decisions are the calls of Decide that succeeded, and Failures those that failed.
	Decisions, Failures uint64
	// Fallbacks is how often an object was validated or got defaults by the CUE evaluator,
	// because its schema has fields marked @kube(eval) and the other checks found no error.
	Fallbacks uint64
}

// counters are the only thing about a kind that changes once it is loaded; no answer
// depends on them.
type counters struct{ decisions, failures, fallbacks atomic.Uint64 }

func (c *counters) decided(err error) {
	if err != nil {
		c.failures.Add(1)
		return
	}
	c.decisions.Add(1)
}

// Counts sums up over all versions of the kind.
func (k *Kind) Counts() Counts {
	var sum Counts
	for _, v := range k.Versions {
		asked := &v.evaluator.asked
		sum.Decisions += asked.decisions.Load()
		sum.Failures += asked.failures.Load()
		sum.Fallbacks += asked.fallbacks.Load()
	}
	return sum
}
