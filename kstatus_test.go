package main

import (
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Tools that wait by kstatus, such as Flux and kpt, see an At as it is over its life.
func TestKstatusOfAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.prepare(nil)
	watch, err := c.client.Resource(ats).Namespace(c.namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	c.start()
	_, err = c.client.Resource(pods).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "blocked-pod"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "busybox", "command": []any{"sleep", "3600"}}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.createAt("done", longAgo, "echo")
	c.createAt("blocked", longAgo, "echo")
	c.createAt("later", "2999-01-01T00:00:00Z", "echo")

	seen := make(map[string]map[string]kstatus.Status)
	for event := range watch.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		require.True(t, ok, "%v", event)
		if phaseOf(object) == "" {
			continue // before the first write kstatus cannot know
		}
		result, err := kstatus.Compute(object)
		require.NoError(t, err)
		in := phaseOf(object)
		if stalled, _, _ := condition(object, "Stalled"); stalled == string(corev1.ConditionTrue) {
			in += ", stalled"
		}
		if seen[object.GetName()] == nil {
			seen[object.GetName()] = make(map[string]kstatus.Status)
		}
		seen[object.GetName()][in] = result.Status
		if seen["done"]["DONE"] != "" && seen["blocked"]["RUNNING, stalled"] != "" && seen["later"]["PENDING"] != "" {
			break
		}
	}
	require.Equal(t, map[string]kstatus.Status{
		"PENDING": kstatus.InProgressStatus, "RUNNING": kstatus.InProgressStatus, "DONE": kstatus.CurrentStatus,
	}, seen["done"])
	require.Equal(t, kstatus.FailedStatus, seen["blocked"]["RUNNING, stalled"])
	require.Equal(t, kstatus.InProgressStatus, seen["later"]["PENDING"])
}
