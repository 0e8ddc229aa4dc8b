package engine

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
)

// startEngine runs a kind on a fake API server until the test ends.
func startEngine(t *testing.T, log *slog.Logger, mapper meta.RESTMapper, missing func() error) (*Engine, *kind.Kind) {
	t.Helper()
	at := enginetest.Shipped(t, "At")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		at.GroupVersionResource(): "AtList", {Version: "v1", Resource: "pods"}: "PodList",
	})
	e, err := New(Config{
		Kinds: []*kind.Kind{at}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper, Log: log,
		Missing: func(context.Context, *kind.Kind) error { return missing() },
	})
	require.NoError(t, err)
	require.EqualError(t, e.Synced(), "ats.cnat.fescue.dev has not started yet")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return e, at
}

func (e *Engine) waits(k *kind.Kind) bool {
	return testutil.ToFloat64(e.config.Metrics.waiting.WithLabelValues(k.Name())) > 0
}

// A kind for which something is missing starts once nothing is; what is missing is logged once, not
// with each retry.
func TestKindStartsWhenItCan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		var tries atomic.Int32
		e, at := startEngine(t, slog.New(slog.NewTextHandler(&log, nil)), mapper(), func() error {
			if tries.Add(1) < 6 {
				return errors.New("no rights")
			}
			return nil
		})
		synctest.Wait()
		require.True(t, e.waits(at))
		require.NoError(t, e.Synced(), "a kind that waits does not keep the process from being ready")
		require.Equal(t, []string{"ats.cnat.fescue.dev waits: no rights"}, e.Waiting())
		time.Sleep(startRetryBase * 5) // two retries
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
		require.Contains(t, log.String(), `msg="kind waits for what it needs" kind=At group=cnat.fescue.dev missing="no rights"`)
		time.Sleep(10 * startRetryMax)
		synctest.Wait()
		require.EqualValues(t, 6, tries.Load(), "nothing is retried once it runs")
		require.False(t, e.waits(at))
		require.NoError(t, e.Synced())
		require.Empty(t, e.Waiting())
		require.Len(t, e.running(), 1)
	})
}

// A kind that runs stops when something is certainly missing for it, and starts again when it is
// not. It continues if that cannot be determined.
func TestRecheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Pointer[error]
		e, at := startEngine(t, quiet(), mapper(), func() error {
			if err := missing.Load(); err != nil {
				return *err
			}
			return nil
		})
		synctest.Wait()
		first := e.running()
		require.Len(t, first, 1)
		recheck := func(err error) {
			missing.Store(&err)
			e.Recheck("ats.cnat.fescue.dev")
			synctest.Wait()
		}
		recheck(errors.New("no answer"))
		require.Equal(t, first, e.running())
		missing.Store(nil)
		time.Sleep(startRetryMax)
		synctest.Wait()
		require.Equal(t, first, e.running())
		recheck(errors.New("no answer"))
		missing.Store(new(error(Absent("no CRD"))))
		time.Sleep(2 * startRetryBase)
		synctest.Wait()
		require.Empty(t, e.running(), "it is asked again")
		missing.Store(nil)
		e.Recheck("ats.cnat.fescue.dev")
		synctest.Wait()
		recheck(Absent("no CRD"))
		require.Empty(t, e.running())
		require.True(t, e.waits(at))
		require.NoError(t, e.Synced())
		missing.Store(nil)
		e.Recheck("ats.cnat.fescue.dev")
		synctest.Wait()
		require.Len(t, e.running(), 1)
		require.NotEqual(t, first, e.running())
		require.False(t, e.waits(at))
	})
}

// A kind whose start fails is started again.
func TestFailedStartIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failing := &failingMapper{RESTMapper: mapper()}
		failing.left.Store(3)
		e, at := startEngine(t, quiet(), failing, func() error { return nil })
		synctest.Wait()
		require.True(t, e.waits(at))
		require.NoError(t, e.Synced())
		time.Sleep(startRetryMax)
		synctest.Wait()
		require.Len(t, e.running(), 1)
		require.NoError(t, e.Synced())
	})
}

// failingMapper fails a few times.
type failingMapper struct {
	meta.RESTMapper
	left atomic.Int32
}

func (m *failingMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.left.Add(-1) >= 0 {
		return nil, errors.New("discovery failed")
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

// A kind that can never run is an error at once.
func TestKindsThatCannotRun(t *testing.T) {
	t.Parallel()
	clustered := *enginetest.Shipped(t, "At")
	clustered.Scope = apiextensionsv1.ClusterScoped
	_, err := New(Config{Kinds: []*kind.Kind{&clustered}, Informers: informers.New(t.Context(), nil, []string{"a"}), Log: quiet()})
	require.EqualError(t, err, "kind At: it is cluster-scoped, so it cannot be limited to namespaces")

	e, err := New(Config{Informers: informers.New(t.Context(), nil, []string{"a"}), Log: quiet()})
	require.NoError(t, err)
	at := enginetest.Shipped(t, "At")
	require.EqualError(t, e.Add(&clustered, at), "kind At: it is cluster-scoped, so it cannot be limited to namespaces")
	require.Equal(t, []*kind.Kind{at}, e.Kinds(), "the others are added")
}

// A kind does not wait for another one, for which it takes long to find out whether something is
// missing.
func TestKindsStartOnTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := *enginetest.Shipped(t, "At")
		slow.Names.Plural = "slows"
		at := enginetest.Shipped(t, "At")
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			at.GroupVersionResource(): "AtList", {Version: "v1", Resource: "pods"}: "PodList",
		})
		e, err := New(Config{
			Kinds: []*kind.Kind{&slow}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet(),
			Missing: func(ctx context.Context, k *kind.Kind) error {
				if k == &slow {
					<-ctx.Done()
				}
				return ctx.Err()
			},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		require.NoError(t, e.Add(at))
		time.Sleep(time.Second) // the caches are polled
		synctest.Wait()
		require.Len(t, e.running(), 1)
		require.Equal(t, at, e.running()[0].kind)
		stop()
		require.NoError(t, <-ended)
	})
}

// A kind that is added while the engine runs is run like the others, until the engine stops.
func TestKindsAreAddedLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			enginetest.Shipped(t, "At").GroupVersionResource(): "AtList", {Version: "v1", Resource: "pods"}: "PodList",
		})
		e, err := New(Config{Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet()})
		require.NoError(t, err)
		require.EqualError(t, e.Synced(), "no kind was added yet")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		synctest.Wait()
		require.NoError(t, e.Add(enginetest.Shipped(t, "At")))
		time.Sleep(time.Second) // the caches are polled
		synctest.Wait()
		require.Len(t, e.running(), 1)
		require.NoError(t, e.Synced())
		stop()
		require.NoError(t, <-ended)
		require.Empty(t, e.running())
		require.NoError(t, e.Add(enginetest.Shipped(t, "At")), "too late")
		synctest.Wait()
		require.Empty(t, e.running())
	})
}

func TestAliveNoticesAReconcileThatHangs(t *testing.T) {
	t.Parallel()
	at := enginetest.Shipped(t, "At")
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Kinds: []*kind.Kind{at}, Informers: informers.New(t.Context(), nil, nil), Mapper: mapper(), Log: quiet()})
		require.NoError(t, err)
		c := newController(at, &e.config, e.shards, 0)
		defer c.queue.ShutDown()
		e.kinds[at].tried, e.kinds[at].running = true, map[int]*controller{0: c}
		require.EqualError(t, e.Synced(), "the caches of ats.cnat.fescue.dev are not filled yet")

		c.records.running.Store("test/a", time.Now())
		time.Sleep(reconcileTimeout)
		require.NoError(t, e.Alive(), "it times out by itself")
		time.Sleep(stuckAfter)
		require.EqualError(t, e.Alive(), "a reconcile of ats.cnat.fescue.dev has been running for 4m0s")
	})
}
