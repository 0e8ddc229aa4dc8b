package inject

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podTemplates says where the kinds of Kubernetes that make Pods have their template.
var podTemplates = map[string][]string{
	"Pod":                   {},
	"PodTemplate":           {"template"},
	"ReplicationController": {"spec", "template"},
	"ReplicaSet":            {"spec", "template"},
	"Deployment":            {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"Job":                   {"spec", "template"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
}

// podTemplateGroups are those that these kinds are in, or were.
var podTemplateGroups = []string{"", "apps", "batch", "extensions"}

// TemplateOf says where objects of a kind have a Pod, or a template of one: in what field,
// which for a Pod is the object itself.
func TemplateOf(gvk schema.GroupVersionKind) (path []string, found bool) {
	if !slices.Contains(podTemplateGroups, gvk.Group) {
		return nil, false
	}
	path, found = podTemplates[gvk.Kind]
	return path, found
}
