package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

// createAt creates an At in the namespace of the test.
func (c *cluster) createAt(name, schedule, command string) *unstructured.Unstructured {
	c.t.Helper()
	object, err := c.client.Resource(ats).Namespace(c.namespace).Create(c.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ats.GroupVersion().String(), "kind": "At",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"schedule": schedule, "command": command},
	}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	return object
}

// create creates an object in the namespace of the test, as soon as its type is served.
func (c *cluster) create(resource schema.GroupVersionResource, kind, name string, fields map[string]any) *unstructured.Unstructured {
	c.t.Helper()
	object := map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}} // which fields may replace
	maps.Copy(object, fields)
	var created *unstructured.Unstructured
	require.True(c.t, testcluster.WaitUntil(func() bool {
		var err error
		created, err = c.client.Resource(resource).Namespace(c.namespace).Create(c.t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(c.t, err)
		}
		return err == nil
	}))
	return created
}

func (c *cluster) createCustomcluster(name string, count int64, message string) *unstructured.Unstructured {
	c.t.Helper()
	return c.create(customclusters, "Customcluster", name, map[string]any{"spec": map[string]any{"count": count, "message": message}})
}

func (c *cluster) createWatcher(name string, data map[string]any) *unstructured.Unstructured {
	c.t.Helper()
	return c.create(watchers, "Watcher", name, map[string]any{"spec": map[string]any{
		"container": map[string]any{"name": "watch", "image": "busybox"}, "configData": data,
	}})
}

// createPod creates a Pod that runs on, or comes to its end if it is never restarted.
func (c *cluster) createPod(name, restartPolicy string, labels, annotations map[string]any) {
	c.t.Helper()
	command := []any{"sleep"}
	if restartPolicy == "Never" {
		command = []any{"true"}
	}
	c.create(pods, "Pod", name, map[string]any{
		"metadata": map[string]any{"name": name, "labels": labels, "annotations": annotations},
		"spec": map[string]any{
			"restartPolicy": restartPolicy, "terminationGracePeriodSeconds": int64(0),
			"containers": []any{map[string]any{"name": "app", "image": "busybox", "command": command}},
		},
	})
}

// try creates an object and tells whether it is there.
func (c *cluster) try(resource schema.GroupVersionResource, kind, name string, spec map[string]any) bool {
	object := map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}}
	if spec != nil {
		object["spec"] = spec
	}
	_, err := c.client.Resource(resource).Namespace(c.namespace).Create(context.Background(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	return err == nil
}

func (c *cluster) get(resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return c.client.Resource(resource).Namespace(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
}

// await waits until an object satisfies a condition and returns it.
func (c *cluster) await(resource schema.GroupVersionResource, name, what string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	c.t.Helper()
	var last *unstructured.Unstructured
	if !testcluster.WaitUntil(func() bool {
		object, err := c.get(resource, name)
		last = object
		return err == nil && is(object)
	}) {
		require.FailNow(c.t, "not "+what, "%s %s: %v", resource.Resource, name, last)
	}
	return last
}

func (c *cluster) awaitPhase(name, phase string) *unstructured.Unstructured {
	c.t.Helper()
	return c.await(ats, name, "in phase "+phase, func(o *unstructured.Unstructured) bool { return phaseOf(o) == phase })
}

// awaitReady waits until an object is ready in its present generation.
func (c *cluster) awaitReady(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	c.t.Helper()
	return c.await(resource, name, "ready", func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Ready")
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return status == "True" && observed == o.GetGeneration()
	})
}

func (c *cluster) patch(resource schema.GroupVersionResource, name, patch string) {
	c.t.Helper()
	_, err := c.client.Resource(resource).Namespace(c.namespace).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) deletePod(name string) {
	c.t.Helper()
	require.NoError(c.t, c.client.Resource(pods).Namespace(c.namespace).Delete(c.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

func phaseOf(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

// condition returns the status, reason and message of a condition of an object, all
// empty if it is not there.
func condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

func isRunning(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == "Running"
}

func statusCount(o *unstructured.Unstructured) int64 {
	count, _, _ := unstructured.NestedInt64(o.Object, "status", "count")
	return count
}

// eventReasons lists the reasons of the Events of an At that came to DONE.
func (c *cluster) eventReasons(name string) []string {
	c.t.Helper()
	var reasons []string
	require.Eventually(c.t, func() bool {
		reasons = c.eventReasonsOf(name)
		return len(reasons) > 0 && reasons[len(reasons)-1] == "DONE"
	}, testcluster.Timeout, testcluster.Poll)
	return reasons
}

// eventReasonsOf lists the reasons of the Events of an object by now, in the order of their
// times.
func (c *cluster) eventReasonsOf(name string) []string {
	resource := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	list, err := c.client.Resource(resource).Namespace(c.namespace).List(context.Background(), metav1.ListOptions{FieldSelector: "regarding.name=" + name})
	if err != nil {
		return nil
	}
	time := func(event unstructured.Unstructured) string {
		text, _, _ := unstructured.NestedString(event.Object, "eventTime")
		return text
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return strings.Compare(time(a), time(b)) })
	var reasons []string
	for _, event := range list.Items {
		reason, _, _ := unstructured.NestedString(event.Object, "reason")
		reasons = append(reasons, reason)
	}
	return reasons
}

func podWith(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "busybox:1.37"}}},
	}
}

// sleeping is the spec of a Pod that does not end.
func sleeping(container string) map[string]any {
	return map[string]any{"containers": []any{map[string]any{"name": container, "image": "busybox", "command": []any{"sleep", "3600"}}}}
}

var watching = map[string]any{"name": "watch", "image": "busybox"}
