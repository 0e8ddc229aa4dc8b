package history

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// annotationInjected has the objects that were injected into a Pod, and their generations.
const annotationInjected = "fescue.dev/injected"

// changePod creates a Pod that requests objects of a kind that injects, as it is with or without what they add, or
// changes or deletes one.
func changePod(u user) {
	k := u.kind()
	if !k.Injects() {
		return
	}
	names := []string{u.name(), u.name()}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	pod.SetNamespace(namespace)
	pod.SetName(fmt.Sprint("pod", u.random.IntN(3)))
	pod.SetLabels(map[string]string{"app": []string{"a", "b"}[u.random.IntN(2)]})
	annotations := map[string]string{k.InjectAnnotation: strings.Join(names, ", ")}
	resource := u.resourceOf(k)
	if of := u.store.Get(resource, types.NamespacedName{Namespace: namespace, Name: names[0]}); of != nil &&
		u.random.IntN(3) > 0 {
		annotations[annotationInjected] = injectedFrom(k, of)
	}
	pod.SetAnnotations(annotations)
	pods := u.resource(pod.GroupVersionKind()).GroupVersionResource
	live := u.store.Get(pods, nameOf(pod))
	switch {
	case live == nil:
		pod.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}
		_, _ = u.store.Create(pods, namespace, pod, "user")
	case u.random.IntN(2) == 0:
		_ = u.store.Delete(pods, nameOf(pod), metav1.DeletePropagationBackground)
	default:
		changed := live.DeepCopy()
		changed.SetLabels(pod.GetLabels())
		changed.SetAnnotations(annotations)
		_, _ = u.store.Update(pods, changed, "user")
	}
}

// injectedFrom returns the annotation of a Pod that has what an object adds in its present generation.
func injectedFrom(k *kind.Kind, object *unstructured.Unstructured) string {
	id := k.GroupVersionKind.GroupKind().String() + "/" + object.GetName()
	return fmt.Sprintf(`{%q: {"generation": %d}}`, id, object.GetGeneration())
}

// misreported returns how the condition Injected of an object differs from what its Pods have of it.
func misreported(k *kind.Kind, object *unstructured.Unstructured, live map[string]*unstructured.Unstructured) string {
	if !k.Injects() {
		return ""
	}
	injection, err := inject.Of(k.NewBudget(), k, object.Object)
	if err != nil {
		return ""
	}
	present := injectedFrom(k, object)
	ofObject, _, _ := strings.Cut(present, ":") // in any generation
	current, outdated, missing := 0, 0, 0
	for _, pod := range live {
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		isEnded := phase == string(corev1.PodSucceeded) || phase == string(corev1.PodFailed)
		if pod.GetKind() != "Pod" || pod.GetNamespace() != object.GetNamespace() || isEnded ||
			pod.GetDeletionTimestamp() != nil {
			continue
		}
		names := strings.Split(pod.GetAnnotations()[k.InjectAnnotation], ", ")
		isSelected := injection.Selector() != nil && injection.Selector().Matches(labels.Set(pod.GetLabels()))
		injected := pod.GetAnnotations()[annotationInjected]
		switch {
		case injected == present:
			current++
		case strings.HasPrefix(injected, ofObject+":"):
			outdated++
		case isSelected || names[0] == object.GetName() || len(names) > 1 && names[1] == object.GetName():
			missing++
		}
	}
	want := ""
	switch {
	case missing > 0:
		want = "MissedPods"
	case outdated > 0:
		want = "OutdatedPods"
	case current > 0:
		want = "InjectedIntoAll"
	}
	if reason := reasonOf(object, kind.ConditionInjected); reason != want {
		return fmt.Sprintf("has the reason %q of its condition Injected, and should have %q", reason, want)
	}
	return ""
}

// reasonOf returns the reason of a condition of an object; it is empty without the condition.
func reasonOf(object *unstructured.Unstructured, of string) string {
	for _, condition := range conditionsOf(object) {
		if condition["type"] == of {
			reason, _ := condition["reason"].(string)
			return reason
		}
	}
	return ""
}
