package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/simulate"
	"github.com/fescue-dev/fescue/internal/manifest"
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
)

// stallFindings reports where an object would be stalled: when it is created, with the children
// among the other objects, and while its children come up. The API server, whose part the types take, rejects
// children that do not fit them. content is the object as it is stored.
func (v *vetter) stallFindings(k *kind.Kind, object manifest.Object, content map[string]any, others []manifest.Object) []finding {
	u := &unstructured.Unstructured{Object: content}
	observed := make([]*unstructured.Unstructured, len(others))
	for i := range others {
		observed[i] = &unstructured.Unstructured{Object: others[i].Content}
	}
	now := time.Now()
	for _, situation := range []struct {
		name    string
		stalled func() (string, error)
	}{
		{"when it is created", func() (string, error) { return v.stalledWhenRendered(k, u, nil, now) }},
		{"with the objects in this file", func() (string, error) { return v.stalledWhenRendered(k, u, observed, now) }},
		{"on a healthy cluster", func() (string, error) { return v.stalledInCluster(k, u, readBy(k, observed), now) }},
	} {
		message, err := situation.stalled()
		if err != nil {
			message = err.Error()
		}
		if message != "" {
			f := about(object).at(object.Locate("kind").Value.Position)
			f.Type, f.Detail = stalledType, situation.name
			f.Message = fmt.Sprintf("%s, the object would be stalled: %s", situation.name, message)
			return []finding{f}
		}
	}
	return nil
}

// stalledWhenRendered returns why an object is stalled among objects, now.
func (v *vetter) stalledWhenRendered(k *kind.Kind, object *unstructured.Unstructured, observed []*unstructured.Unstructured, now time.Time) (string, error) {
	rendering, err := simulate.Render(k, object, observed, now)
	if err != nil {
		return "", err
	}
	return v.stalledAs(rendering), nil
}

// stalledAs returns why an object would be stalled that is rendered so; "" if it would not be.
func (v *vetter) stalledAs(rendering *simulate.Rendering) string {
	if stalled := cmp.Or(rendering.Problem, stalledBy(rendering.Status)); stalled != "" {
		return stalled
	}
	for _, child := range rendering.Children {
		if rejected := v.rejected(&unstructured.Unstructured{Object: child}); rejected != "" {
			return rejected
		}
	}
	return ""
}

// rejected returns why the API server would reject a child; "" if nothing is known against it.
func (v *vetter) rejected(child *unstructured.Unstructured) string {
	if errs := v.catalog.ValidateChild(child.Object); len(errs) > 0 {
		return fmt.Sprintf("%s %q: %v", child.GetKind(), child.GetName(), errs[0])
	}
	return ""
}

// readBy returns the objects of types that a kind looks up.
func readBy(k *kind.Kind, objects []*unstructured.Unstructured) (read []*unstructured.Unstructured) {
	for _, object := range objects {
		if k.LooksUp(object.GroupVersionKind()) && object.GroupVersionKind() != k.GroupVersionKind {
			read = append(read, object)
		}
	}
	return read
}

// stalledInCluster returns why an object is stalled at some time on a healthy cluster that has
// others.
func (v *vetter) stalledInCluster(k *kind.Kind, object *unstructured.Unstructured, others []*unstructured.Unstructured, now time.Time) (string, error) {
	cluster := simulate.New([]*kind.Kind{k}, now)
	cluster.Validate(v.catalog.ValidateChild)
	cluster.Limit(simulatedReconciles)
	for _, o := range append(slices.Clip(others), object) {
		if err := cluster.Apply(o); err != nil {
			return "", err
		}
	}
	for passed := time.Duration(0); passed < simulated; passed += simulatedStep {
		err := cluster.Wait(simulatedStep)
		isCut := errors.Is(err, simulate.ErrLimit)
		if err != nil && !isCut {
			return "", err
		}
		for _, r := range cluster.Take() {
			if k.Target != nil && r.Event != nil && r.Event.Type == corev1.EventTypeWarning {
				return r.Event.Note, nil
			}
		}
		for _, o := range cluster.Objects() {
			if k.Target != nil || cluster.KindOf(o) != k {
				continue
			}
			status, _ := o.Object["status"].(map[string]any)
			if stalled := stalledBy(status); stalled != "" {
				return stalled, nil
			}
		}
		if isCut {
			break
		}
	}
	return "", nil
}

// stalledBy returns the message of the condition Stalled of a status; "" if the object is not.
func stalledBy(status map[string]any) string {
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind.ConditionStalled && c["status"] == "True" {
			message, _ := c["message"].(string)
			return message
		}
	}
	return ""
}

// isForBehaviour reports whether an object in a file is there for the behaviour of a kind: it is of a
// type that the kind looks up, or stands for a child, with a label of children and a type that the kind
// owns.
func (v *vetter) isForBehaviour(gvk schema.GroupVersionKind, object manifest.Object) bool {
	labels := (&unstructured.Unstructured{Object: object.Content}).GetLabels()
	isLabelled := slices.ContainsFunc(plan.OwnLabels, func(name string) bool { return labels[name] != "" })
	return slices.ContainsFunc(v.catalog.Added(), func(k *kind.Kind) bool {
		return k.LooksUp(gvk) || isLabelled && slices.Contains(k.Owns, gvk)
	})
}
