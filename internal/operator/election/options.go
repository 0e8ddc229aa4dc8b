package election

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Options are the flags of the election. Their names and defaults are those of Kubernetes' own
// components (k8s.io/component-base/config/options).
type Options struct {
	// Elect turns the election on. Without it, this process acts on all objects at once.
	Elect bool
	// Shards is the number of parts that objects are divided into; 1 elects a single leader.
	Shards int
	// Namespace holds the Leases; if empty, it is the one given to New.
	Namespace string
	// LeaseDuration, RenewDeadline and RetryPeriod mean what they mean in client-go's
	// leaderelection.LeaderElectionConfig.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// retryJitter is the factor by which a wait may be longer than RetryPeriod, so that processes do not
// retry in step. It is that of client-go's leaderelection.
const retryJitter = 1.2

// AddFlags adds the flags of the election.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Elect, "leader-elect", false,
		"act only while leading, so that several replicas can run; the others are standbys with filled caches")
	flags.IntVar(
		&o.Shards,
		"shards",
		1,
		"number of shards that objects are divided into, by UID, which divide the work and the caches among as many replicas; more than 1 implies --leader-elect",
	)
	flags.StringVar(&o.Namespace, "leader-elect-resource-namespace", "",
		"namespace of the Leases; defaults to the namespace of the Pod or of the kubeconfig context")
	flags.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", 15*time.Second,
		"how long a standby waits before it takes over from a leader that stopped renewing its Lease")
	flags.DurationVar(&o.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"how long a leader retries to renew its Lease before it gives up")
	flags.DurationVar(&o.RetryPeriod, "leader-elect-retry-period", 2*time.Second,
		"wait between two attempts to acquire or renew the Lease")
}

// Complete validates the flags. maxShards is the largest number of shards.
func (o *Options) Complete(maxShards int) error {
	if o.Shards < 1 || o.Shards > maxShards {
		return fmt.Errorf("--shards: invalid value %d: must be between 1 and %d", o.Shards, maxShards)
	}
	o.Elect = o.Elect || o.Shards > 1
	if !o.Elect {
		return nil
	}
	if o.LeaseDuration <= o.RenewDeadline {
		return fmt.Errorf(
			"--leader-elect-lease-duration: invalid value %s: must be greater than --leader-elect-renew-deadline, %s",
			o.LeaseDuration, o.RenewDeadline)
	}
	if o.RetryPeriod <= 0 || o.RenewDeadline <= time.Duration(retryJitter*float64(o.RetryPeriod)) {
		return fmt.Errorf(
			"--leader-elect-retry-period: invalid value %s: must be greater than 0, and %g times it less than --leader-elect-renew-deadline, %s",
			o.RetryPeriod,
			retryJitter,
			o.RenewDeadline,
		)
	}
	return nil
}
