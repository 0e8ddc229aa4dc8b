package simulate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Selection selects objects by their type as people write it for kubectl, and by name, which may have the
// namespace before it. An empty name selects all of the type.
type Selection struct{ Type, Name string }

// String returns the selection as TYPE, TYPE/NAME or TYPE/NAMESPACE/NAME.
func (s Selection) String() string {
	if s.Name == "" {
		return s.Type
	}
	return s.Type + "/" + s.Name
}

func (s Selection) matches(types served, object *unstructured.Unstructured) bool {
	isNamed := s.Name == "" || s.Name == object.GetName() || s.Name == object.GetNamespace()+"/"+object.GetName()
	return isNamed && s.isType(types, object.GroupVersionKind())
}

// isType reports whether the type of a selection is the name of a type: the kind, the resource or a short name, alone
// or with the group after it, or the version and the group.
func (s Selection) isType(types served, gvk schema.GroupVersionKind) bool {
	short, of, isFull := strings.Cut(s.Type, ".")
	isOther := !strings.EqualFold(of, gvk.Group) && !strings.EqualFold(of, gvk.Version+"."+gvk.Group)
	if isFull && (gvk.Group == "" || isOther) {
		return false
	}
	names := []string{gvk.Kind, types.ResourceOf(gvk).Resource, shortNames[gvk.GroupKind()]}
	for _, k := range types {
		if k.GroupVersionKind == gvk {
			names = append(append(names, k.Names.Singular), k.Names.ShortNames...)
		}
	}
	return slices.ContainsFunc(names, func(name string) bool { return name != "" && strings.EqualFold(name, short) })
}

// shortNames are those of the types of Kubernetes, as kubectl api-resources lists them.
var shortNames = map[schema.GroupKind]string{
	{Kind: "ConfigMap"}: "cm", {Kind: "Endpoints"}: "ep", {Kind: "Event"}: "ev", {Kind: "LimitRange"}: "limits",
	{Kind: "Namespace"}: "ns", {Kind: "Node"}: "no", {Kind: "PersistentVolume"}: "pv",
	{Kind: "PersistentVolumeClaim"}: "pvc", {Kind: "Pod"}: "po", {Kind: "ReplicationController"}: "rc",
	{Kind: "ResourceQuota"}: "quota", {Kind: "Service"}: "svc", {Kind: "ServiceAccount"}: "sa",
	{Group: "apps", Kind: "DaemonSet"}: "ds", {Group: "apps", Kind: "Deployment"}: "deploy",
	{Group: "apps", Kind: "ReplicaSet"}: "rs", {Group: "apps", Kind: "StatefulSet"}: "sts",
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: "hpa", {Group: "batch", Kind: "CronJob"}: "cj",
	{Group: "events.k8s.io", Kind: "Event"}: "ev", {Group: "networking.k8s.io", Kind: "Ingress"}: "ing",
	{Group: "networking.k8s.io", Kind: "NetworkPolicy"}: "netpol",
	{Group: "policy", Kind: "PodDisruptionBudget"}:      "pdb",
	{Group: "scheduling.k8s.io", Kind: "PriorityClass"}: "pc", {Group: "storage.k8s.io", Kind: "StorageClass"}: "sc",
}

// Known reports whether a type is one of the kinds, one of their children or reads, or of an object that
// exists.
func (c *Cluster) Known(s Selection) bool {
	for _, k := range c.served {
		if s.isType(c.served, k.GroupVersionKind) ||
			slices.ContainsFunc(k.Owns, func(gvk schema.GroupVersionKind) bool { return s.isType(c.served, gvk) }) ||
			slices.ContainsFunc(k.Lookups, func(l kind.LookupFacts) bool { return s.isType(c.served, l.Type) }) {
			return true
		}
	}
	return slices.ContainsFunc(c.objects,
		func(o *unstructured.Unstructured) bool { return s.isType(c.served, o.GroupVersionKind()) })
}

// Select returns the objects that are selected.
func (c *Cluster) Select(s Selection) (found []*unstructured.Unstructured) {
	for _, object := range c.objects {
		if s.matches(c.served, object) {
			found = append(found, object)
		}
	}
	return found
}
