//go:build !race

package kind

// raceEnabled reports whether the race detector is on, which makes everything slow.
const raceEnabled = false
