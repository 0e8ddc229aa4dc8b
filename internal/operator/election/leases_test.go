package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/crds/install"
)

func TestLeaseSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	client, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	api := client.CoordinationV1().Leases(c.namespace)
	ctx := t.Context()
	a, b := newLeaseSet(api, time.Second), newLeaseSet(api, time.Second)
	look := func() {
		t.Helper()
		require.NoError(t, a.look(ctx))
		require.NoError(t, b.look(ctx))
	}
	look()
	require.NoError(t, a.hold(ctx, "x", "a"))
	require.True(t, isOvertaken(b.hold(ctx, "x", "b")), "it was made since")
	look()
	require.Equal(t, "a", b.holder("x"))
	require.NoError(t, a.hold(ctx, "x", "a"))
	require.True(t, isOvertaken(b.hold(ctx, "x", "b")), "it was renewed since")
	require.Zero(t, b.oldest())
	require.Positive(t, a.oldest())
	require.Greater(t, a.nextEnd(), time.Hour, "it is our own")

	// It runs out when it was not seen to be renewed for as long as it says, and still is
	// whose it was until it is taken.
	look()
	require.True(t, waitUntil(func() bool { return b.holder("x") == "" }))
	require.Greater(t, b.nextEnd(), time.Hour, "it has run out")
	look()
	require.Equal(t, "a", a.holder("x"))
	require.NoError(t, a.lost())
	require.NoError(t, b.hold(ctx, "x", "b"))
	look()
	require.EqualError(t, a.lost(), "the lease was lost; another process may lead now: Lease x is held by b")
	require.ErrorIs(t, a.lost(), errLeaseLost)
	stored, err := api.Get(ctx, "x", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, int32(1), *stored.Spec.LeaseTransitions)

	// What is deleted stays ours, and is made again.
	require.NoError(t, api.Delete(ctx, "x", metav1.DeleteOptions{}))
	look()
	other := newLeaseSet(api, time.Second)
	require.NoError(t, other.look(ctx))
	require.Empty(t, other.holder("x"))
	require.Equal(t, "b", b.holder("x"))
	require.NoError(t, b.lost())
	require.NoError(t, b.hold(ctx, "x", "b"))

	// What is ours without our knowing is released as well, and nothing else.
	require.NoError(t, a.hold(ctx, "y", "a"))
	require.NoError(t, newLeaseSet(api, time.Second).releaseAll(ctx, "b"))
	look()
	require.Equal(t, "a", a.holder("y"))
	fresh := newLeaseSet(api, time.Second)
	require.NoError(t, fresh.look(ctx))
	require.Empty(t, fresh.holder("x"))
	require.Equal(t, "a", fresh.holder("y"))

	// The next end is that of another's Lease.
	require.NoError(t, a.release(ctx, "y"))
	require.NoError(t, newLeaseSet(api, time.Hour).hold(ctx, "z", "c"))
	require.NoError(t, fresh.look(ctx))
	require.InDelta(t, time.Hour, fresh.nextEnd(), float64(5*time.Minute))
}

// idleEngine acts on nothing.
type idleEngine struct {
	synced error
	taken  []int
}

func (e *idleEngine) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (e *idleEngine) Synced() error                 { return e.synced }
func (e *idleEngine) Take(shard int)                { e.taken = append(e.taken, shard) }
func (e *idleEngine) GiveUp(int)                    {}

// twoShardings are those of processes that share objects in a namespace and do not run yet.
func (c *cluster) twoShardings(shards int) (first, second *sharding) {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(restConfig(c.t))
	require.NoError(c.t, err)
	options := electionOptions{shards: shards, lease: time.Hour, renewDeadline: time.Minute, retry: time.Second}
	of := func(identity string) *sharding {
		return newSharding(options, client, c.namespace, identity, slog.Default())
	}
	return of("first"), of("second")
}

// Who has not filled its caches joins nobody who has, but does not wait for anybody either.
func TestJoinsWhenCachesAreFilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first, second := c.twoShardings(2)
	a, b := &idleEngine{synced: errors.New("not yet")}, &idleEngine{synced: errors.New("not yet")}
	round := func(s *sharding, e *idleEngine) {
		t.Helper()
		more, err := s.round(t.Context(), e, true)
		require.NoError(t, err)
		require.False(t, more)
	}
	round(first, a)
	require.Equal(t, []int{0, 1}, a.taken)
	<-first.elected()
	round(second, b)
	require.False(t, second.isMember)
	b.synced = nil
	round(second, b)
	require.True(t, second.isMember)
	require.Empty(t, b.taken)
	round(first, a)
	shard := <-first.givenUp
	require.Equal(t, 1, shard)
	round(second, b)
	require.Empty(t, b.taken, "its Lease is not released yet")
	first.gaveUp(t.Context(), shard)
	round(second, b)
	require.Equal(t, []int{1}, b.taken)
	select {
	case <-second.elected():
		require.Fail(t, "shard 0 is another's")
	default:
	}
	first.leave()
	round(second, b)
	require.Equal(t, []int{1, 0}, b.taken)
	<-second.elected()
}

// Who was faster than another at the Lease that all share, and slower at the only seat, holds
// nothing that it would have to renew.
func TestWhoGetsNoSeatHoldsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first, second := c.twoShardings(1)
	require.NoError(t, second.leases.look(t.Context()))
	require.NoError(t, second.leases.hold(t.Context(), install.LeaseName, layoutOf(1)))
	require.Positive(t, second.leases.oldest())

	_, err := first.round(t.Context(), &idleEngine{}, true)
	require.NoError(t, err)
	require.True(t, first.isMember)
	_, err = second.round(t.Context(), &idleEngine{}, true)
	require.NoError(t, err)
	require.False(t, second.isMember)
	require.Zero(t, second.leases.oldest())
	require.NoError(t, second.leases.lost())
}
