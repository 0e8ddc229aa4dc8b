package engine

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// intake turns events of the caches into entries of the queue, and notes what only an event shows: our own writes,
// deletions, and children that were lost. Workers decide from the caches.
type intake struct {
	kind    *kind.Kind
	queue   *queue
	metrics kindMetrics
	*scope
	*caches
	records *records
}

// memberDelay is how long changes of the members of a set are collected, so that a hundred
// Pods that start together take a few reconciles and not a hundred. It is that of
// Kubernetes' Job controller.
const memberDelay = time.Second

// urgency is when an event queues an object.
type urgency string

const (
	// atOnce is for events that someone may wait for.
	atOnce urgency = "at once"
	// soon is at once, or after memberDelay for an object whose writes are delayed.
	soon urgency = "soon"
	// collected is after memberDelay.
	collected urgency = "collected"
	// unlessOurs is collected if this process has requested what the event shows, and soon otherwise.
	unlessOurs urgency = "unless ours"
)

// add queues an object.
func (i *intake) add(name cache.ObjectName, u urgency) {
	if u == collected || u == soon && i.records.slows(name) {
		i.queue.AddAfter(name, memberDelay)
		return
	}
	i.queue.Add(name)
}

// event is a change of an object in a cache: its states before and after, nil if it did not exist or no longer does.
type event struct {
	before, after *unstructured.Unstructured
	// isInitial means that the object was there when the watch began.
	isInitial bool
}

// handler returns a handler that calls a function for each event.
func handler(on func(event)) cache.ResourceEventHandler {
	state := func(object any) *unstructured.Unstructured {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		u, _ := object.(*unstructured.Unstructured)
		return u
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, isInitial bool) { on(event{nil, state(object), isInitial}) },
		UpdateFunc: func(before, after any) { on(event{state(before), state(after), false}) },
		DeleteFunc: func(object any) { on(event{state(object), nil, false}) },
	}
}

// ofObjects handles the events of the objects of the kind. It queues an object when someone else has changed it, also
// if that is the status alone: a write of an operator that acted before may arrive late. What this controller writes
// into the status queues nothing.
func (i *intake) ofObjects() cache.ResourceEventHandler {
	return handler(func(e event) {
		i.count(e)
		if e.after == nil {
			i.ofDeleted(e.before)
			return
		}
		name, isOwn := cache.MetaObjectToName(e.after), false
		if e.before != nil {
			if e.before.GetUID() != e.after.GetUID() {
				i.records.noteGone(e.before.GetUID())
			}
			i.records.cached(name, e.after)
			isOwn = i.records.isOwn(name, e.after)
		}
		i.records.noteLeaving(e.after)
		if i.concerns(e) && (needsReconcile(i.kind, e) || !isOwn && i.hasOtherStatus(e)) {
			i.add(name, atOnce)
		}
	})
}

// ofDeleted queues an object that is gone, so that what is remembered of it is dropped.
func (i *intake) ofDeleted(object *unstructured.Unstructured) {
	if object == nil {
		return
	}
	name := cache.MetaObjectToName(object)
	i.records.noteGone(object.GetUID())
	if i.isOfShard(object.GetUID()) {
		i.add(name, atOnce)
	}
}

// count counts the objects that the controller acts on.
func (i *intake) count(e event) {
	ours := func(state *unstructured.Unstructured) *unstructured.Unstructured {
		if state == nil || !i.isOfShard(state.GetUID()) {
			return nil
		}
		return state
	}
	i.metrics.saw(ours(e.before), ours(e.after), i.shards.owns(i.shard))
}

// concerns reports whether the controller is for one of the states of an object. A decorator acts on few objects of its
// type. Those that it no longer selects are queued by the children that it created for them.
func (i *intake) concerns(e event) bool {
	return slices.ContainsFunc([]*unstructured.Unstructured{e.before, e.after},
		func(state *unstructured.Unstructured) bool {
			return state != nil && i.isOfShard(state.GetUID()) &&
				(i.kind.Target == nil || children.Decorates(i.kind, state))
		})
}

// hasOtherStatus reports whether the status of an object of a kind differs.
func (i *intake) hasOtherStatus(e event) bool {
	return i.kind.Target == nil && e.before != nil && !equality.Semantic.DeepEqual(e.before.Object["status"],
		e.after.Object["status"])
}

// needsReconcile reports whether an object differs in what its reconcile depends on: its spec, labels, annotations,
// deletion and, if it has that of its kind, finalizers. For a decorator, that is anything that it reads of the object.
func needsReconcile(k *kind.Kind, e event) bool {
	a, b := e.before, e.after
	switch {
	case a == nil, a.GetUID() != b.GetUID(), (a.GetDeletionTimestamp() == nil) != (b.GetDeletionTimestamp() == nil):
		return true
	case k.Target != nil:
		return children.Decorates(k, a) != children.Decorates(k, b) ||
			plan.HasFinalizer(k, a) != plan.HasFinalizer(k, b) ||
			!equality.Semantic.DeepEqual(k.Reads.Object.In(a.Object), k.Reads.Object.In(b.Object))
	}
	return a.GetGeneration() != b.GetGeneration() ||
		plan.HasFinalizer(k, a) && !slices.Equal(a.GetFinalizers(), b.GetFinalizers()) ||
		!equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) ||
		!equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations())
}

// owner is an object that an event of a child concerns, and the states of the child that name it.
type owner struct {
	name   cache.ObjectName
	states []*unstructured.Unstructured
}

// childEvent is what an event of a child means for the objects that the child is or was kept for.
type childEvent struct {
	owners []owner
	when   urgency
	// isNews means that it shows something that the kind reads.
	isNews bool
}

// eventOf returns what an event of a child means, each owner once: those that the controller references name, and those
// that the child was created for, which may be in another namespace or have lost the child to another controller.
func eventOf(k *kind.Kind, e event) childEvent {
	c := childEvent{when: soon, isNews: e.before == nil || e.after == nil || !children.IsSame(k, e.before, e.after)}
	for _, child := range []*unstructured.Unstructured{e.before, e.after} {
		if child == nil {
			continue
		}
		named := children.Annotation(child, children.AnnotationOwner)
		if createdFor, found := strings.CutPrefix(named, children.OwnerPrefix(k)); found {
			c.add(k, child, createdFor)
		}
		if holder := children.HolderOf(k, child); holder != nil {
			c.add(k, child, holder.Name)
		}
	}
	last := e.after
	if last == nil {
		last = e.before
	}
	_, isMember := k.Sets[children.NameInKind(last)]
	isLeaving := last.GetDeletionTimestamp() != nil
	switch {
	case e.isInitial:
		c.when = atOnce
	case e.after == nil && isMember && isLeaving: // it was replaced when its deletion began
		c.when = collected
	case e.after == nil:
		c.when = atOnce
	case isMember && isLeaving && (e.before == nil || e.before.GetDeletionTimestamp() == nil):
		c.when = unlessOurs
	case isMember:
		c.when = collected
	}
	return c
}

func (c *childEvent) add(k *kind.Kind, child *unstructured.Unstructured, name string) {
	at := cache.ObjectName(children.OwnerAt(k, child, name))
	i := slices.IndexFunc(c.owners, func(known owner) bool { return known.name == at })
	if i < 0 {
		i = len(c.owners)
		c.owners = append(c.owners, owner{name: at})
	}
	c.owners[i].states = append(c.owners[i].states, child)
}

// ofChildren handles the events of the children of a resource. It queues the objects that a child is kept for, unless
// the event shows nothing new: the answer to a write of theirs, or fields that no decision about them reads.
func (i *intake) ofChildren(resource schema.GroupVersionResource) cache.ResourceEventHandler {
	return handler(func(e event) {
		if e.before == nil && e.after == nil {
			return
		}
		if e.after == nil {
			i.records.normalized.Forget(e.before.GetUID())
			i.mayBeLost(resource, e.before)
		}
		c := eventOf(i.kind, e)
		if c.when == unlessOurs {
			if c.when = soon; i.isDeleting(e.after) {
				c.when = collected
			}
		}
		for _, owner := range c.owners {
			// another shard has to act
			if !slices.ContainsFunc(owner.states, i.isKeptHere) && i.objects.Get(owner.name) == nil {
				continue
			}
			isNews := c.isNews
			if e.after != nil && !e.isInitial {
				isEcho := i.records.isEcho(owner.name, resource, e.after.GetResourceVersion()) &&
					!i.kind.ReadsOwnStatus()
				isNews = isNews && !isEcho || i.records.isAwaited(owner.name)
			}
			if isNews {
				i.add(owner.name, c.when)
			}
		}
	})
}

// isDeleting reports whether this process has requested the deletion of a child, or may just have: the
// event can be here before the answer to the request.
func (i *intake) isDeleting(child *unstructured.Unstructured) bool {
	holder := children.HolderOf(i.kind, child)
	if holder == nil {
		return false
	}
	owner := i.types.ownerName(child, holder.Name)
	_, isRunning := i.records.running.Load(owner)
	return isRunning || i.records.isDeleting(owner, child.GetUID())
}

// mayBeLost notes a child that has left the cache: it was deleted, or it lost the label by which it
// is watched. The event is the same, so the next reconcile reads the child. Nothing is read for a
// child whose deletion had begun, or that the API server has deleted for this process.
func (i *intake) mayBeLost(resource schema.GroupVersionResource, child *unstructured.Unstructured) {
	holder := children.HolderOf(i.kind, child)
	if holder == nil || child.GetDeletionTimestamp() != nil || !i.isOfShard(holder.UID) || !i.shards.owns(i.shard) {
		return
	}
	owner := i.types.ownerName(child, holder.Name)
	if i.records.isDeleted(owner, child.GetUID()) {
		return
	}
	i.records.addLost(owner, holder.UID, child.GetUID(), lostChild{resource, cache.MetaObjectToName(child)},
		func() *unstructured.Unstructured { return i.objects.Get(owner) })
}

// ofStrays handles the events of the unmanaged objects that have the labels of a set. It queues the objects of whose
// set one could be a stray.
func (i *intake) ofStrays(set string, names []string) cache.ResourceEventHandler {
	return handler(func(e event) {
		stray := e.after
		if stray == nil || metav1.GetControllerOfNoCopy(stray) != nil || stray.GetDeletionTimestamp() != nil {
			return
		}
		for _, owner := range i.types.ownersOf(
			strayKey{set, stray.GetNamespace(), strayValues(names, stray.GetLabels())}) {
			i.add(owner, atOnce)
		}
	})
}

// ofReads handles the events of objects of a type that the kind reads. It queues the objects that read one.
func (i *intake) ofReads(gvk schema.GroupVersionKind) cache.ResourceEventHandler {
	return handler(func(e event) {
		if e.before == nil && e.after == nil {
			return
		}
		byName, selecting := i.lookups.readersOf(gvk, e.before, e.after)
		for _, reader := range byName {
			i.add(reader, soon)
		}
		for _, reader := range selecting {
			i.add(reader, collected)
		}
	})
}

// ofPods handles the events of Pods. It queues the objects that a Pod concerns, a while after it changed: the rollout
// of a Deployment changes many.
func (i *intake) ofPods() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInitial bool) {
			if !isInitial { // the first reconcile of each object counts those
				i.concerned(object)
			}
		},
		UpdateFunc: func(before, after any) {
			a, okA := before.(*watchedPod)
			b, okB := after.(*watchedPod)
			if okA && okB && !sameUptake(a, b) {
				i.concerned(a)
				i.concerned(b)
			}
		},
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			i.concerned(object)
		},
	}
}

// concerned queues the objects that name a Pod, that it names, and that were injected into it.
func (i *intake) concerned(object any) {
	pod, ok := object.(*watchedPod)
	if !ok {
		return
	}
	names := i.selections.matching(pod)
	for _, o := range i.pods.concerned(pod) {
		if o.Kind == i.kind.GroupVersionKind.GroupKind() {
			names = append(names, o.Name)
		}
	}
	for _, name := range names {
		name := cache.ObjectName{Namespace: pod.namespace, Name: name}
		if !i.isOfOthers(name) {
			i.add(name, collected)
		}
	}
}

// isOfOthers reports whether there is an object of a name that the controller does not act on.
func (i *intake) isOfOthers(name cache.ObjectName) bool {
	if !i.shards.divides() {
		return false
	}
	object := i.objects.Get(name)
	return object != nil && !i.isOfShard(object.GetUID())
}
