//go:build race

package kind

// raceEnabled tells that the race detector watches, under which everything is slow.
const raceEnabled = true
