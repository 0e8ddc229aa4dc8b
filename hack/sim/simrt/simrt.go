//go:build sim

// Package simrt starts and stops histories whose choices follow from a seed. It needs the runtime of hack/sim/overlay.
package simrt

// Start begins a history in the bubble that it is called in (testing/synctest), with GOMAXPROCS=1.
func Start(o Options) { start(o.Seed, o.Yield, o.Tick, o.Demote) }

// Stop ends the history.
func Stop() (s Stats) {
	s.Hash, s.Picks, s.Choices, s.Points, s.Yields, s.Values = stop()
	return s
}

func start(seed uint64, yield, tick, demote uint32)

func stop() (hash, picks, choices, points, yields, values uint64)
