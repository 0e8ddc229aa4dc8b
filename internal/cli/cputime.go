//go:build linux || darwin

package cli

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process has taken.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0 // limitCPUTime remains
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// limitCPUTime has the kernel kill this process when it has taken more CPU time, rounded up to
// seconds. Go code cannot be interrupted everywhere.
func limitCPUTime(timeout time.Duration) {
	seconds := uint64((timeout + 2*time.Second - 1) / time.Second)
	// An error leaves the time that the parent waits as a limit.
	_ = syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds})
}
