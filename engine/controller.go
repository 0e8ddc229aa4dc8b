package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/reconcile"
	"github.com/fescue-dev/fescue/internal/informers"
)

// reconcileTimeout bounds one reconcile, all its requests together.
const reconcileTimeout = time.Minute

// controller runs one kind, for the objects of one shard.
type controller struct {
	kind    *kind.Kind
	log     *slog.Logger
	queue   *queue
	metrics kindMetrics
	*scope
	*caches
	records *records
	*requests
	intake    *intake
	watches   []*informers.Watch // to be released
	podEvents *informers.Registration
	synced    atomic.Bool
}

// checkKind returns why a kind can never be run here.
func checkKind(k *kind.Kind, watched *informers.Informers) error {
	if of := k.Lookups.OfCluster(); of != "" && !watched.AllNamespaces() {
		return fmt.Errorf("it reads %s, which is cluster-scoped, so it cannot be limited to namespaces", of)
	}
	if len(k.OwnsOfCluster) > 0 && !watched.AllNamespaces() {
		return fmt.Errorf(
			"it has children of the type %s, which is cluster-scoped, so it cannot be limited to namespaces",
			k.OwnsOfCluster[0].Kind)
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
		kind:    k,
		log:     logOf(config.Log, k),
		metrics: config.Metrics.forKind(k, config.Workers),
		scope:   &scope{shards, shard},
		caches:  &caches{types: newChildTypes(k), lookups: newLookups(k)},
		records: newRecords(),
		requests: &requests{
			config: config, manager: plan.FieldManager(k), kinds: func() []*kind.Kind { return []*kind.Kind{k} },
			spare: newSpare(maxBatch), repeats: newRepeats(), swaps: plan.NewSwaps(),
		},
	}
	name := k.Name()
	if shards.divides() {
		name = fmt.Sprintf("%s/shard-%d", name, shard)
		c.log = c.log.With("shard", shard)
	}
	c.queue = newQueue(name)
	c.intake = &intake{k, c.queue, c.metrics, c.scope, c.caches, c.records}
	return c
}

// reconciliation returns a reconcile of the object of a name that has not begun.
func (c *controller) reconciliation(name cache.ObjectName, log *slog.Logger) *reconciliation {
	return &reconciliation{
		kind: c.kind, queue: c.queue, metrics: c.metrics, caches: c.caches, records: c.records, requests: c.requests,
		name: name, log: log, budget: c.kind.NewBudget(),
	}
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
	workers := c.queue.run(ctx, c.config.Workers,
		func(name cache.ObjectName) { c.handle(context.WithoutCancel(ctx), name) })
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
			for _, name := range c.records.overdue(c.types, now.Add(-staleLimit)) {
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
			c.queue.Add(cache.MetaObjectToName(object))
		}
	})
}

// fill watches a selection until the controller ends, and returns when handler has seen all
// its objects.
func (c *controller) fill(
	ctx context.Context, selection informers.Selection, handler cache.ResourceEventHandler,
) (*informers.Watch, error) {
	w, err := c.config.Informers.Watch(selection)
	if err != nil {
		return nil, err
	}
	err = w.AddIndexers(cache.Indexers{ownerIndex: indexByOwner})
	if err == nil {
		err = registerAndSync(ctx, w.Handle, handler)
	}
	if err != nil {
		w.Release()
		return nil, err
	}
	c.watches = append(c.watches, w)
	return w, nil
}

// registerAndSync registers handler and returns when it has seen all objects that exist, so that no
// worker acts on a half-filled cache.
func registerAndSync(
	ctx context.Context, register func(cache.ResourceEventHandler) (*informers.Registration, error),
	handler cache.ResourceEventHandler,
) error {
	registration, err := register(handler)
	if err != nil {
		return err
	}
	return registration.WaitForSync(ctx)
}

// watch watches the objects of the kind, their children, what they read, and the Pods that they inject into,
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
		if err := registerAndSync(ctx, register, c.intake.ofPods()); err != nil {
			return fmt.Errorf("watch %s: %w", c.pods.Resource(), err)
		}
	}
	if err := registerAndSync(ctx, c.objects.Handle, c.intake.ofObjects()); err != nil {
		return fmt.Errorf("watch %s: %w", c.objects.Resource(), err)
	}
	return nil
}

// handle reconciles an object from the queue if this process may act on it.
func (c *controller) handle(ctx context.Context, name cache.ObjectName) {
	end, mine := c.shards.begin(c.shard)
	if !mine {
		c.records.forget(name)
		c.forget(name) // it is queued again when the shard is taken
		return
	}
	defer end()
	log := c.log.With("object", name.String())

	ctx, cancel := context.WithTimeoutCause(ctx, reconcileTimeout,
		fmt.Errorf("reconcile took longer than %s", reconcileTimeout))
	defer cancel()
	began := time.Now()
	c.records.running.Store(name, began)
	defer c.records.running.Delete(name)
	busy := c.metrics.busy.WithLabelValues(c.metrics.name)
	busy.Inc()
	defer busy.Dec()
	r := c.reconciliation(name, log)
	object, err := c.newest(ctx, r)
	if object == nil && err == nil {
		c.records.gone(name, began.Add(-staleLimit))
		c.forget(name)
	}
	result := reconcile.Result{Then: reconcile.Failed, Err: err}
	if err == nil {
		result = r.reconcileSafely(ctx, object)
	}
	c.metrics.reconciled(began, result)
	c.queueAgain(name, result, log)
}

// newest returns the newest state of an object that is known. It is nil if the object is gone, or if another controller
// acts on it: this one may have acted on its predecessor. A cache that shows no object although one was written that it
// has not shown may have come to the end of a former object of the name.
func (c *controller) newest(ctx context.Context, r *reconciliation) (object *unstructured.Unstructured, err error) {
	object = c.records.newest(r.name, func() *unstructured.Unstructured { return c.objects.Get(r.name) })
	if object == nil && c.records.hasObject(r.name) {
		object, err = r.readAgain(ctx)
	}
	if object == nil || !c.isOfShard(object.GetUID()) {
		return nil, err
	}
	return object, nil
}

// queueAgain queues an object as the result of its reconcile says.
func (c *controller) queueAgain(name cache.ObjectName, result reconcile.Result, log *slog.Logger) {
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
		if result.Err == nil {
			c.queue.Forget(name) // that was no failure either
		}
	case reconcile.Rejected:
		log.Warn("a child or the status was rejected; retrying", "error", result.Err,
			"failures", c.queue.NumRequeues(name)+1)
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
	return plan.Earlier(result.At, time.Now().Add(result.Recheck))
}

// forget drops what else is remembered of an object that is gone, or that another process acts on, but for its
// deletion, which only an event has shown.
func (c *controller) forget(name cache.ObjectName) {
	c.swaps.Forget(c.kind, name.AsNamespacedName())
	c.types.forgetStrays(name)
	c.lookups.forget(name)
	c.selections.forget(name)
	c.queue.Forget(name)
}
