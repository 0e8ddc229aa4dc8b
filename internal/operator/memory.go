package operator

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"

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

const (
	// idleWindow is how long the operator must have allocated little before it counts as idle.
	idleWindow = 10 * time.Second
	// leastUnused is how much memory must be unused before it is given back.
	leastUnused = 16 << 20
)

// heapUse is the state of the Go heap, in bytes.
type heapUse struct {
	// allocated is what was allocated since the process began, live what the last collection found in use, and
	// resident what the heap has from the kernel.
	allocated, live, resident uint64
}

func readHeap() heapUse {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	at := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heapUse{allocated: at(0), live: at(1), resident: at(2) + at(3) + at(4)}
}

// unused is what the heap has from the kernel beyond what is in use.
func (h heapUse) unused() uint64 { return max(h.resident, h.live) - h.live }

// isWasteful reports whether memory should be given back, given the heap a window ago, and what was unused when that
// was done last: the operator has worked, needs little now, and half as much as is in use is unused.
func (h heapUse) isWasteful(before heapUse, kept uint64) bool {
	isIdle := h.allocated-before.allocated < h.unused()/16
	return isIdle && h.unused() > kept+max(leastUnused, h.live/2)
}

// releaseUnusedMemory gives memory back to the kernel when the operator becomes idle, until ctx ends. After much work,
// the Go runtime keeps as much memory unused as is in use, for garbage that an idle operator does not make.
func releaseUnusedMemory(ctx context.Context) {
	ticker := time.NewTicker(idleWindow)
	defer ticker.Stop()
	before, kept := readHeap(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := readHeap()
		if now.isWasteful(before, kept) {
			debug.FreeOSMemory()
			now = readHeap()
			kept = now.unused()
		}
		before = now
	}
}
