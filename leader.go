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

	"github.com/fescue-dev/fescue/crds/manifests"
)

// electionOptions bear the names and defaults of Kubernetes' own components
// (k8s.io/component-base/config/options).
type electionOptions struct {
	elect                       bool
	namespace                   string
	lease, renewDeadline, retry time.Duration
}

func (o *electionOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.elect, "leader-elect", false, "act only while leading, so that several processes can run: the others stand by with their caches filled")
	flags.StringVar(&o.namespace, "leader-elect-resource-namespace", "", "namespace of the Lease; the one of the Pod or of the kubeconfig context if not given")
	flags.DurationVar(&o.lease, "leader-elect-lease-duration", 15*time.Second, "how long others wait before they take over from a leader that does not answer")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader tries to renew its lease before it gives up")
	flags.DurationVar(&o.retry, "leader-elect-retry-period", 2*time.Second, "wait between two tries to acquire or renew the lease")
}

// errLeaseLost ends the process: another may lead by now.
var errLeaseLost = errors.New("the lease was lost; another process may lead now")

// elector lets one of several processes act.
type elector struct {
	// elected is closed when this process may act.
	elected chan struct{}
	// lost is closed when it no longer may.
	lost     chan struct{}
	election *leaderelection.LeaderElector
	watchdog *leaderelection.HealthzAdaptor
}

// newElector wires the election; without --leader-elect this process has won.
func newElector(o electionOptions, client kubernetes.Interface, namespace string, log *slog.Logger) (*elector, error) {
	e := &elector{elected: make(chan struct{}), lost: make(chan struct{})}
	if !o.elect {
		close(e.elected)
		return e, nil
	}
	if o.namespace != "" {
		namespace = o.namespace
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	identity := host + "_" + uuid.NewString() // a name may come back after a crash
	// A leader that hangs longer than this after its lease has run out is restarted.
	const tolerance = 20 * time.Second
	e.watchdog = leaderelection.NewLeaderHealthzAdaptor(tolerance)
	e.election, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: manifests.LeaseName, Namespace: namespace},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		Name:          manifests.LeaseName,
		LeaseDuration: o.lease, RenewDeadline: o.renewDeadline, RetryPeriod: o.retry,
		ReleaseOnCancel: true, WatchDog: e.watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				log.Info("leading", "lease", namespace+"/"+manifests.LeaseName, "identity", identity)
				close(e.elected)
			},
			OnStoppedLeading: func() { close(e.lost) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("--leader-elect: %w", err)
	}
	return e, nil
}

// run takes part in the election while work runs, and releases the lease only when work
// has returned: until then, passes may be writing. A lost lease ends it at once, without
// waiting for work: what is under way has less time than the lease lasts.
func (e *elector) run(ctx context.Context, work func(context.Context) error) error {
	if e.election == nil {
		return work(ctx)
	}
	electing, stopElecting := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() { e.election.Run(electing); close(over) }()
	defer func() { stopElecting(); <-over }()

	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	select {
	case err := <-done:
		return err
	case <-e.lost:
		return errLeaseLost
	}
}

// check fails when this process leads by its own account although its lease has long run
// out.
func (e *elector) check(r *http.Request) error {
	if e.watchdog == nil {
		return nil
	}
	return e.watchdog.Check(r)
}
