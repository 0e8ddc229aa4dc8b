package operator

import (
	"log/slog"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// limitMemory makes the garbage collector work harder near nine tenths of the container's memory
// limit, as cgroup v1 or v2 states it, instead of letting the heap double; GOMEMLIMIT overrides it.
// The downward API can state the limit too, but no share of it, and other installations would have
// to repeat that.
func limitMemory(log *slog.Logger) {
	if limit, err := memlimit.Set(); err != nil {
		log.Debug("the container's memory limit is not known", "error", err)
	} else {
		log.Debug("memory limit", "bytes", limit)
	}
}
