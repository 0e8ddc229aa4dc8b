package children

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/parts"
)

// ReadOfMetadata returns what is read of children and strays of all types, besides type,
// name, namespace, UID and resource version.
func ReadOfMetadata() *parts.Set {
	paths := [][]string{
		{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
		{"metadata", "creationTimestamp"}, {"metadata", "deletionTimestamp"}, {"metadata", "generation"},
		{"metadata", "annotations", AnnotationTemplate},
		{"metadata", "annotations", AnnotationEntered},
	}
	for _, name := range OwnAnnotations {
		paths = append(paths, []string{"metadata", "annotations", name})
	}
	return parts.Of(paths...)
}

// ReadOfReadiness returns what is read of children of a type to find out whether they are
// ready, which is what kstatus reads of them.
func ReadOfReadiness(gvk schema.GroupVersionKind) *parts.Set {
	if gvk.Group != "" && gvk.Group != "batch" || gvk.Kind == "Service" || gvk.Kind == "Job" ||
		gvk.Kind == "PersistentVolumeClaim" {
		return parts.Of(
			[]string{"status"},
			[]string{"spec", "replicas"}, []string{"spec", "updateStrategy"}, // workloads
			[]string{"spec", "progressDeadlineSeconds"},
			[]string{"spec", "parallelism"}, []string{"spec", "completions"}, // Jobs
			[]string{"spec", "type"}, []string{"spec", "clusterIP"}, // Services
		)
	}
	paths := [][]string{{"status", "observedGeneration"}}
	for _, field := range []string{"type", "status", "reason", "message"} {
		paths = append(paths, []string{"status", "conditions", parts.Each, field})
	}
	if gvk == corev1.SchemeGroupVersion.WithKind("Pod") {
		paths = append(paths, []string{"status", "phase"},
			[]string{"status", "containerStatuses", parts.Each, "name"},
			[]string{"status", "containerStatuses", parts.Each, "state", "waiting", "reason"})
	}
	return parts.Of(paths...)
}
