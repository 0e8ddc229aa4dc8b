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

func newStartBackoff() wait.Backoff {
	return wait.Backoff{Duration: startRetryBase, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: startRetryMax}
}

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
	backoff := newStartBackoff()
	for {
		err := e.missing(ctx, k)
		if err == nil {
			var synced bool
			if synced, err = e.runController(ctx, k); synced {
				backoff = newStartBackoff()
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
		if err := e.recheck(ctx, k, state.recheck); err != nil {
			stop(err)
		}
	})
	synced = e.runShards(ctx, stop, k)
	return synced, context.Cause(ctx)
}

// recheck asks whether something is missing for a kind that runs, each time that requests receives, and returns what is
// certainly missing. What cannot be determined is asked again. It returns nil when ctx ends.
func (e *Engine) recheck(ctx context.Context, k *kind.Kind, requests <-chan struct{}) error {
	backoff := newStartBackoff()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-requests:
		case <-again:
		}
		switch err := e.missing(ctx, k); {
		case isAbsent(err):
			return err
		case err == nil:
			backoff, again = newStartBackoff(), nil
		case ctx.Err() == nil:
			delay := backoff.Step()
			logOf(e.config.Log, k).Warn("checking what a running kind needs failed; retrying",
				"after", delay, "error", err)
			again = time.After(delay)
		}
	}
}

// runShards runs a kind for each of the shards to run, until ctx ends. fail ends it when the kind cannot be
// run at all. synced reports whether a shard got as far as filled caches.
func (e *Engine) runShards(ctx context.Context, fail context.CancelCauseFunc, k *kind.Kind) (synced bool) {
	runs := make(map[int]*shardRun)
	for {
		shards, changed := e.shards.toRun()
		for shard, r := range runs {
			if taken, ok := shards[shard]; !ok || taken != r.taken {
				r.stop()
			}
		}
		for shard, taken := range shards {
			former := runs[shard]
			if former != nil && former.taken == taken {
				continue
			}
			starting, stop := context.WithCancel(ctx)
			r := &shardRun{taken: taken, stop: stop, ended: make(chan struct{})}
			runs[shard] = r
			go func() {
				defer close(r.ended)
				if former != nil {
					<-former.ended
					r.synced = former.synced
				}
				if e.runShard(starting, fail, k, shard) {
					r.synced = true
				}
			}()
		}
		select {
		case <-ctx.Done():
			for _, r := range runs {
				r.stop()
				<-r.ended
				synced = synced || r.synced
			}
			return synced
		case <-changed:
		}
	}
}

// shardRun is a kind that runs for one shard.
type shardRun struct {
	// taken is which time of taking the shard it is for.
	taken int
	// stop ends it, without waiting. ended is closed when its running reconciles have ended.
	stop  func()
	ended chan struct{}
	// synced is whether it got as far as filled caches, or a former run of the shard did. It is set when it has ended.
	synced bool
}

// runShard runs a kind for the objects of one shard until ctx ends. A start that fails is repeated without effect
// on the other shards; if there are none, or what the kind needs is absent, fail is called. synced reports
// whether it got as far as filled caches.
func (e *Engine) runShard(ctx context.Context, fail context.CancelCauseFunc, k *kind.Kind, shard int) (synced bool) {
	state := e.state(k)
	backoff := newStartBackoff()
	for ctx.Err() == nil {
		c := newController(k, &e.config, e.shards, shard)
		c.pods, c.kinds, c.repeats, c.swaps = state.pods, e.Kinds, e.repeats, e.swaps
		e.mu.Lock()
		state.running[shard] = c
		e.mu.Unlock()
		err := c.run(ctx)
		e.mu.Lock()
		delete(state.running, shard)
		e.mu.Unlock()
		synced = synced || c.synced.Load()
		switch {
		case err == nil || ctx.Err() != nil:
			return synced
		case !e.shards.divides() || isAbsent(err):
			fail(err)
			return synced
		}
		c.log.Warn("the shard could not be started; retrying", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(backoff.Step()):
		}
	}
	return synced
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
