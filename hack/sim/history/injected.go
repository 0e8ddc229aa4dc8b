package history

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
)

// labelClaims is on Pods whose author says what was injected into them.
const labelClaims = "claims"

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
	ofPod := map[string]string{"app": []string{"a", "b"}[u.random.IntN(2)]}
	annotations := map[string]string{k.InjectAnnotation: strings.Join(names, ", ")}
	resource := u.resourceOf(k)
	claimed := u.store.Get(resource, types.NamespacedName{Namespace: namespace, Name: names[0]})
	if claimed != nil && u.random.IntN(3) == 0 { // it stays if no webhook answers
		annotations[inject.StatusAnnotation], ofPod[labelClaims] = injectedFrom(k, claimed), "yes"
	}
	pod.SetLabels(ofPod)
	pod.SetAnnotations(annotations)
	pods := u.resource(pod.GroupVersionKind()).GroupVersionResource
	live := u.store.Get(pods, nameOf(pod))
	switch {
	case live == nil:
		pod.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "app", "image": "a"}}}
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
	return fmt.Sprintf(`{%q: {"generation": %d}}`, injectedObject(k, object), object.GetGeneration())
}

// injectedObject names an object as the annotation of a Pod does.
func injectedObject(k *kind.Kind, object *unstructured.Unstructured) inject.Object {
	return inject.Object{Kind: k.GroupVersionKind.GroupKind(), Name: object.GetName()}
}

// misinjected returns what is wrong with what webhooks say that a new Pod has of the objects of kinds, as they are now:
// they may not know the last version of an object, and know none that nobody has written.
func (h observer) misinjected(c apiserver.Change, all map[string]*unstructured.Unstructured) string {
	if c.Before != nil || c.After.GetKind() != "Pod" || c.By != users || c.After.GetLabels()[labelClaims] != "" {
		return ""
	}
	for injected, generation := range inject.InjectedInto(c.After.GetAnnotations()) {
		i := slices.IndexFunc(h.Kinds,
			func(k *kind.Kind) bool { return k.GroupVersionKind.GroupKind() == injected.Kind })
		if i < 0 {
			return fmt.Sprintf("a Pod has %s, which is of no kind: %s", injected, c)
		}
		id := injected.Kind.Kind + "/" + c.After.GetNamespace() + "/" + injected.Name
		object := all[id]
		if object == nil || c.At.Sub(object.GetCreationTimestamp().Time) < h.unheard() {
			continue // a former object of the name may be known
		}
		if generation > object.GetGeneration() {
			return fmt.Sprintf("a Pod has the generation %d of %s, which is at %d: %s", generation, id,
				object.GetGeneration(), c)
		}
		if missing := missingOf(h.Kinds[i], object, c.After); generation == object.GetGeneration() && missing != "" {
			return fmt.Sprintf("a Pod has %s, and lacks its %s: %s", id, missing, c)
		}
	}
	return ""
}

// missingOf returns a container that an object adds and that a Pod does not have; it is empty if there is none.
func missingOf(k *kind.Kind, object, pod *unstructured.Unstructured) string {
	injection, err := inject.Of(k.NewBudget(), k, object.Object)
	if err != nil {
		return ""
	}
	part, err := injection.Part()
	if err != nil {
		return ""
	}
	var has corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(pod.Object, &has); err != nil {
		return err.Error()
	}
	for _, added := range slices.Concat(part.Spec.InitContainers, part.Spec.Containers) {
		if !slices.ContainsFunc(slices.Concat(has.Spec.InitContainers, has.Spec.Containers),
			func(c corev1.Container) bool { return c.Name == added.Name }) {
			return "container " + added.Name
		}
	}
	return ""
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
	of := injectedObject(k, object)
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
		generation, isInjected := inject.InjectedInto(pod.GetAnnotations())[of]
		switch {
		case isInjected && generation == object.GetGeneration():
			current++
		case isInjected:
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
