package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fescue-dev/fescue/crds/install"
)

// electionOptions bear the names and defaults of Kubernetes' own components
// (k8s.io/component-base/config/options).
type electionOptions struct {
	elect                       bool
	shards                      int
	namespace                   string
	lease, renewDeadline, retry time.Duration
}

func (o *electionOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.elect, "leader-elect", false, "act only while leading, so that several processes can run: the others stand by with their caches filled")
	flags.IntVar(&o.shards, "shards", 1, "into how many shards objects are divided, by their UIDs, so that as many processes can share the work; more than 1 turns --leader-elect on")
	flags.StringVar(&o.namespace, "leader-elect-resource-namespace", "", "namespace of the Leases; the one of the Pod or of the kubeconfig context if not given")
	flags.DurationVar(&o.lease, "leader-elect-lease-duration", 15*time.Second, "how long others wait before they take over from a leader that does not answer")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader tries to renew its lease before it gives up")
	flags.DurationVar(&o.retry, "leader-elect-retry-period", 2*time.Second, "wait between two tries to acquire or renew the lease")
}

// complete checks the flags.
func (o *electionOptions) complete() error {
	if o.shards < 1 || o.shards > install.MaxShards {
		return fmt.Errorf("--shards: invalid value %d: must be between 1 and %d", o.shards, install.MaxShards)
	}
	if o.shards == 1 {
		return nil // client-go checks the rest
	}
	o.elect = true
	const jitter = leaderelection.JitterFactor
	if o.lease <= o.renewDeadline {
		return fmt.Errorf("--leader-elect-lease-duration: invalid value %s: must be greater than --leader-elect-renew-deadline, %s", o.lease, o.renewDeadline)
	}
	if o.retry <= 0 || o.renewDeadline <= time.Duration(jitter*float64(o.retry)) {
		return fmt.Errorf("--leader-elect-retry-period: invalid value %s: must be greater than 0, and %g times it less than --leader-elect-renew-deadline, %s", o.retry, jitter, o.renewDeadline)
	}
	return nil
}

// leaseTolerance is how long after its lease has run out a process that hangs is to be
// restarted.
const leaseTolerance = 20 * time.Second

// shardEngine is what an election tells which objects it may act on.
type shardEngine interface {
	Run(ctx context.Context) error
	Synced() error
	Take(shard int)
	GiveUp(shard int)
}

// election decides what this process may act on.
type election interface {
	// elected is closed when this process may do what one of several is enough for.
	elected() <-chan struct{}
	// run takes part while the engine runs, and returns its error or errLeaseLost.
	run(ctx context.Context, e shardEngine) error
	// check fails when this process acts although it has long ceased to be allowed to.
	check(r *http.Request) error
}

// newElection wires what the flags ask for, and says what the engine has to know of it.
func newElection(o electionOptions, client kubernetes.Interface, namespace string, log *slog.Logger) (e election, shards int, err error) {
	if !o.elect {
		return alone{}, 0, nil
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, 0, err
	}
	identity := host + "_" + uuid.NewString() // a name may come back after a crash
	if o.shards > 1 {
		return newSharding(o, client, namespace, identity, log), o.shards, nil
	}
	e, err = newElector(o, client, namespace, identity, log)
	return e, 1, err
}

// alone is the election of a process that has no others beside it.
type alone struct{}

func (alone) elected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

func (alone) run(ctx context.Context, e shardEngine) error { return e.Run(ctx) }

func (alone) check(*http.Request) error { return nil }

// errLeaseLost ends the process: another may lead by now.
var errLeaseLost = errors.New("the lease was lost; another process may lead now")

// elector lets one of several processes act, on all objects.
type elector struct {
	// leading is closed when this process may act.
	leading chan struct{}
	// lost is closed when it no longer may.
	lost     chan struct{}
	election *leaderelection.LeaderElector
	watchdog *leaderelection.HealthzAdaptor
}

func newElector(o electionOptions, client kubernetes.Interface, namespace, identity string, log *slog.Logger) (*elector, error) {
	e := &elector{
		leading: make(chan struct{}), lost: make(chan struct{}),
		watchdog: leaderelection.NewLeaderHealthzAdaptor(leaseTolerance),
	}
	var err error
	e.election, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: install.LeaseName, Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		Name:          install.LeaseName,
		LeaseDuration: o.lease, RenewDeadline: o.renewDeadline, RetryPeriod: o.retry,
		ReleaseOnCancel: true, WatchDog: e.watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				log.Info("leading", "lease", namespace+"/"+install.LeaseName, "identity", identity)
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

func (e *elector) elected() <-chan struct{} { return e.leading }

// run takes part in the election while the engine runs, and releases the lease only when
// all passes have ended: until then, they may be writing. A lost lease ends it at once,
// without waiting: what is under way has less time than the lease lasts.
func (e *elector) run(ctx context.Context, engine shardEngine) error {
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
		release = err == nil // otherwise passes may still be writing, and the lease runs out
		return err
	case <-e.lost:
		return errLeaseLost
	}
}

// check fails when this process leads by its own account although its lease has long run
// out.
func (e *elector) check(r *http.Request) error {
	return e.watchdog.Check(r)
}
