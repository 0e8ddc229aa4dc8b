package children

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/projection"
)

// kept returns what a projection keeps of an object.
func kept(t *testing.T, p projection.Projection, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(object.Object)
	require.NoError(t, err)
	o, err := p.Parse(text)
	require.NoError(t, err)
	return o.Unstructured()
}

// Readiness is the same with what is read for it alone.
func TestReadOfReadiness(t *testing.T) {
	t.Parallel()
	results := make(map[string]map[string]bool)
	for _, gvk := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "PersistentVolumeClaim"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "apps", Version: "v1", Kind: "DaemonSet"}, {Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}, {Group: "batch", Version: "v1", Kind: "CronJob"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, {Group: "example.com", Version: "v1", Kind: "Thing"},
	} {
		keep := projection.To(ReadOfMetadata().Union(ReadOfReadiness(gvk)))
		results[gvk.String()] = make(map[string]bool)
		for _, object := range readinessObjects(gvk) {
			want, wantErr := status.Compute(object)
			got, gotErr := status.Compute(kept(t, keep, object))
			require.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(gotErr), "%s: %v", gvk, object.Object)
			require.Equal(t, want, got, "%s: %v", gvk, object.Object)
			if want != nil {
				results[gvk.String()][want.Status.String()] = true
			}
		}
	}
	for _, gvk := range []string{"/v1, Kind=Pod", "apps/v1, Kind=Deployment", "apps/v1, Kind=StatefulSet", "batch/v1, Kind=Job", "example.com/v1, Kind=Thing"} {
		require.Greater(t, len(results[gvk]), 1, "%s: the objects are not all the same", gvk)
	}
}

// readinessObjects returns objects that differ in what kstatus reads of some type.
func readinessObjects(gvk schema.GroupVersionKind) (objects []*unstructured.Unstructured) {
	conditions := [][]any{nil}
	for _, name := range []string{"Ready", "PodScheduled", "Complete", "Failed", "Available", "Progressing", "Established", "NamesAccepted", "Reconciling", "Stalled", "ReplicaFailure"} {
		for _, value := range []string{"True", "False"} {
			conditions = append(conditions, []any{map[string]any{"type": name, "status": value, "reason": "Unschedulable", "message": "m", "lastTransitionTime": "2020-01-01T00:00:00Z"}})
		}
	}
	waiting := []any{map[string]any{"name": "c", "ready": false, "state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "m"}}}}
	counts := func(n int64) map[string]any {
		return map[string]any{
			"replicas": n, "readyReplicas": n, "updatedReplicas": n, "availableReplicas": n, "currentReplicas": n, "fullyLabeledReplicas": n,
			"desiredNumberScheduled": n, "currentNumberScheduled": n, "updatedNumberScheduled": n, "numberAvailable": n, "numberReady": n,
			"succeeded": n, "active": n, "failed": n, "startTime": "2020-01-01T00:00:00Z", "observedGeneration": n,
			"currentRevision": "a", "updateRevision": "a",
		}
	}
	for _, phase := range []string{"", "Pending", "Running", "Succeeded", "Failed", "Bound", "Other"} {
		for n := range int64(3) {
			for _, list := range conditions {
				current := counts(n)
				current["phase"], current["conditions"], current["containerStatuses"] = phase, list, waiting
				if list == nil {
					delete(current, "conditions")
				}
				object := &unstructured.Unstructured{Object: map[string]any{
					"metadata": map[string]any{"name": "a", "generation": int64(1), "creationTimestamp": "2020-01-01T00:00:00Z"},
					"spec": map[string]any{
						"replicas": int64(1), "progressDeadlineSeconds": int64(1), "parallelism": n, "completions": n, "type": "LoadBalancer", "template": map[string]any{},
						"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": n}},
					},
					"status": current,
				}}
				object.SetGroupVersionKind(gvk)
				objects = append(objects, object)
			}
		}
	}
	return objects
}
