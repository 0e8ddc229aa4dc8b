package simulate

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/plan"
)

var podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

// inject returns a Pod as the webhooks admit it. Objects that cannot be injected report that
// themselves.
func (c *Cluster) inject(pod *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var candidates []*inject.Injection
	for _, object := range c.objects {
		k := c.KindOf(object)
		if k == nil || !k.Injects() {
			continue
		}
		b := k.NewBudget()
		if injection, err := inject.Of(b, k, k.Check(b, object.Object).Stored().Object); err == nil {
			candidates = append(candidates, injection)
		}
	}
	text, err := json.Marshal(pod.Object)
	if err != nil || len(candidates) == 0 {
		return pod, err
	}
	result, err := inject.NewInjector("", c.served).Inject(context.Background(),
		inject.Target{Text: text, Namespace: pod.GetNamespace()}, candidates)
	if err != nil {
		return nil, err
	}
	injected := &unstructured.Unstructured{}
	return injected, utiljson.Unmarshal(result.Pod(), &injected.Object)
}

// uptake counts what the Pods have of an object. why reports that the kind cannot evaluate which Pods
// it selects.
func (w *world) uptake(owner *unstructured.Unstructured) (u plan.Uptake, why error) {
	var selector labels.Selector
	if checked := w.kind.Check(w.budget, owner.Object).Stored(); len(checked.Errors) == 0 {
		injection, err := inject.Of(w.budget, w.kind, checked.Object)
		if err != nil {
			return plan.Uptake{}, err
		}
		selector = injection.Selector()
	}
	var pods []*inject.Pod
	for _, object := range w.objects {
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		ended := phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
		if object.GroupVersionKind() == podKind && object.GetNamespace() == owner.GetNamespace() && !ended {
			pods = append(pods, &inject.Pod{
				Name: object.GetName(), Labels: labels.Set(object.GetLabels()), Annotations: object.GetAnnotations(),
				IsBeingDeleted: object.GetDeletionTimestamp() != nil,
			})
		}
	}
	u.Current, u.Outdated, u.Missing = inject.OfferOf(w.kind, owner, selector).Count(pods)
	return u, nil
}
