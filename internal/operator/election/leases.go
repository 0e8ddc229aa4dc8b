package main

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

// leaseSet are the Leases of one namespace, as they were last seen, and which of them this
// process holds. client-go's elector knows one Lease, which it takes as soon as it can;
// here which ones to take depends on all of them.
type leaseSet struct {
	client   coordinationclient.LeaseInterface
	duration time.Duration
	newest   map[string]*coordinationv1.Lease // by name: what the API server last answered
	seen     map[string]sighting              // by name

	mu   sync.Mutex
	held map[string]holding // by name: those of this process
}

// holding is a Lease that this process holds, by the name that it goes by, and when the
// last renewal was sent: nobody else counts from an earlier time.
type holding struct {
	as   string
	sent time.Time
}

// sighting is a version of a Lease and when it was first seen. How old a Lease is, is
// measured by the clock of who looks at it, since clocks differ.
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

// look reads all Leases.
func (l *leaseSet) look(ctx context.Context) error {
	list, err := l.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	now := time.Now() // not before the answer, which may be as new as that
	clear(l.newest)
	for i := range list.Items {
		lease := &list.Items[i]
		l.newest[lease.Name] = lease
		if l.seen[lease.Name].version != lease.ResourceVersion {
			l.seen[lease.Name] = sighting{lease.ResourceVersion, now}
		}
	}
	return nil
}

// holder is who held a Lease when it was last seen; "" is nobody, or one whose time has
// run out since. One of ours is so until another has it, also if it was deleted.
func (l *leaseSet) holder(name string) string {
	l.mu.Lock()
	mine, isHeld := l.held[name]
	l.mu.Unlock()
	lease := l.newest[name]
	if lease == nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return mine.as
	}
	if !isHeld && l.left(lease) < 0 {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// left is how long a Lease of another still counts if it is not renewed; below 0, it does
// not any more.
func (l *leaseSet) left(lease *coordinationv1.Lease) time.Duration {
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return lasts - time.Since(l.seen[lease.Name].at)
}

// nextEnd is when the first of those Leases runs out that others hold, unless it is renewed;
// very long if there is none.
func (l *leaseSet) nextEnd() time.Duration {
	next := time.Duration(math.MaxInt64)
	for name, lease := range l.newest {
		if left := l.left(lease); left >= 0 && ptr.Deref(lease.Spec.HolderIdentity, "") != "" && !l.holds(name) {
			next = min(next, left)
		}
	}
	return next
}

// hold takes or renews a Lease, unless it has changed since it was seen.
func (l *leaseSet) hold(ctx context.Context, name, holder string) error {
	sent := time.Now()
	lease := l.newest[name].DeepCopy()
	if lease == nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity != holder {
		spec.HolderIdentity, spec.AcquireTime = &holder, new(metav1.NewMicroTime(sent))
		spec.LeaseTransitions = oneMore(spec.LeaseTransitions)
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

// oneMore counts transitions from one holder to the next; the first holder makes none.
func oneMore(transitions *int32) *int32 {
	if transitions == nil {
		return new(int32(0))
	}
	return new(*transitions + 1)
}

// disown leaves a Lease that this process holds to others who share it.
func (l *leaseSet) disown(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, name)
}

// release frees a Lease that this process holds, so that others need not wait for its end.
func (l *leaseSet) release(ctx context.Context, name string) error {
	l.disown(name)
	lease := l.newest[name].DeepCopy()
	if lease == nil {
		return nil
	}
	lease.Spec.HolderIdentity = nil
	return l.write(ctx, lease)
}

// releaseAll frees all that are held under a name, also one that the API server gave to
// us and that we do not know of, since its answer was lost.
func (l *leaseSet) releaseAll(ctx context.Context, as string) error {
	if err := l.look(ctx); err != nil {
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

// isOvertaken tells whether a write failed because another process was faster.
func isOvertaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

func (l *leaseSet) holds(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.held[name]
	return ok
}

// oldest is how long ago the renewal of that Lease was which waits for the next the
// longest; 0 if none is held.
func (l *leaseSet) oldest() (age time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		age = max(age, time.Since(h.sent))
	}
	return age
}

// lost returns errLeaseLost if a Lease that this process holds was seen to be another's.
func (l *leaseSet) lost() error {
	l.mu.Lock()
	held := maps.Clone(l.held)
	l.mu.Unlock()
	for name, h := range held {
		if holder := l.holder(name); holder != h.as {
			return fmt.Errorf("%w: Lease %s is held by %s", errLeaseLost, name, holder)
		}
	}
	return nil
}
