//go:build !linux && !darwin

package cli

import "time"

var started = time.Now()

// cpuTime returns the time since this process was started, where its CPU time is not known.
func cpuTime() time.Duration { return time.Since(started) }

func limitCPUTime(time.Duration) {}
