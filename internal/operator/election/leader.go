package election

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// elector lets one of several processes act, on all objects.
type elector struct {
	// leading is closed when this process may act.
	leading chan struct{}
	// lost is closed when it may no longer act.
	lost     chan struct{}
	election *leaderelection.LeaderElector
	watchdog *leaderelection.HealthzAdaptor
}

func newElector(o Options, lease string, client kubernetes.Interface, namespace, identity string, log *slog.Logger) (*elector, error) {
	e := &elector{
		leading: make(chan struct{}), lost: make(chan struct{}),
		watchdog: leaderelection.NewLeaderHealthzAdaptor(leaseTolerance),
	}
	var err error
	e.election, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: lease, Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		Name:          lease,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		ReleaseOnCancel: true, WatchDog: e.watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				log.Info("leading", "lease", namespace+"/"+lease, "identity", identity)
				close(e.leading)
			},
			OnStoppedLeading: func() { close(e.lost) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--leader-elect: %w", err)
	}
	return e, nil
}

func (e *elector) Elected() <-chan struct{} { return e.leading }

func (e *elector) Shards() int { return 1 }

// Run takes part in the election while the engine runs. It releases the Lease only when the
// engine has stopped writing. A lost Lease ends it at once, without waiting: requests in flight
// have less time than the Lease lasts.
func (e *elector) Run(ctx context.Context, engine Engine) error {
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() { e.election.Run(electing); close(over) }()
	go func() {
		select {
		case <-e.leading:
			engine.Take(0)
		case <-over:
		}
	}()
	release := true
	defer func() {
		if release {
			stopElecting()
			<-over
		}
	}()

	done := make(chan error, 1)
	go func() { done <- engine.Run(ctx) }()
	select {
	case err := <-done:
		release = err == nil // otherwise it may still be writing, and the Lease has to expire
		return err
	case <-e.lost:
		return ErrLeaseLost
	}
}

// Check fails when this process believes to lead although its Lease expired long ago.
func (e *elector) Check(r *http.Request) error {
	return e.watchdog.Check(r)
}
