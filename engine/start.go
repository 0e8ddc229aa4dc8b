package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fescue-dev/fescue/cue/kind"
)

// A kind for which something is missing is retried after startRetryBase, then after
// twice as long, up to startRetryMax: soon enough for someone who has just installed a CRD,
// and a few requests a minute otherwise.
const (
	startRetryBase = 2 * time.Second
	startRetryMax  = time.Minute
)

// startKinds starts each kind as soon as nothing is missing for it, and returns when all are
// started or ctx ends. What is missing is logged as one list, whenever it changes.
func (e *Engine) startKinds(ctx context.Context, start func(*controller)) {
	waiting := slices.Clone(e.config.Kinds)
	var reported string
	newBackoff := func() wait.Backoff {
		return wait.Backoff{Duration: startRetryBase, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: startRetryMax}
	}
	backoff := newBackoff()
	for {
		var missing []string
		left := slices.DeleteFunc(slices.Clone(waiting), func(k *kind.Kind) bool {
			c, err := e.prepare(ctx, k)
			if err != nil {
				missing = append(missing, fmt.Sprintf("kind %s: %s", k.GroupVersionKind.Kind, err))
				e.config.Metrics.waiting.WithLabelValues(k.Name()).Set(1)
				return false
			}
			e.config.Metrics.waiting.WithLabelValues(k.Name()).Set(0)
			start(c)
			return true
		})
		if len(left) < len(waiting) {
			backoff = newBackoff()
		}
		waiting = left
		e.decided.Store(true)
		if len(waiting) == 0 || ctx.Err() != nil {
			return
		}
		if text := strings.Join(missing, "; "); text != reported {
			e.config.Log.Warn("kinds wait for what they need", "kinds", len(waiting), "missing", text)
			reported = text
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		meta.MaybeResetRESTMapper(e.config.Mapper) // what it did not find may be served now
	}
}

// prepare returns the controller of a kind, or what is missing for it.
func (e *Engine) prepare(ctx context.Context, k *kind.Kind) (*controller, error) {
	if e.config.Missing != nil {
		if err := e.config.Missing(ctx, k); err != nil {
			return nil, err
		}
	}
	c := newController(k, &e.config, e.shards)
	if k.Injects() {
		c.pods = e.pods
	}
	return c, nil
}
