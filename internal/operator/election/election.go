// Package election decides which of several processes acts on which objects. A single
// process acts on all of them; of several, one leader does, or each acts on its share.
//
// It knows Leases. It does not know kinds, objects or what acting means: an Engine
// learns from it which shards to take and to give up.
package election

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Engine acts on the objects of the shards that it has taken.
type Engine interface {
	// Run runs until ctx ends. It returns nil when nothing is being written any more.
	Run(ctx context.Context) error
	// Synced returns nil when the caches are filled, so that the engine can act at once.
	Synced() error
	Take(shard int)
	// GiveUp returns when nothing is being written for objects of the shard any more.
	GiveUp(shard int)
}

// Election decides what this process may act on.
type Election interface {
	// Identity is that of this process, which no other one has, also after a crash.
	Identity() string
	// Elected is closed when this process may do the work that one process is enough for.
	Elected() <-chan struct{}
	// Run takes part in the election while the engine runs. It returns the engine's error
	// or ErrLeaseLost.
	Run(ctx context.Context, e Engine) error
	// Check fails when this process still acts although its Lease expired long ago.
	Check(r *http.Request) error
	// Shards is the number of shards for the engine; 0 means that it acts on all objects
	// at once, without calls of Take.
	Shards() int
	// Guard returns a copy of config for the clients of everything that only one process may
	// do: their requests change nothing once another process may act, no matter for how long
	// this one was stopped. Those requests have connections of their own.
	Guard(config *rest.Config) (*rest.Config, error)
}

// Names are the names of the Leases.
type Names struct {
	// Leader is the Lease of the only leader. With shards, all members share it, and it
	// records the number of shards.
	Leader string
	// Member and Shard return the Lease of the member and of the shard with a number.
	Member, Shard func(number int) string
}

// ErrLeaseLost ends the process: another one may lead by now.
var ErrLeaseLost = errors.New("the lease was lost; another process may lead now")

// leaseTolerance is the time between the expiry of a Lease and the restart of a process that
// hangs.
const leaseTolerance = 20 * time.Second

// New wires the election that completed options ask for. namespace holds the Leases unless the
// options name another one.
func New(o Options, names Names, client kubernetes.Interface, namespace string, log *slog.Logger) (Election, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	identity := host + "_" + uuid.NewString() // a host name may be reused after a crash
	if !o.Elect {
		return alone{identity}, nil
	}
	if o.Namespace != "" {
		namespace = o.Namespace
	}
	return newSharding(o, names, client.CoordinationV1().Leases(namespace), identity, log), nil
}

// alone is the election of a process that is the only one.
type alone struct{ identity string }

func (a alone) Identity() string { return a.identity }

func (alone) Elected() <-chan struct{} {
	elected := make(chan struct{})
	close(elected)
	return elected
}

func (alone) Run(ctx context.Context, e Engine) error { return e.Run(ctx) }

func (alone) Check(*http.Request) error { return nil }

func (alone) Shards() int { return 0 }

func (alone) Guard(config *rest.Config) (*rest.Config, error) {
	return guarded(context.Background(), config, func() time.Duration { return math.MaxInt64 })
}
