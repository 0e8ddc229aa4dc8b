package engine

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
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
	// running are the controllers, by shard; there are none if the kind does not run.
	running map[int]*controller
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
	state := e.state(k)
	e.mu.Lock()
	state.tried, state.waits, state.announced = true, nil, ""
	e.mu.Unlock()
	e.config.Metrics.waiting.WithLabelValues(k.Name()).Set(0)
	state.pods.start()

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
	synced = e.runShards(ctx, stop, k)
	return synced, context.Cause(ctx)
}

// runShards runs a kind for each of the shards to run, until ctx ends. fail ends it when one cannot be
// started. synced reports whether one got as far as filled caches.
func (e *Engine) runShards(ctx context.Context, fail context.CancelCauseFunc, k *kind.Kind) (synced bool) {
	type run struct {
		*controller
		taken int
		stop  func()
	}
	runs := make(map[int]run)
	end := func(shard int) {
		runs[shard].stop()
		synced = synced || runs[shard].synced.Load()
		delete(runs, shard)
	}
	for {
		shards, changed := e.shards.toRun()
		for shard, r := range runs {
			if taken, ok := shards[shard]; !ok || taken != r.taken {
				end(shard)
			}
		}
		for shard, taken := range shards {
			if _, ok := runs[shard]; !ok {
				c, stop := e.startShard(ctx, fail, k, shard)
				runs[shard] = run{c, taken, stop}
			}
		}
		select {
		case <-ctx.Done():
			for shard := range runs {
				end(shard)
			}
			return synced
		case <-changed:
		}
	}
}

// startShard starts to run a kind for the objects of one shard. stop ends that, and returns when the
// running reconciles have ended.
func (e *Engine) startShard(ctx context.Context, fail context.CancelCauseFunc, k *kind.Kind, shard int) (c *controller, stop func()) {
	c = newController(k, &e.config, e.shards, shard)
	state := e.state(k)
	c.pods, c.kinds = state.pods, e.Kinds
	e.mu.Lock()
	state.running[shard] = c
	e.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.run(ctx); err != nil && ctx.Err() == nil {
			fail(err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(state.running, shard)
	}()
	return c, func() { cancel(); <-ended }
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
		for _, shard := range slices.Sorted(maps.Keys(e.kinds[k].running)) {
			running = append(running, e.kinds[k].running[shard])
		}
	}
	return running
}
