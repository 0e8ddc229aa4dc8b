package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/reconcile"
)

const (
	// staleRecheck is how often to look for objects that wait for an event of a child in vain: a watch that broke may
	// have skipped it.
	staleRecheck = time.Second
	// staleLimit is how long a cache may take to see what was written before the API
	// server itself is read. A watch that broke is restarted within seconds.
	staleLimit = 15 * time.Second
)

// reconciliation is one reconcile of an object: the reconcile.World that has caches and the API server.
type reconciliation struct {
	kind    *kind.Kind
	queue   *queue
	metrics kindMetrics
	*caches
	records *records
	*requests
	name   cache.ObjectName
	log    *slog.Logger
	budget *kind.Budget
	memory *plan.Memory
	// shown is the version of an object that is being deleted up to which events have shown it before it was observed.
	shown string
}

// requests are what the reconciles of a kind ask of the API server with: its clients, names, and limits.
type requests struct {
	config   *Config
	resource schema.GroupVersionResource // of the objects
	manager  string                      // of the fields that are written
	// kinds returns all that are known by now; they share caches.
	kinds   func() []*kind.Kind
	spare   *spare
	repeats *repeats    // of all kinds
	swaps   *plan.Swaps // of all kinds
}

// reconcileSafely recovers from a panic: one object must not stop the others.
func (r *reconciliation) reconcileSafely(
	ctx context.Context, object *unstructured.Unstructured,
) (result reconcile.Result) {
	defer func() {
		if p := recover(); p != nil {
			result = reconcile.Result{Then: reconcile.Failed, Err: r.panicked(p)}
		}
	}()
	ctx = withWarnings(ctx, func(err error) { logWarning(r.log, plan.Conceal(r.kind, err)) })
	return r.reconcile(ctx, object)
}

// panicked reports a panic from which the caller has recovered, and returns it as an error.
func (r *reconciliation) panicked(p any) error {
	r.metrics.panics.WithLabelValues(r.metrics.name).Inc()
	r.log.Error("reconcile panicked; this is a bug in Fescue", "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("panic: %v", p)
}

// reconcile brings an object to what its kind decides. The object is the newest state that is known; it is nil if it is
// gone.
func (r *reconciliation) reconcile(ctx context.Context, object *unstructured.Unstructured) reconcile.Result {
	r.swaps.Forget(r.kind, r.name.AsNamespacedName())
	if object == nil {
		return reconcile.Result{Then: reconcile.Done}
	}
	r.shown = r.records.shownOf(object).version
	r.memory = r.records.memoryOf(object)
	defer r.records.keep(r.name, object.GetUID(), r.memory)
	result := reconcile.Run(ctx, r, reconcile.Request{
		Kind: r.kind, Object: object, Memory: r.memory, Failures: r.queue.NumRequeues(r.name), Now: time.Now,
	})
	r.tell(object, result)
	if apierrors.IsConflict(result.Err) && r.records.hasObject(r.name) {
		_, err := r.readAgain(ctx)
		result.Err = errors.Join(result.Err, err)
	}
	return result
}

// readAgain replaces what is remembered of the last write of an object by what the API server has, and returns that;
// nil if there is none. No cache shows a write that etcd lost when it was restored from an older copy, so each further
// write would be based on it.
func (r *reconciliation) readAgain(ctx context.Context) (object *unstructured.Unstructured, err error) {
	found, err := r.listNamed(ctx, r.resource, r.name)
	if err != nil {
		return nil, fmt.Errorf("read the object again: %w", err)
	}
	for i := range found.Items {
		object = &found.Items[i]
		object.SetManagedFields(nil)
		r.records.rememberObject(r.name, object)
	}
	return object, nil
}

// listNamed reads the object of a name from the API server as a list, for which no right to get is needed.
func (r *reconciliation) listNamed(
	ctx context.Context, resource schema.GroupVersionResource, name cache.ObjectName,
) (*unstructured.UnstructuredList, error) {
	return r.config.Client.Resource(resource).Namespace(name.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String(),
	})
}

// Store writes the status of an object. It returns the object as the API server has it.
func (r *reconciliation) Store(
	ctx context.Context, p *plan.Plan, o *plan.Outcome, status map[string]any,
) (*unstructured.Unstructured, error) {
	wanted := &unstructured.Unstructured{Object: with(p.Object.Object, "status", any(status))}
	// The resource version in wanted makes the API server reject a write that is based
	// on an older state of the object.
	ctx = withWarnings(ctx, func(err error) { logWarning(r.log, p.ConcealStatus(err)) })
	stored, isOther, err := r.records.write(r.name, wanted.GetUID(), func() (*unstructured.Unstructured, error) {
		return r.config.Writer.Resource(r.resource).Namespace(r.name.Namespace).
			UpdateStatus(ctx, wanted, metav1.UpdateOptions{FieldManager: r.manager})
	})
	if err != nil {
		return nil, err
	}
	if cached := r.objects.Get(r.name); cached != nil {
		r.records.cached(r.name, cached)
	}
	if isOther {
		r.queue.Add(r.name)
	}
	r.logStored(p, o)
	if stored.GetResourceVersion() == p.Object.GetResourceVersion() {
		return p.Object, nil // what the API server stores of it is what it had
	}
	return stored, nil
}

// SetFinalizers replaces the finalizers of an object. The resource version makes the API server reject
// a write that is based on an older state of the object: one that is being deleted, or was recreated.
func (r *reconciliation) SetFinalizers(
	ctx context.Context, object *unstructured.Unstructured, names []string,
) (*unstructured.Unstructured, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion(), "finalizers": names,
	}})
	if err != nil {
		return nil, err
	}
	stored, err := r.config.Client.Resource(r.resource).Namespace(r.name.Namespace).
		Patch(ctx, r.name.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: r.manager})
	if err != nil {
		return nil, err
	}
	stored.SetManagedFields(nil)
	r.records.rememberObject(r.name, stored)
	return stored, nil
}

// logStored logs what the status that was stored shows.
func (r *reconciliation) logStored(p *plan.Plan, o *plan.Outcome) {
	for _, t := range p.Transitions {
		r.log.Info("phase changed", "from", t.From, "to", t.To)
	}
	if stalled := plan.JustStalled(p, o); stalled != nil {
		// the log has one line for the same error of many objects
		if o.Rejected != nil && stalled.Message == o.Rejected.Error() {
			r.log.Warn("object is stalled", "reason", stalled.Reason, "error", o.Rejected)
		} else {
			r.log.Warn("object is stalled", "reason", stalled.Reason, "message", stalled.Message)
		}
	}
	if late := plan.JustLate(p, o); late != nil {
		r.log.Warn("object is not ready in time", "message", late.Message)
	}
	if missed := plan.JustMissed(p); missed != nil {
		r.log.Warn("a time of the schedule was missed", "message", missed.Message)
	}
}

// tell logs, and records in an Event, what has happened.
func (r *reconciliation) tell(object *unstructured.Unstructured, result reconcile.Result) {
	for _, foreign := range result.Foreign {
		r.log.Warn("found a foreign object", "resource", foreign.Resource.Resource, "name", foreign.Object.GetName())
	}
	if result.Problem != nil && r.kind.Target != nil { // there is no status that shows it
		r.log.Warn("object is stalled", "reason", result.Problem.Reason, "message", result.Problem.Message)
	}
	if result.IsAbandoned {
		r.log.Warn("the object was released before a terminal phase: its namespace is being deleted")
	}
	event := result.Event
	if event == nil || event.Type == corev1.EventTypeNormal && r.config.OnlyWarnings {
		return
	}
	var related runtime.Object // a nil pointer would be one
	if event.Related != nil {
		related = event.Related
	}
	r.config.Events.Eventf(object, related, event.Type, event.Reason, event.Action, "%s", event.Note)
}
