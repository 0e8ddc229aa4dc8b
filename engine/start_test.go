package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
	"github.com/fescue-dev/fescue/internal/informers"
)

// A kind for which something is missing does not stop the others, and starts once nothing is;
// what is missing is logged once, not with each retry.
func TestKindsStartWhenTheyCan(t *testing.T) {
	t.Parallel()
	at, features := enginetest.Shipped(t, "At"), enginetest.Corpus(t, "features")
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var mu sync.Mutex // synctest orders reads after earlier writes, but not before later ones
		tries := make(map[*kind.Kind]int)
		e, err := New(Config{
			Kinds: []*kind.Kind{features, at}, Informers: informers.New(t.Context(), nil, nil), Mapper: mapper(), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Missing: func(_ context.Context, k *kind.Kind) error {
				mu.Lock()
				defer mu.Unlock()
				tries[k]++
				if k == features && tries[k] < 6 {
					return errors.New("no rights")
				}
				return nil
			},
		})
		require.NoError(t, err)
		require.EqualError(t, e.Synced(), "no kind has started yet")

		var started []*kind.Kind
		go e.startKinds(t.Context(), func(c *controller) {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, c.kind)
			c.queue.ShutDown()
		})
		synctest.Wait()
		mu.Lock()
		require.Equal(t, []*kind.Kind{at}, started)
		mu.Unlock()
		require.InDelta(t, 1, testutil.ToFloat64(e.config.Metrics.waiting.WithLabelValues(features.Name())), 0)
		require.Zero(t, testutil.ToFloat64(e.config.Metrics.waiting.WithLabelValues(at.Name())))
		require.NoError(t, e.Synced(), "a kind that waits does not keep the process from being ready")

		time.Sleep(startRetryBase * 5) // two retries
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), `kind Feature: no rights`)

		time.Sleep(10 * startRetryMax)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []*kind.Kind{at, features}, started, log.String())
		require.Equal(t, map[*kind.Kind]int{at: 1, features: 6}, tries, "nothing is retried once all run")
		require.Zero(t, testutil.ToFloat64(e.config.Metrics.waiting.WithLabelValues(features.Name())))
	})
}

func TestStartEndsWithTheProcess(t *testing.T) {
	t.Parallel()
	at := enginetest.Shipped(t, "At")
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{
			Kinds: []*kind.Kind{at}, Informers: informers.New(t.Context(), nil, nil), Mapper: mapper(), Log: quiet(),
			Missing: func(context.Context, *kind.Kind) error { return errors.New("never") },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { e.startKinds(ctx, nil); close(ended) }()
		synctest.Wait()
		cancel()
		<-ended
	})
}

// A kind that can never run is an error at once.
func TestKindsThatCannotRun(t *testing.T) {
	t.Parallel()
	clustered := *enginetest.Shipped(t, "At")
	clustered.Scope = apiextensionsv1.ClusterScoped
	_, err := New(Config{Kinds: []*kind.Kind{&clustered}, Informers: informers.New(t.Context(), nil, []string{"a"}), Log: quiet()})
	require.EqualError(t, err, "kind At: it is cluster-scoped, so it cannot be limited to namespaces")
	_, err = New(Config{Informers: informers.New(t.Context(), nil, nil), Log: quiet()})
	require.EqualError(t, err, "there are no kinds to run")

	e, err := New(Config{Kinds: []*kind.Kind{&clustered, enginetest.Shipped(t, "At")}, Informers: informers.New(t.Context(), nil, []string{"a"}), Log: quiet()})
	require.NoError(t, err)
	require.Len(t, e.config.Kinds, 1)
}

func TestAliveNoticesAReconcileThatHangs(t *testing.T) {
	t.Parallel()
	at := enginetest.Shipped(t, "At")
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Kinds: []*kind.Kind{at}, Informers: informers.New(t.Context(), nil, nil), Mapper: mapper(), Log: quiet()})
		require.NoError(t, err)
		c := newController(at, &e.config, e.shards)
		defer c.queue.ShutDown()
		e.controllers = []*controller{c}
		require.EqualError(t, e.Synced(), "no kind has started yet")
		e.decided.Store(true)
		require.EqualError(t, e.Synced(), "the caches of ats.cnat.fescue.dev are not filled yet")

		c.running.Store("test/a", time.Now())
		time.Sleep(reconcileTimeout)
		require.NoError(t, e.Alive(), "it times out by itself")
		time.Sleep(stuckAfter)
		require.EqualError(t, e.Alive(), "a reconcile of ats.cnat.fescue.dev has been running for 4m0s")
	})
}
