package apiserver

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Faults are what goes wrong between clients and a server. The zero value is that nothing does, and that nothing takes
// time.
type Faults struct {
	// Random returns a number from 0 to n-1. It must be safe for concurrent use.
	Random func(n int) int
	// Delay is the longest time that a request takes to the server, and its answer back, and an event.
	Delay time.Duration
	// Of so many requests one fails, and one loses its answer after it was carried out; 0 is none.
	Fail, Lose int
	// Of so many events one breaks its watch, one is sent twice, and one is late by up to a minute, as all that follow
	// it; 0 is none.
	Break, Double, Lag int
	// Of so many watches that resume, one is told that its version is forgotten, so that its client sees nothing of
	// what was between; 0 is none.
	Forget int
}

// errReset is what a client sees of a connection that breaks.
var errReset = errors.New("connection reset by peer")

// one reports whether one of n is the present one.
func (f Faults) one(n int) bool { return n > 0 && f.Random(n) == 0 }

// pause waits as long as a message takes.
func (f Faults) pause(ctx context.Context) error { return f.wait(ctx, f.Delay) }

// wait waits for a part of a duration.
func (f Faults) wait(ctx context.Context, longest time.Duration) error {
	if longest <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(time.Duration(f.Random(int(longest))))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// failure returns why a request is not carried out; nil if it is.
func (f Faults) failure() error {
	if !f.one(f.Fail) {
		return nil
	}
	switch f.Random(4) {
	case 0:
		return errReset
	case 1:
		return apierrors.NewInternalError(errors.New("a fault"))
	case 2:
		return apierrors.NewTooManyRequests("too many requests", 1)
	}
	return apierrors.NewServiceUnavailable("the server is not ready")
}
