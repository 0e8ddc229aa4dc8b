package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// Processes of different versions must agree.
func TestShardOfAnObject(t *testing.T) {
	t.Parallel()
	for uid, want := range map[types.UID]int{
		"":                                     2,
		"3d1a3b1e-6a0c-4a57-9d05-0f6f2d7c9a11": 2,
		"8f14e45f-ceea-467f-ab3b-5a8e2c1d4b60": 1,
	} {
		require.Equal(t, want, newShards(3).of(uid), uid)
	}
}

func TestShardIsGivenUpWhenItsReconcilesHaveEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShards(2)
		_, mine := s.begin(0)
		require.False(t, mine)
		select {
		case <-s.acting:
			require.Fail(t, "no shard is taken yet")
		default:
		}
		s.take(0)
		s.take(1)
		<-s.acting
		end, mine := s.begin(0)
		require.True(t, mine)
		endOther, _ := s.begin(1)
		defer endOther() // it does not block giveUp
		given := make(chan struct{})
		go func() { s.giveUp(0); close(given) }()
		synctest.Wait()
		select {
		case <-given:
			require.Fail(t, "a reconcile is running")
		default:
		}
		_, mine = s.begin(0)
		require.False(t, mine)
		require.Equal(t, 1, s.owned())
		end()
		<-given
		s.take(0)
		require.True(t, s.owns(0))
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

// sharded is an engine on a fake API server with an At in each of two shards, called by its number, and its
// Pod. It runs until the test ends.
func sharded(t *testing.T) (*Engine, *fake.FakeDynamicClient) {
	t.Helper()
	k := enginetest.Shipped(t, "At")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		k.GroupVersionResource(): "AtList", pods: "PodList",
	})
	e, err := New(Config{
		Kinds: []*kind.Kind{k}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil),
		Mapper: mapper(), Log: quiet(), Events: events.NewFakeRecorder(100), Shards: 2,
	})
	require.NoError(t, err)
	for shard := range 2 {
		object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "")}
		object.SetNamespace("default")
		object.SetName(strconv.Itoa(shard))
		object.SetUID(uidIn(e.shards, shard))
		require.NoError(t, client.Tracker().Create(k.GroupVersionResource(), object, "default"))
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		pod.SetNamespace("default")
		pod.SetName("of-" + object.GetName())
		pod.SetUID(types.UID("pod-" + object.GetName()))
		pod.SetLabels(map[string]string{children.LabelOwnerUID: string(object.GetUID())})
		pod.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(object, k.GroupVersionKind)})
		require.NoError(t, client.Tracker().Create(pods, pod, "default"))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return e, client
}

// cached returns the names of the objects and of the Pods that a controller caches.
func (c *controller) cached() (objects, children []string) {
	names := func(w *informers.Watch) (names []string) {
		w.Each(func(o metav1.Object) { names = append(names, o.GetName()) })
		slices.Sort(names)
		return names
	}
	_, watches := c.types.known()
	return names(c.objects), names(watches[pods])
}

// A process has the objects of the shards that it has taken in its caches, and their children, and no others.
func TestShardsDivideTheCaches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, client := sharded(t)
		settle := func() { time.Sleep(time.Second); synctest.Wait() } // a cache is asked every 100 ms whether it is filled
		owned := func() float64 { return testutil.ToFloat64(e.config.Metrics.shards) }
		counted := func() (n float64) {
			for _, phase := range []string{"", "PENDING", "RUNNING", "DONE"} {
				n += testutil.ToFloat64(e.config.Metrics.objects.WithLabelValues("ats.cnat.fescue.dev", phase))
			}
			return n
		}
		settle()
		require.NoError(t, e.Synced(), "a process that has no shard is ready to take one")
		require.Empty(t, e.running())
		require.Zero(t, owned())

		e.Take(1)
		settle()
		require.Len(t, e.running(), 1)
		objects, children := e.running()[0].cached()
		require.Equal(t, []string{"1"}, objects)
		require.Contains(t, children, "of-1")
		require.NotContains(t, children, "of-0")
		require.InDelta(t, 1, owned(), 0)
		require.InDelta(t, 1, counted(), 0)

		e.Take(0)
		settle()
		require.Len(t, e.running(), 2)
		objects, children = e.running()[0].cached()
		require.Equal(t, []string{"0"}, objects)
		require.Contains(t, children, "of-0")
		require.NotContains(t, children, "of-1")
		require.InDelta(t, 2, counted(), 0)

		left := e.running()[1]
		e.GiveUp(1)
		settle()
		require.Len(t, e.running(), 1)
		require.NotEqual(t, left, e.running()[0])
		require.InDelta(t, 1, counted(), 0)

		// Given up and taken again before anyone has noticed.
		before := e.running()[0]
		e.GiveUp(0)
		e.Take(0)
		settle()
		require.Len(t, e.running(), 1)
		require.NotSame(t, before, e.running()[0], "what the other had forgotten is queued again")
		require.NotEmpty(t, client.Actions())
	})
}

// A shard that cannot be started is tried again, and does not stop those that run.
func TestShardThatCannotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, client := sharded(t)
		var isDown atomic.Bool
		client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			isDamaged := strings.Contains(action.(clienttesting.ListAction).GetListRestrictions().Labels.String(), "managed-by")
			return isDown.Load() && isDamaged, nil, apierrors.NewServiceUnavailable("no answer")
		})
		wait := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		e.Take(0)
		wait(time.Second)
		first := e.running()[0]
		isDown.Store(true)
		e.Take(1)
		wait(time.Minute)
		require.Same(t, first, e.running()[0])
		require.True(t, first.synced.Load())
		require.Empty(t, e.Waiting())
		isDown.Store(false)
		wait(2 * time.Minute)
		require.Len(t, e.running(), 2)
		require.True(t, e.running()[1].synced.Load())
	})
}

// A child that nothing controls is in the caches of all shards: each may have the object to adopt it.
func TestOrphanIsCachedByAllShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, client := sharded(t)
		orphan := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		orphan.SetNamespace("default")
		orphan.SetName("orphan")
		orphan.SetUID("orphan")
		orphan.SetLabels(map[string]string{children.LabelOwnerUID: string(uidIn(e.shards, 1))})
		orphan.SetAnnotations(map[string]string{children.AnnotationOwner: children.OwnerPrefix(e.Kinds()[0]) + "1"})
		require.NoError(t, client.Tracker().Create(pods, orphan, "default"))
		e.Take(0)
		e.Take(1)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, e.running(), 2)
		for _, c := range e.running() {
			_, children := c.cached()
			require.Contains(t, children, "orphan")
		}
	})
}

// The controller of a child decides which shard keeps it, and without one its label.
func TestShardOfAChild(t *testing.T) {
	t.Parallel()
	s := newShards(2)
	for shard := range 2 {
		c := &scope{s, shard}
		ours, others := uidIn(s, shard), uidIn(s, 1-shard)
		child := func(controller, label types.UID) *unstructured.Unstructured {
			pod := &unstructured.Unstructured{Object: map[string]any{}}
			pod.SetLabels(map[string]string{children.LabelOwnerUID: string(label)})
			if controller != "" {
				pod.SetOwnerReferences([]metav1.OwnerReference{{UID: controller, Controller: new(true)}})
			}
			return pod
		}
		require.True(t, c.isKeptHere(child(ours, others)))
		require.False(t, c.isKeptHere(child(others, ours)))
		require.True(t, c.isKeptHere(child("", ours)))
		require.False(t, c.isKeptHere(child("", others)))
	}
}
