package inject

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Offer is an object that injects, as far as its uptake depends on it.
type Offer struct {
	Object
	Generation int64
	// Annotation is where Pods name the object; Selector is for those that do not, and nil
	// if it selects none.
	Annotation string
	Selector   labels.Selector
}

// OfferOf returns the offer of an object, given what it selects.
func OfferOf(k *kind.Kind, object *unstructured.Unstructured, selector labels.Selector) Offer {
	return Offer{
		Object:     Object{Kind: k.GroupVersionKind.GroupKind(), Name: object.GetName()},
		Generation: object.GetGeneration(), Annotation: k.InjectAnnotation, Selector: selector,
	}
}

// Pod is what tells whether a Pod has, or requests, what an object adds.
type Pod struct {
	Name        string
	Labels      labels.Labels
	Annotations map[string]string
	// IsBeingDeleted reports that it has a time of deletion. Then it counts as nothing.
	IsBeingDeleted bool
}

// Count counts Pods of the object's namespace: those that have what it adds, and the names of those
// that have it from another generation or request it and do not have it, sorted. A generation that
// is not the present one is an older one, even if its number is higher: then it is that of an object
// that was deleted, and this one has its name.
func (o Offer) Count(pods []*Pod) (current int, outdated, missing []string) {
	for _, pod := range pods {
		if pod.IsBeingDeleted {
			continue
		}
		generation, injected := InjectedInto(pod.Annotations)[o.Object]
		switch {
		case injected && generation == o.Generation:
			current++
		case injected:
			outdated = append(outdated, pod.Name)
		case o.isRequestedBy(pod):
			missing = append(missing, pod.Name)
		}
	}
	slices.Sort(outdated)
	slices.Sort(missing)
	return current, outdated, missing
}

// isRequestedBy reports whether a Pod names the object or is selected by it. Mirror Pods
// request nothing: they stand for static ones, which a kubelet runs from its own files.
func (o Offer) isRequestedBy(pod *Pod) bool {
	if _, isMirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; isMirror {
		return false
	}
	for name := range Names(pod.Annotations[o.Annotation]) {
		if name == o.Name {
			return true
		}
	}
	return o.Selector != nil && o.Selector.Matches(pod.Labels)
}
