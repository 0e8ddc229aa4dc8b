package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// sharding divides the objects between several processes, the members. There are three sorts
// of Leases: one that all members share, which records the number of shards; one per member;
// and one per shard. A process acts on a shard while it holds the shared Lease and that of the
// shard. docs/decisions/0017-shards.md explains why.
//
// With one shard, there is only the first Lease. It is not shared: the process that holds it leads,
// and all others are standbys.
type sharding struct {
	leases  *leaseSet
	names   Names
	options Options
	// me differs in each process, also after a crash.
	me       string
	log      *slog.Logger
	chosen   chan struct{} // closed when this process holds shard 0
	giving   map[int]bool  // the shards that the engine is giving up
	givenUp  chan int      // the shards that it has given up
	isMember bool
	lost     context.Context // done when another process may act; its cause is ErrLeaseLost
	lose     context.CancelCauseFunc
}

// newSharding wires an election for completed options.
func newSharding(
	o Options, names Names, leases coordinationclient.LeaseInterface, identity string, log *slog.Logger,
) *sharding {
	s := &sharding{
		leases: newLeaseSet(leases, o.LeaseDuration), names: names, options: o, me: identity, log: log,
		chosen: make(chan struct{}), giving: make(map[int]bool), givenUp: make(chan int, o.Shards),
	}
	if o.Shards == 1 {
		s.leases.only = names.Leader
	}
	s.lost, s.lose = context.WithCancelCause(context.Background())
	return s
}

func (s *sharding) Identity() string { return s.me }

func (s *sharding) Elected() <-chan struct{} { return s.chosen }

func (s *sharding) Shards() int { return s.options.Shards }

// Guard returns a copy of config for clients that change nothing unless this process holds its
// Leases.
func (s *sharding) Guard(config *rest.Config) (*rest.Config, error) {
	return guarded(s.lost, config, func() time.Duration {
		if !s.leases.holdsAny() {
			return 0
		}
		return s.left()
	})
}

// left returns the time until the held Leases must have been renewed. It ends before they expire,
// so that requests under way have the rest of the Leases' duration to arrive.
func (s *sharding) left() time.Duration { return s.options.RenewDeadline - s.leases.oldest() }

// Run takes part while e runs. It releases its Leases only when e has stopped writing. Lost Leases
// end it at once.
func (s *sharding) Run(ctx context.Context, e Engine) error {
	err := s.run(ctx, e)
	if errors.Is(err, ErrLeaseLost) {
		s.lose(ErrLeaseLost)
	}
	return err
}

func (s *sharding) run(ctx context.Context, e Engine) error {
	electing := context.WithoutCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for {
		more, err := s.round(electing, e, ctx.Err() == nil)
		left := s.left()
		switch {
		case errors.Is(err, ErrLeaseLost):
			return err
		case left <= 0:
			return ErrLeaseLost
		case err != nil:
			s.log.Warn("renewing Leases failed; retrying", "error", err)
		}
		pause := min(left, s.leases.nextExpiry(), wait.Jitter(s.options.RetryPeriod, retryJitter-1))
		if more {
			pause = 0
		}
		timer := time.NewTimer(pause)
		select {
		case err := <-done:
			timer.Stop()
			if err == nil { // otherwise it may still be writing, and the Leases have to expire
				s.leave()
			}
			return err
		case shard := <-s.givenUp:
			timer.Stop()
			s.gaveUp(electing, shard)
		case <-timer.C:
		}
	}
}

// round reads all Leases, renews those that this process holds and, if mayChange, takes others
// and begins to give some up. more reports whether another round has to follow at once.
func (s *sharding) round(ctx context.Context, e Engine, mayChange bool) (more bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.leases.read(ctx); err != nil {
		return false, err
	}
	if err := s.leases.lost(); err != nil {
		return false, err
	}
	if s.options.Shards == 1 {
		return s.lead(ctx, e, mayChange)
	}
	seen := s.holders()
	mine := seen.claims(s.me, layoutOf(s.options.Shards))
	// A process that is not ready takes nothing from members that already act.
	canJoin := mayChange && (e.Synced() == nil || !seen.hasMembers())
	if mine.member < 0 || !s.isMember && !canJoin {
		if !s.isMember { // it may have won the shared Lease without winning a member's Lease
			s.leases.disown(s.names.Leader)
		}
		return false, nil
	}
	err = s.hold(ctx, e, mine, mayChange)
	if isOvertaken(err) {
		return true, nil
	}
	if err == nil && mayChange {
		err = s.giveUp(ctx, e, mine.give)
	}
	return false, err
}

// lead renews the only Lease or, if mayTake and no other process holds it, takes it and with it all
// objects. more reports whether another process was faster.
func (s *sharding) lead(ctx context.Context, e Engine, mayTake bool) (more bool, err error) {
	lease := s.names.Leader
	isHeld := s.leases.holds(lease)
	if holder := s.leases.holder(lease); !isHeld && (!mayTake || holder != "" && holder != s.me) {
		return false, nil
	}
	err = s.leases.hold(ctx, lease, s.me)
	if isOvertaken(err) {
		return true, nil
	}
	if err != nil || isHeld {
		return false, err
	}
	s.log.Info("leading", "lease", lease, "identity", s.me)
	e.Take(0)
	close(s.chosen)
	return false, nil
}

// bounded returns a context for requests, which ends when the held Leases have to be renewed.
func (s *sharding) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.left())
}

func (s *sharding) holders() holders {
	h := holders{layout: s.leases.holder(s.names.Leader)}
	for i := range s.options.Shards {
		h.members = append(h.members, s.leases.holder(s.names.Member(i)))
		h.shards = append(h.shards, s.leases.holder(s.names.Shard(i)))
	}
	return h
}

// hold renews the Leases that this process holds and, if mayTake, takes those it claims. The
// shared Lease comes first: without it, no one may act.
func (s *sharding) hold(ctx context.Context, e Engine, mine claims, mayTake bool) error {
	if err := s.leases.hold(ctx, s.names.Leader, layoutOf(s.options.Shards)); err != nil {
		return err
	}
	if err := s.leases.hold(ctx, s.names.Member(mine.member), s.me); err != nil {
		return err
	}
	if !s.isMember {
		s.isMember = true
		s.log.Info("member", "lease", s.names.Member(mine.member), "identity", s.me)
	}
	for shard := range s.options.Shards {
		lease := s.names.Shard(shard)
		isHeld := s.leases.holds(lease)
		if !isHeld && (!mayTake || !slices.Contains(mine.take, shard)) {
			continue
		}
		if err := s.leases.hold(ctx, lease, s.me); err != nil {
			return err
		}
		if isHeld {
			continue
		}
		s.log.Info("shard taken", "shard", shard, "identity", s.me)
		e.Take(shard)
		if shard == 0 { // it is taken only once: share lets its holder keep it
			close(s.chosen)
		}
	}
	return nil
}

// giveUp begins to give up shards. Their Leases are renewed until the engine has done so.
func (s *sharding) giveUp(ctx context.Context, e Engine, shards []int) error {
	for _, shard := range shards {
		lease := s.names.Shard(shard)
		switch {
		case s.giving[shard]:
		case s.leases.holds(lease):
			s.giving[shard] = true
			go func() { e.GiveUp(shard); s.givenUp <- shard }()
		default: // the engine has given it up, but releasing the Lease failed
			if err := s.leases.release(ctx, lease); err != nil {
				return err
			}
		}
	}
	return nil
}

// gaveUp releases a shard that the engine has given up.
func (s *sharding) gaveUp(ctx context.Context, shard int) {
	delete(s.giving, shard)
	s.log.Info("shard given up", "shard", shard)
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.leases.release(ctx, s.names.Shard(shard)); err != nil {
		s.log.Warn("releasing a Lease failed; retrying", "error", err)
	}
}

// leave releases all Leases except the one that all members share.
func (s *sharding) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.RenewDeadline)
	defer cancel()
	if err := s.leases.releaseAll(ctx, s.me); err != nil {
		s.log.Warn("releasing Leases failed; other replicas wait until they expire", "error", err)
	}
}

// Check fails when this process believes to hold a Lease that expired long ago.
func (s *sharding) Check(*http.Request) error {
	if age := s.leases.oldest(); age > s.options.LeaseDuration+leaseTolerance {
		return fmt.Errorf("a Lease was not renewed for %s", age.Round(time.Second))
	}
	return nil
}
