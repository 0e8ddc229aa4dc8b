package simulate

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
)

// served are the kinds that a cluster runs, and what they show of the types that it serves.
type served []*kind.Kind

// KindOf returns the kind of an object; nil if it is of no kind that the cluster runs.
func (s served) KindOf(object *unstructured.Unstructured) *kind.Kind {
	for _, k := range s {
		if k.Target == nil && k.GroupVersionKind == object.GroupVersionKind() {
			return k
		}
	}
	return nil
}

// behavioursOf returns the kind of an object, and the decorators of its type.
func (s served) behavioursOf(object *unstructured.Unstructured) (all []*kind.Kind) {
	for _, k := range s {
		if k.GroupVersionKind == object.GroupVersionKind() {
			all = append(all, k)
		}
	}
	return all
}

// IsRun reports whether an object is of a kind that the cluster runs, or one that a decorator is for.
func (s served) IsRun(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(s.behavioursOf(object),
		func(k *kind.Kind) bool { return k.Target == nil || children.Decorates(k, object) })
}

// kindInAnyVersion is KindOf for an object in any version of its kind.
func (s served) kindInAnyVersion(object *unstructured.Unstructured) *kind.Kind {
	for _, k := range s {
		if k.Target == nil &&
			slices.ContainsFunc(k.Versions,
				func(v *kind.Version) bool { return v.GroupVersionKind == object.GroupVersionKind() }) {
			return k
		}
	}
	return nil
}

// ResourceOf returns where a type is served. That of a type that is not one of the kinds' is
// guessed.
func (s served) ResourceOf(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	for _, k := range s {
		if k.Target == nil && k.GroupVersionKind == gvk {
			return k.GroupVersionResource()
		}
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural
}

// isNamespaced reports whether objects of a type have a namespace, as far as the kinds of the cluster show.
func (s served) isNamespaced(gvk schema.GroupVersionKind) bool {
	return !slices.ContainsFunc(s, func(k *kind.Kind) bool {
		return k.Scope == apiextensionsv1.ClusterScoped &&
			slices.ContainsFunc(k.Versions, func(v *kind.Version) bool { return v.GroupVersionKind == gvk }) ||
			slices.Contains(k.OwnsOfCluster, gvk) ||
			slices.ContainsFunc(k.Lookups, func(l kind.LookupFacts) bool { return l.Type == gvk && l.IsClusterScoped })
	})
}
