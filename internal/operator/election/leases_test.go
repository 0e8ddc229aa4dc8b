package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

func TestLeaseSet(t *testing.T) {
	t.Parallel()
	api := leasesOf(t)
	ctx := t.Context()
	a, b := newLeaseSet(api, time.Second), newLeaseSet(api, time.Second)
	read := func() {
		t.Helper()
		require.NoError(t, a.read(ctx))
		require.NoError(t, b.read(ctx))
	}
	read()
	require.NoError(t, a.hold(ctx, "x", "a"))
	require.True(t, isOvertaken(b.hold(ctx, "x", "b")), "another process has created it since")
	read()
	require.Equal(t, "a", b.holder("x"))
	require.NoError(t, a.hold(ctx, "x", "a"))
	require.True(t, isOvertaken(b.hold(ctx, "x", "b")), "its holder has renewed it since")
	require.Zero(t, b.oldest())
	require.Positive(t, a.oldest())
	require.Greater(t, a.nextExpiry(), time.Hour, "it is the process's own")

	// A Lease expires when no renewal was seen for its duration. Its former holder keeps it
	// until another process takes it.
	read()
	require.True(t, testcluster.WaitUntil(func() bool { return b.holder("x") == "" }))
	require.Greater(t, b.nextExpiry(), time.Hour, "it has expired")
	read()
	require.Equal(t, "a", a.holder("x"))
	require.NoError(t, a.lost())
	require.NoError(t, b.hold(ctx, "x", "b"))
	read()
	require.EqualError(t, a.lost(), "the lease was lost; another process may lead now: Lease x is held by b")
	require.ErrorIs(t, a.lost(), ErrLeaseLost)
	stored, err := api.Get(ctx, "x", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, int32(1), *stored.Spec.LeaseTransitions)

	// A deleted Lease keeps its holder, which creates it again.
	require.NoError(t, api.Delete(ctx, "x", metav1.DeleteOptions{}))
	read()
	other := newLeaseSet(api, time.Second)
	require.NoError(t, other.read(ctx))
	require.Empty(t, other.holder("x"))
	require.Equal(t, "b", b.holder("x"))
	require.NoError(t, b.lost())
	require.NoError(t, b.hold(ctx, "x", "b"))

	// A Lease that the process does not know it holds is released too, and no other.
	require.NoError(t, a.hold(ctx, "y", "a"))
	require.NoError(t, newLeaseSet(api, time.Second).releaseAll(ctx, "b"))
	read()
	require.Equal(t, "a", a.holder("y"))
	fresh := newLeaseSet(api, time.Second)
	require.NoError(t, fresh.read(ctx))
	require.Empty(t, fresh.holder("x"))
	require.Equal(t, "a", fresh.holder("y"))

	// The next expiry is that of another process's Lease.
	require.NoError(t, a.release(ctx, "y"))
	require.NoError(t, newLeaseSet(api, time.Hour).hold(ctx, "z", "c"))
	require.NoError(t, fresh.read(ctx))
	require.InDelta(t, time.Hour, fresh.nextExpiry(), float64(5*time.Minute))
}

// names are the names of the Leases in these tests.
var names = Names{
	Leader: "all",
	Member: func(i int) string { return fmt.Sprintf("member-%d", i) },
	Shard:  func(i int) string { return fmt.Sprintf("shard-%d", i) },
}

// leasesOf returns the API of Leases in a new namespace.
func leasesOf(t *testing.T) coordinationclient.LeaseInterface {
	t.Helper()
	client, err := kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	return client.CoordinationV1().Leases(testcluster.Namespace(t))
}

// idleEngine does nothing but record its shards.
type idleEngine struct {
	synced error
	taken  []int
}

func (e *idleEngine) Run(ctx context.Context) error { <-ctx.Done(); return nil }
func (e *idleEngine) Synced() error                 { return e.synced }
func (e *idleEngine) Take(shard int)                { e.taken = append(e.taken, shard) }
func (e *idleEngine) GiveUp(int)                    {}

// twoShardings returns two processes that share objects and do not run yet.
func twoShardings(t *testing.T, shards int) (first, second *sharding) {
	t.Helper()
	leases := leasesOf(t)
	options := Options{Shards: shards, LeaseDuration: time.Hour, RenewDeadline: time.Minute, RetryPeriod: time.Second}
	return newSharding(options, names, leases, "first", slog.Default()), newSharding(options, names, leases, "second", slog.Default())
}

// A process whose caches are not filled does not join others. It takes all shards if there are no
// others.
func TestJoinsWhenCachesAreFilled(t *testing.T) {
	t.Parallel()
	first, second := twoShardings(t, 2)
	a, b := &idleEngine{synced: errors.New("not yet")}, &idleEngine{synced: errors.New("not yet")}
	round := func(s *sharding, e *idleEngine) {
		t.Helper()
		more, err := s.round(t.Context(), e, true)
		require.NoError(t, err)
		require.False(t, more)
	}
	round(first, a)
	require.Equal(t, []int{0, 1}, a.taken)
	<-first.Elected()
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
	require.Empty(t, b.taken, "its Lease has not been released yet")
	first.gaveUp(t.Context(), shard)
	round(second, b)
	require.Equal(t, []int{1}, b.taken)
	select {
	case <-second.Elected():
		require.Fail(t, "another process holds shard 0")
	default:
	}
	first.leave()
	round(second, b)
	require.Equal(t, []int{1, 0}, b.taken)
	<-second.Elected()
}

// A process that gets the shared Lease but no member Lease holds nothing, and has nothing to renew.
func TestNoMemberLeaseHoldsNothing(t *testing.T) {
	t.Parallel()
	first, second := twoShardings(t, 2)
	require.NoError(t, second.leases.read(t.Context()))
	require.NoError(t, second.leases.hold(t.Context(), names.Leader, layoutOf(2)))
	require.Positive(t, second.leases.oldest())
	for i := range 2 {
		require.NoError(t, first.leases.hold(t.Context(), names.Member(i), fmt.Sprint("other", i)))
	}
	_, err := second.round(t.Context(), &idleEngine{}, true)
	require.NoError(t, err)
	require.False(t, second.isMember)
	require.Zero(t, second.leases.oldest())
	require.NoError(t, second.leases.lost())
}

// With one shard, one process leads and all others are standbys. Only one Lease is read, because
// the rights of an installation are limited to it.
func TestOneShardHasALeader(t *testing.T) {
	t.Parallel()
	first, second := twoShardings(t, 1)
	a, b := &idleEngine{}, &idleEngine{}
	round := func(s *sharding, e *idleEngine, mayTake bool) {
		t.Helper()
		more, err := s.round(t.Context(), e, mayTake)
		require.NoError(t, err)
		require.False(t, more)
	}
	round(first, a, false)
	require.Empty(t, a.taken, "it is stopping")
	round(first, a, true)
	require.Equal(t, []int{0}, a.taken)
	<-first.Elected()
	round(second, b, true)
	round(first, a, false)
	require.Empty(t, b.taken)
	require.Equal(t, "first", second.leases.holder(names.Leader))
	require.Len(t, second.leases.newest, 1)
	first.leave()
	round(second, b, true)
	require.Equal(t, []int{0}, b.taken)
	<-second.Elected()
	require.NoError(t, first.leases.read(t.Context()))
	require.Len(t, first.leases.newest, 1)
	stored, err := first.leases.client.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, stored.Items, 1)
}

// At the moment at which a Lease expires, another process takes it: it neither keeps its holder nor has a time that is still to come.
func TestLeaseAtItsExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLeaseSet(nil, time.Second)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a"), LeaseDurationSeconds: new(int32(1))}}
		l.newest["x"], l.seen["x"] = lease, sighting{at: time.Now()}
		time.Sleep(l.nextExpiry())
		require.Empty(t, l.holder("x"))
		require.Greater(t, l.nextExpiry(), time.Hour)
	})
}
