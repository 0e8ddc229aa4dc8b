package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/fescue-dev/fescue/crds/install"
)

// sharding has each of several processes act on a part of the objects. What it holds are
// Leases of three sorts: one that all members share and that says into how many shards
// objects are divided, one for each member, and one for each shard. A process acts on a
// shard while it holds the first and the last. docs/decisions/0017-shards.md has why.
type sharding struct {
	leases  *leaseSet
	options electionOptions
	// me is another name in each process, also after a crash.
	me       string
	log      *slog.Logger
	chosen   chan struct{} // closed when shard 0 is ours
	giving   map[int]bool  // the shards that the engine is giving up
	givenUp  chan int      // those that it has given up
	isMember bool
}

// newSharding wires an election for options that were checked.
func newSharding(o electionOptions, client kubernetes.Interface, namespace, identity string, log *slog.Logger) *sharding {
	return &sharding{
		leases: newLeaseSet(client.CoordinationV1().Leases(namespace), o.lease), options: o, me: identity, log: log,
		chosen: make(chan struct{}), giving: make(map[int]bool), givenUp: make(chan int, o.shards),
	}
}

func (s *sharding) elected() <-chan struct{} { return s.chosen }

// run takes part while e runs, and releases what it holds only when all passes of e have
// ended: until then, they may be writing.
func (s *sharding) run(ctx context.Context, e shardEngine) error {
	electing := context.WithoutCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	for {
		more, err := s.round(electing, e, ctx.Err() == nil)
		left := s.options.renewDeadline - s.leases.oldest()
		switch {
		case errors.Is(err, errLeaseLost):
			return err
		case left <= 0:
			return errLeaseLost
		case err != nil:
			s.log.Warn("Leases could not be seen to; it is tried again", "error", err)
		}
		pause := min(left, s.leases.nextEnd(), wait.Jitter(s.options.retry, leaderelection.JitterFactor-1))
		if more {
			pause = 0
		}
		timer := time.NewTimer(pause)
		select {
		case err := <-done:
			timer.Stop()
			if err == nil { // otherwise passes may still be writing, and the Leases run out
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

// round looks at all Leases, renews those that are ours and, if it may change anything,
// takes others and begins to give some up. There may be more to do at once after it.
func (s *sharding) round(ctx context.Context, e shardEngine, mayChange bool) (more bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.leases.look(ctx); err != nil {
		return false, err
	}
	if err := s.leases.lost(); err != nil {
		return false, err
	}
	seen := s.holders()
	mine := seen.claims(s.me, layoutOf(s.options.shards))
	// Who cannot act yet leaves it to those who do, and takes nothing from them.
	canJoin := mayChange && (e.Synced() == nil || !seen.hasMembers())
	if mine.member < 0 || !s.isMember && !canJoin {
		if !s.isMember { // it may have been faster than others at the shared Lease, and not at a seat
			s.leases.disown(install.LeaseName)
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

// bounded is for requests: they end when the Leases that are ours have to be renewed.
func (s *sharding) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.renewDeadline-s.leases.oldest())
}

func (s *sharding) holders() holders {
	h := holders{layout: s.leases.holder(install.LeaseName)}
	for i := range s.options.shards {
		h.members = append(h.members, s.leases.holder(install.MemberLease(i)))
		h.shards = append(h.shards, s.leases.holder(install.ShardLease(i)))
	}
	return h
}

// hold renews what is ours, and takes what is to be. The shared Lease comes first: without
// it, nobody may act.
func (s *sharding) hold(ctx context.Context, e shardEngine, mine claims, mayTake bool) error {
	if err := s.leases.hold(ctx, install.LeaseName, layoutOf(s.options.shards)); err != nil {
		return err
	}
	if err := s.leases.hold(ctx, install.MemberLease(mine.member), s.me); err != nil {
		return err
	}
	if !s.isMember {
		s.isMember = true
		s.log.Info("member", "lease", install.MemberLease(mine.member), "identity", s.me)
	}
	for shard := range s.options.shards {
		lease := install.ShardLease(shard)
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
		if shard == 0 { // it is taken once, since share lets whoever has it keep it
			close(s.chosen)
		}
	}
	return nil
}

// giveUp begins to give up shards. Their Leases are renewed until the engine has done so.
func (s *sharding) giveUp(ctx context.Context, e shardEngine, shards []int) error {
	for _, shard := range shards {
		lease := install.ShardLease(shard)
		switch {
		case s.giving[shard]:
		case s.leases.holds(lease):
			s.giving[shard] = true
			go func() { e.GiveUp(shard); s.givenUp <- shard }()
		default: // the engine has given it up, and then it could not be released
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
	if err := s.leases.release(ctx, install.ShardLease(shard)); err != nil {
		s.log.Warn("a Lease could not be released; it is tried again", "error", err)
	}
}

// leave releases everything but what is shared with the other members.
func (s *sharding) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.renewDeadline)
	defer cancel()
	if err := s.leases.releaseAll(ctx, s.me); err != nil {
		s.log.Warn("Leases could not be released; others wait for their end", "error", err)
	}
}

// check fails when this process holds a Lease by its own account that has long run out.
func (s *sharding) check(*http.Request) error {
	if age := s.leases.oldest(); age > s.options.lease+leaseTolerance {
		return fmt.Errorf("a Lease was not renewed for %s", age.Round(time.Second))
	}
	return nil
}
