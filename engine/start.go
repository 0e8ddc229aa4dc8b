package engine

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fescue-dev/fescue/cue/kind"
)

// A kind for which something is missing is retried after startRetryBase, then after
// twice as long, up to startRetryMax: soon enough for someone who has just granted a right, and a
// few requests a minute otherwise. Recheck retries at once.
const (
	startRetryBase = 2 * time.Second
	startRetryMax  = time.Minute
	// announceAfter is when a kind that waits is logged: CRDs and rights that are being installed
	// together with the operator are there before.
	announceAfter = time.Second
)

// Absent names what a kind needs and the cluster does not have. Config.Missing returns it when that
// is certain; other errors mean that it could not be determined.
type Absent string

func (a Absent) Error() string { return string(a) }

// kindState is whether a kind runs.
type kindState struct {
	// recheck receives when Config.Missing may return something else than before.
	recheck chan struct{}
	// tried is set once it was tried to start the kind; waits is why it does not run, if so.
	tried bool
	waits error
	// announced is the reason that was logged last since the kind ran.
	announced string
	// running is the controller; it is nil if the kind does not run.
	running *controller
	// pods is nil if the kind does not inject.
	pods *podWatch
}

// runKind runs a kind whenever nothing is missing for it, until ctx ends. No kind waits for another.
func (e *Engine) runKind(ctx context.Context, k *kind.Kind) {
	newBackoff := func() wait.Backoff {
		return wait.Backoff{Duration: startRetryBase, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: startRetryMax}
	}
	backoff := newBackoff()
	for {
		err := e.missing(ctx, k)
		if err == nil {
			var synced bool
			if synced, err = e.runController(ctx, k); synced {
				backoff = newBackoff()
			}
		}
		if ctx.Err() != nil {
			return
		}
		e.wait(k, err)
		if !e.pause(ctx, k, backoff.Step()) {
			return
		}
		meta.MaybeResetRESTMapper(e.config.Mapper) // what it did not find may be served now
	}
}

// missing returns what the engine cannot know and a kind needs.
func (e *Engine) missing(ctx context.Context, k *kind.Kind) error {
	if e.config.Missing == nil {
		return nil
	}
	return e.config.Missing(ctx, k)
}

// wait records why a kind does not run.
func (e *Engine) wait(k *kind.Kind, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.kinds[k]
	state.tried, state.waits = true, err
	e.config.Metrics.waiting.WithLabelValues(k.Name()).Set(1)
}

// pause waits until it may be worth trying to start a kind again, and logs meanwhile why it does
// not run. It returns false if ctx has ended.
func (e *Engine) pause(ctx context.Context, k *kind.Kind, retry time.Duration) bool {
	recheck := e.state(k).recheck
	announce, again := time.NewTimer(announceAfter), time.NewTimer(retry)
	defer announce.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-announce.C:
			e.announce(k)
		case <-recheck:
			return true
		case <-again.C:
			return true
		}
	}
}

// announce logs why a kind does not run, unless that was logged before.
func (e *Engine) announce(k *kind.Kind) {
	e.mu.Lock()
	state := e.kinds[k]
	err, isNew := state.waits, state.waits.Error() != state.announced
	state.announced = state.waits.Error()
	e.mu.Unlock()
	if isNew {
		logOf(e.config.Log, k).Warn("kind waits for what it needs", "missing", err.Error())
	}
}

// runController runs a kind until ctx ends, something is missing for it, or its start fails, and
// returns why. synced reports whether it got as far as filled caches.
func (e *Engine) runController(ctx context.Context, k *kind.Kind) (synced bool, err error) {
	c := newController(k, &e.config, e.shards)
	state := e.state(k)
	c.pods, c.kinds = state.pods, e.Kinds
	e.mu.Lock()
	state.tried, state.waits, state.announced, state.running = true, nil, "", c
	e.mu.Unlock()
	e.config.Metrics.waiting.WithLabelValues(k.Name()).Set(0)
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		state.running = nil
	}()
	c.pods.start()

	ctx, stop := context.WithCancelCause(ctx)
	var rechecking sync.WaitGroup
	defer rechecking.Wait()
	defer stop(nil)
	rechecking.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-state.recheck:
			}
			if err := e.missing(ctx, k); isAbsent(err) {
				stop(err)
				return
			}
		}
	})
	err = c.run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return c.synced.Load(), err
}

func isAbsent(err error) bool {
	_, ok := errors.AsType[Absent](err)
	return ok
}

// Recheck asks Config.Missing again about the kind with that name, which starts or stops it.
func (e *Engine) Recheck(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, state := range e.kinds {
		if k.Name() != name {
			continue
		}
		select {
		case state.recheck <- struct{}{}:
		default: // it is about to be asked
		}
	}
}

// running returns the controllers of the kinds that run, in a fixed order.
func (e *Engine) running() []*controller {
	e.mu.Lock()
	defer e.mu.Unlock()
	var running []*controller
	for _, k := range e.order {
		if c := e.kinds[k].running; c != nil {
			running = append(running, c)
		}
	}
	return running
}
