package children

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// each stands in a path for each element of a list.
const each = "*"

// ReadOfMetadata returns the paths of what is read of children and strays of all types, besides type,
// name, namespace, UID and resource version.
func ReadOfMetadata() [][]string {
	paths := [][]string{
		{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
		{"metadata", "creationTimestamp"}, {"metadata", "deletionTimestamp"}, {"metadata", "generation"},
		{"metadata", "annotations", AnnotationTemplate},
		{"metadata", "annotations", AnnotationEntered},
	}
	for _, name := range OwnAnnotations {
		paths = append(paths, []string{"metadata", "annotations", name})
	}
	return paths
}

// ReadOfReadiness returns the paths of what is read of children of a type to find out whether they are
// ready, which is what kstatus reads of them.
func ReadOfReadiness(gvk schema.GroupVersionKind) [][]string {
	if gvk.Group != "" && gvk.Group != "batch" || gvk.Kind == "Service" || gvk.Kind == "Job" ||
		gvk.Kind == "PersistentVolumeClaim" {
		return [][]string{
			{"status"},
			{"spec", "replicas"}, {"spec", "updateStrategy"}, {"spec", "progressDeadlineSeconds"}, // workloads
			{"spec", "parallelism"}, {"spec", "completions"}, // Jobs
			{"spec", "type"}, {"spec", "clusterIP"}, // Services
		}
	}
	paths := [][]string{{"status", "observedGeneration"}}
	for _, field := range []string{"type", "status", "reason", "message"} {
		paths = append(paths, []string{"status", "conditions", each, field})
	}
	if gvk == corev1.SchemeGroupVersion.WithKind("Pod") {
		paths = append(paths, []string{"status", "phase"},
			[]string{"status", "containerStatuses", each, "name"},
			[]string{"status", "containerStatuses", each, "state", "waiting", "reason"})
	}
	return paths
}
