package election

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// leaseSet holds the Leases of one namespace as they were last read, and which of them this
// process holds. client-go's elector knows a single Lease and takes it as soon as possible;
// here, which Leases to take depends on all of them.
type leaseSet struct {
	client   coordinationclient.LeaseInterface
	duration time.Duration
	only     string                           // the name of the only Lease to read; "" reads all
	newest   map[string]*coordinationv1.Lease // by name: the API server's last answer
	seen     map[string]sighting              // by name

	mu   sync.Mutex
	held map[string]holding // by name: those that this process holds
}

// holding is a Lease that this process holds under a holder identity, and the time when it sent
// the last renewal: no other process counts the Lease's duration from an earlier time.
type holding struct {
	as   string
	sent time.Time
}

// sighting is a version of a Lease and the time when this process first read it. Clocks differ,
// so each process measures the age of a Lease by its own.
type sighting struct {
	version string
	at      time.Time
}

func newLeaseSet(client coordinationclient.LeaseInterface, duration time.Duration) *leaseSet {
	return &leaseSet{
		client: client, duration: duration,
		newest: make(map[string]*coordinationv1.Lease), seen: make(map[string]sighting), held: make(map[string]holding),
	}
}

// read reads the Leases from the API server.
func (l *leaseSet) read(ctx context.Context) error {
	leases, err := l.fetch(ctx)
	if err != nil {
		return err
	}
	now := time.Now() // after the answer: a Lease in it may have been renewed just before it
	clear(l.newest)
	for i := range leases {
		lease := &leases[i]
		l.newest[lease.Name] = lease
		if l.seen[lease.Name].version != lease.ResourceVersion {
			l.seen[lease.Name] = sighting{lease.ResourceVersion, now}
		}
	}
	return nil
}

func (l *leaseSet) fetch(ctx context.Context) ([]coordinationv1.Lease, error) {
	if l.only == "" {
		list, err := l.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list Leases: %w", err)
		}
		return list.Items, nil
	}
	lease, err := l.client.Get(ctx, l.only, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Lease %s: %w", l.only, err)
	}
	return []coordinationv1.Lease{*lease}, nil
}

// holder returns the identity that held a Lease when it was last read; "" means none, or that the
// Lease has expired since. A Lease of this process, even a deleted one, stays its own until
// another process holds it.
func (l *leaseSet) holder(name string) string {
	l.mu.Lock()
	mine, isHeld := l.held[name]
	l.mu.Unlock()
	lease := l.newest[name]
	if lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return mine.as
	}
	if !isHeld && l.left(lease) <= 0 {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// left returns the time until a Lease of another process expires unless it is renewed; it is
// 0 or less once the Lease has expired, as for client-go.
func (l *leaseSet) left(lease *coordinationv1.Lease) time.Duration {
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return lasts - time.Since(l.seen[lease.Name].at)
}

// nextExpiry returns the time until the first Lease of another process expires unless it is
// renewed; it is very long if there is none.
func (l *leaseSet) nextExpiry() time.Duration {
	next := time.Duration(math.MaxInt64)
	for name, lease := range l.newest {
		if left := l.left(lease); left > 0 && ptr.Deref(lease.Spec.HolderIdentity, "") != "" && !l.holds(name) {
			next = min(next, left)
		}
	}
	return next
}

// hold takes or renews a Lease. It fails if the Lease has changed since it was read.
func (l *leaseSet) hold(ctx context.Context, name, holder string) error {
	sent := time.Now()
	lease := l.newest[name].DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != holder {
		spec.HolderIdentity, spec.AcquireTime = &holder, new(metav1.NewMicroTime(sent))
		spec.LeaseTransitions = nextTransition(spec.LeaseTransitions)
	}
	spec.RenewTime = new(metav1.NewMicroTime(sent))
	spec.LeaseDurationSeconds = new(int32(math.Ceil(l.duration.Seconds())))
	if err := l.write(ctx, lease); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = holding{holder, sent}
	return nil
}

// nextTransition counts transitions from one holder to the next; the first holder counts as none.
func nextTransition(transitions *int32) *int32 {
	if transitions == nil {
		return new(int32(0))
	}
	return new(*transitions + 1)
}

// disown forgets that this process holds a Lease, and leaves it to the others that share it.
func (l *leaseSet) disown(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// release frees a Lease that this process holds, so that others need not wait until it expires.
func (l *leaseSet) release(ctx context.Context, name string) error {
	l.disown(name)
	lease := l.newest[name].DeepCopy()
	if lease == nil {
		return nil
	}
	lease.Spec.HolderIdentity = nil
	return l.write(ctx, lease)
}

// releaseAll frees all Leases that an identity holds, including one that this process does not
// know it holds because the API server's answer was lost.
func (l *leaseSet) releaseAll(ctx context.Context, as string) error {
	if err := l.read(ctx); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l.newest)) {
		if holder := l.newest[name].Spec.HolderIdentity; holder != nil && *holder == as {
			errs = append(errs, l.release(ctx, name))
		}
	}
	return errors.Join(errs...)
}

func (l *leaseSet) write(ctx context.Context, lease *coordinationv1.Lease) error {
	put := func() (*coordinationv1.Lease, error) { return l.client.Update(ctx, lease, metav1.UpdateOptions{}) }
	if lease.ResourceVersion == "" {
		put = func() (*coordinationv1.Lease, error) { return l.client.Create(ctx, lease, metav1.CreateOptions{}) }
	}
	stored, err := put()
	if err != nil {
		return fmt.Errorf("write Lease %s: %w", lease.Name, err)
	}
	l.newest[lease.Name] = stored
	return nil
}

// isOvertaken reports whether a write failed because another process was faster.
func isOvertaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

func (l *leaseSet) holds(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[name]
	return ok
}

// oldest returns the time since the least recent renewal of the held Leases; 0 if none is held.
func (l *leaseSet) oldest() (age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		age = max(age, since(h.sent))
	}
	return age
}

// holdsAny reports whether this process holds a Lease.
func (l *leaseSet) holdsAny() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) > 0
}

// since returns the time that has passed since then, by the clock that shows more of it: the
// monotonic clock stops while a machine is suspended, and the wall clock can be set back.
func since(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// lost returns ErrLeaseLost if another process was found to hold a Lease of this one.
func (l *leaseSet) lost() error {
	l.mu.Lock()
	held := maps.Clone(l.held)
	l.mu.Unlock()
	for name, h := range held {
		if holder := l.holder(name); holder != h.as {
			return fmt.Errorf("%w: Lease %s is held by %s", ErrLeaseLost, name, holder)
		}
	}
	return nil
}
