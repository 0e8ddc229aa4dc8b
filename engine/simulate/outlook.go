package simulate

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/engine/simulate/workloads"
)

// inanimate are types of objects that no controller gives a status.
var inanimate = sets.New(
	corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret"),
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"),
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"),
	schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
)

// Reached returns the phases that objects of a kind have had.
func (c *Cluster) Reached(k *kind.Kind) sets.Set[string] { return c.reached[k.Name()] }

// isLived reports whether objects of a type have their whole life in a cluster.
func isLived(gvk schema.GroupVersionKind) bool { return workloads.Reports(gvk) || inanimate.Has(gvk) }

// IsSettled reports whether an object stays as it is until someone changes it: all that it reads exists, it reconciles
// at no time, and what it reads and its children are of types that have their whole life in the cluster.
func (c *Cluster) IsSettled(object *unstructured.Unstructured) bool {
	if !c.WakeAt(object).IsZero() {
		return false
	}
	for _, k := range c.behavioursOf(object) {
		for _, gvk := range k.Owns {
			if !isLived(gvk) {
				return false
			}
		}
		lookups, err := plan.LookupsOf(k.NewBudget(), k, object)
		if err != nil || len(lookups) < len(k.Lookups) {
			return false
		}
		for _, l := range lookups {
			if !isLived(l.Type) || len(c.lookUp(l, object)) == 0 {
				return false
			}
		}
	}
	return true
}
