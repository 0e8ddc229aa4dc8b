package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/reconcile"
	"github.com/fescue-dev/fescue/internal/informers"
)

const (
	// retryRate and retryBurst bound the retries of a kind's objects in one namespace together;
	// the numbers are those of Kubernetes' sample controller.
	retryRate  = 50
	retryBurst = 300
	// reconcileTimeout bounds one reconcile, all its requests together.
	reconcileTimeout = time.Minute
)

// controller runs one kind, for the objects of one shard.
type controller struct {
	kind       *kind.Kind
	config     *Config
	shards     *shards
	shard      int // on whose objects it acts
	log        *slog.Logger
	queue      *queue
	objects    *informers.Watch
	resource   schema.GroupVersionResource // of the objects
	types      *childTypes
	lookups    *lookups
	watches    []*informers.Watch // to be released
	writes     *writes
	memories   *memories
	spare      *spare
	repeats    *repeats
	normalized *plan.Normalized
	swaps      *plan.Swaps // of all kinds
	manager    string      // of the fields that are written
	metrics    kindMetrics
	synced     atomic.Bool
	running    sync.Map // cache.ObjectName → time.Time: the running reconciles, and when they began
	leaving    sync.Map // cache.ObjectName → leavingObject: what events have shown of the objects that are being deleted
	// kinds returns all that are known by now; they share caches.
	kinds func() []*kind.Kind
	// pods are those that the objects inject into; it is nil for a kind that does not.
	pods       *podWatch
	podEvents  *informers.Registration
	selections selections
}

// checkKind returns why a kind can never be run here.
func checkKind(k *kind.Kind, watched *informers.Informers) error {
	if of := k.ReadsOfCluster(); of != "" && !watched.AllNamespaces() {
		return fmt.Errorf("it reads %s, which is cluster-scoped, so it cannot be limited to namespaces", of)
	}
	if len(k.OwnsOfCluster) > 0 && !watched.AllNamespaces() {
		return fmt.Errorf("it has children of the type %s, which is cluster-scoped, so it cannot be limited to namespaces", k.OwnsOfCluster[0].Kind)
	}
	if k.Scope == apiextensionsv1.ClusterScoped && !watched.AllNamespaces() {
		return errors.New("it is cluster-scoped, so it cannot be limited to namespaces")
	}
	manager := plan.FieldManager(k)
	if limit := 128; len(manager) > limit { // metav1's validation of field managers
		return fmt.Errorf("the name of its field manager, %q, has more than %d characters", manager, limit)
	}
	return nil
}

func newController(k *kind.Kind, config *Config, shards *shards, shard int) *controller {
	c := &controller{
		kind: k, config: config, shards: shards, shard: shard,
		log:   logOf(config.Log, k),
		types: newChildTypes(k), lookups: newLookups(k), writes: newWrites(), memories: newMemories(), spare: newSpare(maxBatch), repeats: newRepeats(),
		normalized: plan.NewNormalized(), swaps: plan.NewSwaps(), manager: plan.FieldManager(k),
		metrics: config.Metrics.forKind(k, config.Workers),
		kinds:   func() []*kind.Kind { return []*kind.Kind{k} },
	}
	name := k.Name()
	if shards.divides() {
		name = fmt.Sprintf("%s/shard-%d", name, shard)
		c.log = c.log.With("shard", shard)
	}
	c.queue = newQueue(name)
	return c
}

// run fills the caches and works until ctx ends and the running reconciles have finished.
// Those still read the caches, which are released after them. An error is one of the start.
func (c *controller) run(ctx context.Context) error {
	defer func() {
		c.queue.ShutDown()
		for _, w := range c.watches {
			w.Release()
		}
		c.podEvents.Remove()
		c.metrics.end()
		c.queue.end()
	}()
	if err := c.watch(ctx); err != nil {
		return err
	}
	c.synced.Store(true)
	if c.shards.owned() == 0 {
		c.log.Info("kind is on standby: its caches are filled, and another replica acts")
	}
	workers := c.queue.run(ctx, c.config.Workers, func(name cache.ObjectName) { c.handle(context.WithoutCancel(ctx), name) })
	workers.Go(func() {
		select {
		case <-c.shards.acting:
			c.log.Info("kind is running", "workers", c.config.Workers)
			c.awaitTypes(ctx)
		case <-ctx.Done():
		}
	})
	workers.Go(func() { c.requeueOverdue(ctx) })
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	return nil
}

// requeueOverdue queues the objects for which a reconcile waits for an event, or for a timer, in vain, until
// ctx ends.
func (c *controller) requeueOverdue(ctx context.Context) {
	var clock clockWatch
	tick := time.NewTicker(staleRecheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now := time.Now()
			for _, name := range c.writes.overdue(c.types, now.Add(-staleLimit)) {
				c.queue.Add(name)
			}
			c.requeueLate(&clock, now, now.Round(0))
		}
	}
}

// requeueLate queues all objects after the clock was set forward.
func (c *controller) requeueLate(watch *clockWatch, passed, clock time.Time) {
	if !watch.isAhead(passed, clock) {
		return
	}
	c.log.Warn("the clock was set forward; reconciling all objects, whose timers are late")
	c.enqueueAll()
}

// enqueueAll queues all objects that the controller acts on.
func (c *controller) enqueueAll() {
	c.objects.Each(func(object metav1.Object) {
		if c.isOfShard(object.GetUID()) {
			c.enqueue(object)
		}
	})
}

// fill watches a selection until the controller ends, and returns when handler has seen all
// its objects.
func (c *controller) fill(ctx context.Context, selection informers.Selection, handler cache.ResourceEventHandler) (*informers.Watch, error) {
	w, err := c.config.Informers.Watch(selection)
	if err != nil {
		return nil, err
	}
	err = w.AddIndexers(cache.Indexers{ownerIndex: indexByOwner})
	if err == nil {
		err = handle(ctx, w.Handle, handler)
	}
	if err != nil {
		w.Release()
		return nil, err
	}
	c.watches = append(c.watches, w)
	return w, nil
}

// handle registers handler and returns when it has seen all objects that exist, so that no
// worker acts on a half-filled cache.
func handle(ctx context.Context, register func(cache.ResourceEventHandler) (*informers.Registration, error), handler cache.ResourceEventHandler) error {
	registration, err := register(handler)
	if err != nil {
		return err
	}
	return registration.WaitForSync(ctx)
}

// watch watches the objects of the kind, their children, and the Pods that they inject into,
// and returns when the caches are filled.
func (c *controller) watch(ctx context.Context) error {
	objects, err := c.watchObjects()
	if err != nil {
		return err
	}
	c.objects, c.watches = objects, append(c.watches, objects)
	if _, err := c.watchServed(ctx); err != nil {
		return err
	}
	if _, err := c.watchLookups(ctx); err != nil {
		return err
	}
	if c.pods != nil {
		register := func(handler cache.ResourceEventHandler) (_ *informers.Registration, err error) {
			c.podEvents, err = c.pods.Handle(handler)
			return c.podEvents, err
		}
		if err := handle(ctx, register, c.podHandler()); err != nil {
			return fmt.Errorf("watch %s: %w", c.pods.Resource(), err)
		}
	}
	if err := handle(ctx, c.objects.Handle, c.objectHandler()); err != nil {
		return fmt.Errorf("watch %s: %w", c.objects.Resource(), err)
	}
	return nil
}

// objectHandler queues an object when someone else has changed it, also if that is the status alone: a write of an operator that acted
// before may arrive late. What this controller writes into the status queues nothing.
func (c *controller) objectHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			c.sees(nil, object)
			c.noteLeaving(object)
			if c.concerns(object) {
				c.enqueue(object)
			}
		},
		UpdateFunc: func(before, after any) {
			a, okA := before.(*unstructured.Unstructured)
			b, okB := after.(*unstructured.Unstructured)
			if !okA || !okB {
				return
			}
			c.sees(a, b)
			name := cache.MetaObjectToName(b)
			c.writes.cached(name, b)
			isOwn := c.writes.isOwn(name, b)
			c.noteLeaving(b)
			if c.concerns(a, b) && (c.isChanged(a, b) || !isOwn && c.hasOtherStatus(a, b)) {
				c.queue.Add(name)
			}
		},
		DeleteFunc: func(object any) {
			last := object
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				last = tombstone.Obj
			}
			c.sees(last, nil)
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				c.leaving.Delete(name)
			}
			if object, ok := last.(*unstructured.Unstructured); ok && !c.isOfShard(object.GetUID()) {
				return
			}
			if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
				c.queue.Add(name)
			}
		},
	}
}

// sees counts an object that the controller acts on, and no longer in the state before; nil is one that does
// not exist.
func (c *controller) sees(before, after any) {
	ours := func(state any) any {
		if object, ok := state.(*unstructured.Unstructured); ok && c.isOfShard(object.GetUID()) {
			return state
		}
		return nil
	}
	c.metrics.saw(ours(before), ours(after), c.shards.owns(c.shard))
}

// isChanged reports whether an object has to be reconciled after a change.
func (c *controller) isChanged(a, b *unstructured.Unstructured) bool {
	if c.kind.Target != nil {
		return c.isRedecorated(a, b)
	}
	return needsReconcile(c.kind, a, b)
}

// hasOtherStatus reports whether the status of an object of a kind differs.
func (c *controller) hasOtherStatus(a, b *unstructured.Unstructured) bool {
	return c.kind.Target == nil && !equality.Semantic.DeepEqual(a.Object["status"], b.Object["status"])
}

// needsReconcile reports whether more than the status of an object of a kind differs.
func needsReconcile(k *kind.Kind, a, b *unstructured.Unstructured) bool {
	return a.GetUID() != b.GetUID() ||
		a.GetGeneration() != b.GetGeneration() ||
		(a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil) ||
		plan.IsKept(k, a) && !slices.Equal(a.GetFinalizers(), b.GetFinalizers()) ||
		!equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) ||
		!equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations())
}

// memberDelay is how long changes of the members of a set are collected, so that a hundred
// Pods that start together take a few reconciles and not a hundred. It is that of
// Kubernetes' Job controller.
const memberDelay = time.Second

// childHandler queues the object that a child of a resource is kept for, unless the event shows it
// nothing new: the answer to its own write, or fields that no decision about it reads.
func (c *controller) childHandler(resource schema.GroupVersionResource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			if isInInitialList {
				c.enqueueOwners(c.queue.Add, object)
			} else {
				c.enqueueOwners(c.unlessKnown(resource, nil, object, c.pace(nil, object)), object)
			}
		},
		UpdateFunc: func(before, after any) {
			queue := c.unlessKnown(resource, before, after, c.pace(before, after))
			c.enqueueOwners(queue, before, after) // it may have been another before
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			queue := c.queue.Add
			if child, ok := object.(*unstructured.Unstructured); ok {
				c.normalized.Forget(child.GetUID())
				c.mayBeLost(resource, child)
				if c.isMember(child) && child.GetDeletionTimestamp() != nil { // it was replaced when that began
					queue = c.collect
				}
			}
			c.enqueueOwners(queue, object)
		},
	}
}

// unlessKnown returns how an event of a child queues its object, given how it does if it shows
// something new.
func (c *controller) unlessKnown(resource schema.GroupVersionResource, before, after any, queue func(cache.ObjectName)) func(cache.ObjectName) {
	old, _ := before.(*unstructured.Unstructured)
	child, ok := after.(*unstructured.Unstructured)
	if !ok {
		return queue
	}
	isSame := old != nil && plan.IsSameChild(c.kind, old, child)
	return func(owner cache.ObjectName) {
		isEcho := c.writes.isEcho(owner, resource, child.GetResourceVersion()) && !c.kind.ReadsOwnStatus()
		if !isSame && !isEcho || c.writes.isAwaited(owner) {
			queue(owner)
		}
	}
}

func (c *controller) isMember(child *unstructured.Unstructured) bool {
	_, isMember := c.kind.Sets[plan.ChildName(child)]
	return isMember
}

// collect queues an object after memberDelay.
func (c *controller) collect(name cache.ObjectName) { c.queue.AddAfter(name, memberDelay) }

// queueSoon queues an object at once, or after memberDelay if its writes are delayed.
func (c *controller) queueSoon(name cache.ObjectName) {
	if c.memories.isSlowed(name) {
		c.collect(name)
		return
	}
	c.queue.Add(name)
}

// pace returns how an event of a child queues its object: after memberDelay for a member of
// a set, unless someone else has just begun to delete it, and for an object with a contested child.
func (c *controller) pace(before, after any) func(cache.ObjectName) {
	soon := c.queueSoon
	old, _ := before.(*unstructured.Unstructured)
	child, ok := after.(*unstructured.Unstructured)
	if !ok {
		return soon
	}
	isLeaving := child.GetDeletionTimestamp() != nil && (old == nil || old.GetDeletionTimestamp() == nil)
	if !c.isMember(child) || isLeaving && !c.isDeleting(child) {
		return soon
	}
	return c.collect
}

// isDeleting reports whether this process has requested the deletion of a child, or may just have: the
// event can be here before the answer to the request.
func (c *controller) isDeleting(child *unstructured.Unstructured) bool {
	holder := plan.HolderOf(c.kind, child)
	if holder == nil {
		return false
	}
	owner := c.types.ownerName(child, holder.Name)
	_, isRunning := c.running.Load(owner)
	return isRunning || c.writes.isDeleting(owner, child.GetUID())
}

func (c *controller) enqueue(object any) {
	if name, err := cache.ObjectToName(object); err == nil {
		c.queue.Add(name)
	}
}

// enqueueOwners queues the objects that states of a child are kept for, each once: those that the
// controller references name, and those that it was created for, if another has adopted it.
func (c *controller) enqueueOwners(queue func(cache.ObjectName), states ...any) {
	var owners []cache.ObjectName
	for _, object := range states {
		child, ok := object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		add := func(owner cache.ObjectName) {
			if c.isKeptHere(child) || c.objects.Get(owner) != nil { // otherwise another shard has to act
				owners = append(owners, owner)
			}
		}
		if createdFor, found := strings.CutPrefix(plan.Annotation(child, plan.AnnotationOwner), plan.OwnerPrefix(c.kind)); found {
			add(c.types.ownerName(child, createdFor))
		}
		if owner := plan.HolderOf(c.kind, child); owner != nil {
			add(c.types.ownerName(child, owner.Name))
		}
	}
	for i, owner := range owners {
		if !slices.Contains(owners[:i], owner) {
			queue(owner)
		}
	}
}

// handle reconciles an object from the queue if this process may act on it.
func (c *controller) handle(ctx context.Context, name cache.ObjectName) {
	object := c.writes.newest(name, func() *unstructured.Unstructured { return c.objects.Get(name) })
	if object != nil && !c.isOfShard(object.GetUID()) {
		object = nil // another controller acts on it; this one may have acted on its predecessor
	}
	end, mine := c.shards.begin(c.shard)
	if !mine {
		c.forget(name) // it is queued again when the shard is taken
		return
	}
	defer end()
	log := c.log.With("object", name.String())

	ctx, cancel := context.WithTimeoutCause(ctx, reconcileTimeout, fmt.Errorf("reconcile took longer than %s", reconcileTimeout))
	defer cancel()
	began := time.Now()
	c.running.Store(name, began)
	defer c.running.Delete(name)
	busy := c.metrics.busy.WithLabelValues(c.metrics.name)
	busy.Inc()
	defer busy.Dec()
	r := &reconciliation{controller: c, name: name, log: log, budget: c.kind.NewBudget()}
	result := r.reconcileSafely(ctx, object)
	c.metrics.reconciled(began, result)
	if at := wakeAt(result); !at.IsZero() {
		c.queue.AddAfter(name, time.Until(at))
	}
	switch result.Then {
	case reconcile.Done:
		c.queue.Forget(name)
	case reconcile.Again:
		if result.Err == nil {
			c.queue.Forget(name) // it got on, so that failures of before do not delay the rest
		}
		log.Debug("the reconcile is not complete; requeued", "reason", result.Err)
		c.queue.AddRateLimited(name)
	case reconcile.Rejected:
		log.Warn("a child or the status was rejected; retrying", "error", result.Err, "failures", c.queue.NumRequeues(name)+1)
		c.queue.AddAfter(name, max(plan.RejectedRetry, c.queue.limiter.When(name)))
	case reconcile.Failed:
		log.Warn("reconcile failed; retrying", "error", result.Err, "failures", c.queue.NumRequeues(name)+1)
		wait := c.queue.limiter.When(name)
		if errors.Is(result.Err, errNewKind) {
			wait = min(wait, plan.RejectedRetry) // it is over soon
		}
		c.queue.AddAfter(name, wait)
	}
}

// wakeAt returns when to reconcile again although no event comes; zero means never.
func wakeAt(result reconcile.Result) time.Time {
	if result.Recheck == 0 {
		return result.At
	}
	return earlier(result.At, time.Now().Add(result.Recheck))
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// forget drops what is remembered of an object that is gone, or that another process acts on, but for what only an event
// has shown.
func (c *controller) forget(name cache.ObjectName) {
	c.writes.forget(name)
	c.memories.forget(name)
	c.swaps.Forget(c.kind, name.AsNamespacedName())
	c.types.forgetOwner(name)
	c.lookups.forget(name)
	c.selections.forget(name)
	c.queue.Forget(name)
}
