package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fescue-dev/fescue/cue/kind"
)

// stuckAfter is when a reconcile counts as stuck: it ends by itself after reconcileTimeout,
// unless it hangs where no context reaches.
const stuckAfter = 3 * reconcileTimeout

// Synced returns nil when the caches of every kind that can be run are filled, or else an
// error that names the others. With several shards, caches are filled when one is taken, and this does
// not wait for them.
func (e *Engine) Synced() error { return e.SyncedExcept(func(*kind.Kind) bool { return false }) }

// SyncedExcept is Synced without some kinds: those whose objects cannot be read before this process is
// ready.
func (e *Engine) SyncedExcept(late func(*kind.Kind) bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.order) == 0 {
		return errors.New("no kind was added yet")
	}
	var errs []error
	for _, k := range e.order {
		switch state := e.kinds[k]; {
		case late(k):
		case !state.tried:
			errs = append(errs, fmt.Errorf("%s has not started yet", k.Name()))
		case e.shards.divides(): // it fills its caches for each shard that it takes
		case state.waits == nil && (state.running[0] == nil || !state.running[0].synced.Load()):
			errs = append(errs, fmt.Errorf("the caches of %s are not filled yet", k.Name()))
		}
	}
	return errors.Join(errs...)
}

// Waiting returns a line for each kind that waits for what it needs, with the reason.
func (e *Engine) Waiting() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var lines []string
	for _, k := range e.order {
		if waits := e.kinds[k].waits; waits != nil {
			lines = append(lines, fmt.Sprintf("%s waits: %s", k.Name(), strings.ReplaceAll(waits.Error(), "\n", "; ")))
		}
	}
	return lines
}

// Alive returns nil, or an error that names the kinds with a reconcile that hangs.
func (e *Engine) Alive() error {
	var errs []error
	for _, c := range e.running() {
		if longest := c.longestReconcile(time.Now()); longest > stuckAfter {
			errs = append(errs, fmt.Errorf("a reconcile of %s has been running for %s", c.kind.Name(),
				longest.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// longestReconcile returns how long the oldest of the running reconciles has been running.
func (c *controller) longestReconcile(now time.Time) time.Duration {
	var longest time.Duration
	c.records.running.Range(func(_, began any) bool {
		if began, ok := began.(time.Time); ok {
			longest = max(longest, now.Sub(began))
		}
		return true
	})
	return longest
}
