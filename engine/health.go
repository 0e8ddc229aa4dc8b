package engine

import (
	"errors"
	"fmt"
	"time"
)

// stuckAfter is when a pass counts as stuck: it ends by itself after passTimeout, unless
// it is caught where no context reaches.
const stuckAfter = 3 * passTimeout

// Synced returns nil when every kind that can be run has its caches filled, or else an
// error that names those that do not.
func (e *Engine) Synced() error {
	if !e.decided.Load() {
		return errors.New("no kind is started yet")
	}
	var errs []error
	for _, c := range e.running() {
		if !c.synced.Load() {
			errs = append(errs, fmt.Errorf("the caches of %s are not filled yet", c.kind.Name()))
		}
	}
	return errors.Join(errs...)
}

// Alive returns nil, or an error that names the kinds of which a pass hangs.
func (e *Engine) Alive() error {
	var errs []error
	for _, c := range e.running() {
		if longest := c.longestPass(time.Now()); longest > stuckAfter {
			errs = append(errs, fmt.Errorf("a pass of %s has been running for %s", c.kind.Name(), longest.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) running() []*controller {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.controllers
}

// longestPass is how long the oldest of the running passes has been running.
func (c *controller) longestPass(now time.Time) time.Duration {
	var longest time.Duration
	c.passes.Range(func(_, began any) bool {
		if began, ok := began.(time.Time); ok {
			longest = max(longest, now.Sub(began))
		}
		return true
	})
	return longest
}
