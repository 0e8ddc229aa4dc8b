package vet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
)

// life is the life of an object on a healthy cluster in memory.
type life struct {
	cluster *simulate.Cluster
	kind    *kind.Kind
	ended   sets.Set[types.UID] // Jobs and Pods
}

func newLife(k *kind.Kind, catalog *load.Kinds, now time.Time) life {
	l := life{cluster: simulate.New([]*kind.Kind{k}, now), kind: k, ended: sets.New[types.UID]()}
	l.cluster.Validate(catalog.ValidateChild)
	return l
}

// begin creates the object on a cluster that has others, and returns why it is stalled in the time after; "" if it
// never is.
func (l life) begin(object *unstructured.Unstructured, others []*unstructured.Unstructured) (string, error) {
	if err := l.create(object, others); err != nil {
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

func (l life) create(object *unstructured.Unstructured, others []*unstructured.Unstructured) error {
	for _, o := range append(slices.Clip(others), object) {
		if err := l.cluster.Apply(o); err != nil {
			return err
		}
	}
	return nil
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
		if l.cluster.KindOf(o) == l.kind {
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
