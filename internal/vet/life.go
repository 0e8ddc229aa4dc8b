package vet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/engine/simulate"
)

const (
	// simulated is how long vet lets an object live on a healthy cluster in memory: Pods start
	// and Deployments roll out within a minute there.
	simulated = 10 * time.Minute
	// simulatedStep is how often vet looks at it.
	simulatedStep = 10 * time.Second
	// simulatedReconciles is after how many reconciles vet looks no further, so that it ends soon also if each
	// takes the budget of an evaluation (kinds.md#limits): what stalls objects usually does so in the first ones.
	simulatedReconciles = 1000
	// simulatedWakes is how often vet waits for the time at which an object is reconciled next, however far that is.
	simulatedWakes = 100
	// simulatedTurns is how many Jobs succeed at most before the others fail.
	simulatedTurns = 3
	// simulatedOthers is how many other objects of a file live at most: all share the reconciles.
	simulatedOthers = 10
)

// life is the life of an object on a healthy cluster in memory.
type life struct {
	cluster *simulate.Cluster
	kind    *kind.Kind
	given   *unstructured.Unstructured   // the manifest of the object
	others  []*unstructured.Unstructured // that exist before
	ended   sets.Set[types.UID]          // Jobs and Pods
}

// newLife returns the life of an object of a kind, with the other objects of its file.
func newLife(
	k *kind.Kind, catalog *load.Kinds, object *unstructured.Unstructured, others []*unstructured.Unstructured,
	now time.Time,
) life {
	kinds := related(k, catalog, others)
	l := life{
		cluster: simulate.New(kinds, now), kind: k, given: object, others: readBy(kinds, others),
		ended: sets.New[types.UID](),
	}
	l.cluster.Validate(catalog.ValidateChild)
	return l
}

// related returns a kind and, directly or through others, the kinds whose objects it creates or reads: those that the
// cluster reconciles. It leaves out a kind of which the file gives an object a status, which must not change, and all
// others if the file has many objects. A decorator is alone, since its Events do not say which kind they come from.
func related(k *kind.Kind, catalog *load.Kinds, others []*unstructured.Unstructured) []*kind.Kind {
	if k.Target != nil {
		return []*kind.Kind{k}
	}
	kinds, isGiven, living := []*kind.Kind{k}, make(map[*kind.Kind]bool), 0
	for _, o := range others {
		if other := catalog.ByGVK(o.GroupVersionKind()); other != nil && other != k {
			isGiven[other] = isGiven[other] || o.Object["status"] != nil
			living++
		}
	}
	add := func(gvk schema.GroupVersionKind) {
		other := catalog.ByGVK(gvk)
		if other != nil && !isGiven[other] && !slices.Contains(kinds, other) {
			kinds = append(kinds, other)
		}
	}
	for i := 0; i < len(kinds) && living <= simulatedOthers; i++ {
		for _, gvk := range kinds[i].Owns {
			add(gvk)
		}
		for _, l := range kinds[i].Lookups {
			add(l.Type)
		}
	}
	return kinds
}

// readBy returns the objects of types that some kinds look up, but for those of the first kind.
func readBy(kinds []*kind.Kind, objects []*unstructured.Unstructured) (read []*unstructured.Unstructured) {
	for _, object := range objects {
		gvk := object.GroupVersionKind()
		isRead := slices.ContainsFunc(kinds, func(k *kind.Kind) bool { return k.Lookups.Has(gvk) })
		if isRead && gvk != kinds[0].GroupVersionKind {
			read = append(read, object)
		}
	}
	return read
}

// begin creates the object, and returns why it is stalled in the time after; "" if it never is.
func (l life) begin() (string, error) {
	if err := l.create(); err != nil {
		return "", err
	}
	l.cluster.Limit(simulatedReconciles)
	for passed := time.Duration(0); passed < simulated; passed += simulatedStep {
		err := l.cluster.Wait(simulatedStep)
		isCut := errors.Is(err, simulate.ErrLimit)
		if err != nil && !isCut {
			return "", err
		}
		if stalled := l.stalled(); stalled != "" || isCut {
			return stalled, nil
		}
	}
	return "", nil
}

// create creates the object after the others. It skips those that are invalid: they have findings of their own.
func (l life) create() error {
	for _, o := range l.others {
		_ = l.cluster.Apply(o)
	}
	return l.cluster.Apply(l.given)
}

// end deletes the object, and returns why it is stalled then; "" if it never is. Jobs succeed or fail from now on, and
// so do Pods that are not restarted.
func (l life) end(succeed bool) (string, error) {
	object := l.object()
	if object == nil {
		return "", nil
	}
	l.cluster.Delete(object)
	o, err := l.follow(func() error { return l.finish(succeed) })
	return o.stalled, err
}

// stalled returns why the object is stalled; "" if it is not. The problems of a decorator are not in a status: they
// are those that its Events have told since the last call.
func (l life) stalled() string {
	for _, r := range l.cluster.Take() {
		if l.kind.Target != nil && r.Event != nil && r.Event.Type == corev1.EventTypeWarning {
			return r.Event.Note
		}
	}
	if o := l.object(); o != nil {
		status, _ := o.Object["status"].(map[string]any)
		return stalledBy(status)
	}
	return ""
}

// object returns the object; nil if it is gone. It is nil for a decorator, whose target lives by itself.
func (l life) object() *unstructured.Unstructured {
	if l.kind.Target != nil {
		return nil
	}
	for _, o := range l.cluster.Objects() {
		if l.cluster.KindOf(o) == l.kind && o.GetName() == l.given.GetName() {
			return o
		}
	}
	return nil
}

// finish lets Jobs succeed or fail, and Pods that are not restarted.
func (l life) finish(succeed bool) error {
	for _, o := range l.cluster.Objects() {
		policy, _, _ := unstructured.NestedString(o.Object, "spec", "restartPolicy")
		isServer := o.GetKind() == "Pod" && (policy == "" || policy == string(corev1.RestartPolicyAlways))
		patch := l.cluster.End(o, succeed)
		if patch == nil || isServer || l.ended.Has(o.GetUID()) {
			continue
		}
		l.ended.Insert(o.GetUID())
		if err := l.cluster.Patch(o, patch); err != nil {
			return err
		}
	}
	return nil
}

// stays returns where an object stays that was deleted; "" if it is gone, or goes on by itself at some time.
func (l life) stays() string {
	object := l.object()
	if object == nil || object.GetDeletionTimestamp() == nil || !l.cluster.WakeAt(object).IsZero() {
		return ""
	}
	status, _ := object.Object["status"].(map[string]any)
	deleting := conditionOf(status, kind.ConditionDeleting)
	where := fmt.Sprintf("in %v", deleting["reason"])
	if message, _ := deleting["message"].(string); message != "" {
		where += fmt.Sprintf(" (%s)", message)
	}
	return where
}
