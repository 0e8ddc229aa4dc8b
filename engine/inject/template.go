package inject

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podTemplates is where Kubernetes' kinds that create Pods have their template.
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

// podTemplateGroups are the groups that these kinds are in, or were in.
var podTemplateGroups = []string{"", "apps", "batch", "extensions"}

// TemplateOf returns the field in which objects of a kind have a Pod template. For a Pod, it is
// the object itself.
func TemplateOf(gvk schema.GroupVersionKind) (path []string, found bool) {
	if !slices.Contains(podTemplateGroups, gvk.Group) {
		return nil, false
	}
	path, found = podTemplates[gvk.Kind]
	return path, found
}

// ClaimsOf returns the names of the volumes that a StatefulSet adds to the Pods of its template, in
// place of those that the template has by these names; other objects have none.
func ClaimsOf(object map[string]any) (names []string) {
	found, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "volumeClaimTemplates")
	templates, _ := found.([]any)
	for _, template := range templates {
		if template, ok := template.(map[string]any); ok {
			if name, found, err := unstructured.NestedString(template, "metadata", "name"); found && err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}
