package engine

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/internal/enginetest"
	"github.com/fescue-dev/fescue/internal/informers"
)

// Processes of different versions must agree.
func TestShardOfAnObject(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]int{
		"":                                     2166136261 % 3,
		"3d1a3b1e-6a0c-4a57-9d05-0f6f2d7c9a11": 1,
		"8f14e45f-ceea-467f-ab3b-5a8e2c1d4b60": 2,
	} {
		require.Equal(t, want, newShards(3).of(uid), uid)
	}
	const objects, parts = 30_000, 7
	var has [parts]int
	s := newShards(parts)
	for range objects {
		has[s.of(types.UID(uuid.NewString()))]++
	}
	for _, n := range has {
		require.InEpsilon(t, objects/parts, n, 0.1)
	}
}

func TestShardIsGivenUpWhenItsReconcilesHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShards(2)
		object, other := uidIn(s, 0), uidIn(s, 1)
		_, mine := s.begin(object)
		require.False(t, mine)
		select {
		case <-s.acting:
			require.Fail(t, "no shard is taken yet")
		default:
		}
		s.take(0)
		s.take(1)
		<-s.acting
		end, mine := s.begin(object)
		require.True(t, mine)
		endOther, _ := s.begin(other)
		defer endOther() // it does not block giveUp
		given := make(chan struct{})
		go func() { s.giveUp(0); close(given) }()
		synctest.Wait()
		select {
		case <-given:
			require.Fail(t, "a reconcile is running")
		default:
		}
		_, mine = s.begin(object)
		require.False(t, mine)
		require.Equal(t, 1, s.owned())
		end()
		<-given
		s.take(0)
		require.True(t, s.owns(object))
	})
}

// uidIn returns a UID that belongs to a shard.
func uidIn(s *shards, shard int) types.UID {
	for i := 0; ; i++ {
		if uid := types.UID(fmt.Sprintf("uid-%d", i)); s.of(uid) == shard {
			return uid
		}
	}
}

// Objects of a shard that is taken are queued; those of one that is given up are forgotten.
func TestTakingAndGivingUp(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "At")
	e, err := New(Config{Kinds: []*kind.Kind{k}, Informers: informers.New(t.Context(), nil, nil), Mapper: mapper(), Log: quiet(), Shards: 2})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards)
	t.Cleanup(c.queue.ShutDown)
	informer := cache.NewSharedIndexInformer(nil, &unstructured.Unstructured{}, 0, cache.Indexers{})
	objects, err := informers.NewCache(k.GroupVersionResource(), e.config.Informers.Namespaces(), func(string) (cache.SharedIndexInformer, error) { return informer, nil })
	require.NoError(t, err)
	c.objects = &informers.Watch{Cache: objects}
	for shard, name := range []string{"zero", "one"} {
		object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
		object.SetNamespace("test")
		object.SetName(name)
		object.SetUID(uidIn(e.shards, shard))
		require.NoError(t, informer.GetStore().Add(object))
	}
	e.kinds[k].running = c
	owned := func() float64 { return testutil.ToFloat64(e.config.Metrics.shards) }
	require.Zero(t, owned())
	e.Take(1)
	require.Zero(t, c.queue.Len(), "the kind has not started")
	e.GiveUp(1)

	c.synced.Store(true)
	e.Take(1)
	require.InDelta(t, 1, owned(), 0)
	queued(t, c, "one")
	require.Zero(t, c.queue.Len())

	name := cache.ObjectName{Namespace: "test", Name: "one"}
	c.writes.rememberChild(name, uidIn(e.shards, 1), childPlace{pods, name.Namespace}, "7")
	e.GiveUp(1)
	require.Zero(t, owned())
	require.Equal(t, 1, c.queue.Len())
	require.True(t, c.work(t.Context()))
	require.Empty(t, c.writes.byObject)
	require.Zero(t, c.queue.Len())
	require.Zero(t, testutil.ToFloat64(c.metrics.reconciles.WithLabelValues(c.metrics.name, resultSuccess.label())))
}
