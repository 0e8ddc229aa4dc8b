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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// The resources of these tests.
var (
	ats            = schema.GroupVersionResource{Group: "cnat.fescue.dev", Version: "v1alpha1", Resource: "ats"}
	customclusters = schema.GroupVersionResource{Group: "samplecontroller.fescue.dev", Version: "v1alpha1", Resource: "customclusters"}
	watchers       = schema.GroupVersionResource{Group: "watch.fescue.dev", Version: "v1alpha1", Resource: "watchers"}
	fences         = schema.GroupVersionResource{Group: "fences.example.com", Version: "v1", Resource: "fences"}

	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	events      = schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	leases      = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	pods        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	quotas      = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	replicaSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
	roles       = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

const (
	longAgo = "2020-11-16T10:12:00Z"
	farAway = "2999-01-01T00:00:00Z"
	// forLong is a command that kwok's node runs until the Pod is changed.
	forLong = "sleep 3600"
)

// watchContainer is the container of a Watcher.
var watchContainer = map[string]any{"name": "watch", "image": "busybox"}

// dryRun is for objects that only admission is to see.
var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// newObject returns an object, with a spec unless it is nil. A name that ends with * is the prefix
// of a generated one.
func newObject(resource schema.GroupVersionResource, kind, name string, spec map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		metadata = map[string]any{"generateName": prefix}
	}
	object := map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": metadata}
	if spec != nil {
		object["spec"] = spec
	}
	return &unstructured.Unstructured{Object: object}
}

// sleeping is the spec of a Pod that does not end.
func sleeping(container string) map[string]any {
	return map[string]any{"containers": []any{map[string]any{"name": container, "image": "busybox", "command": []any{"sleep", "3600"}}}}
}

// podWith returns a Pod with annotations.
func podWith(annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "busybox:1.37"}}},
	}
}

// objects is the API of a resource in the namespace of the test.
func (c *cluster) objects(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.client.Resource(resource).Namespace(c.namespace)
}

// create creates an object as soon as its type is served. Fields may replace the metadata.
func (c *cluster) create(resource schema.GroupVersionResource, kind, name string, fields map[string]any) *unstructured.Unstructured {
	c.t.Helper()
	object := newObject(resource, kind, name, nil)
	maps.Copy(object.Object, fields)
	var created *unstructured.Unstructured
	require.True(c.t, testcluster.WaitUntil(func() bool {
		var err error
		created, err = c.objects(resource).Create(c.t.Context(), object, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) {
			require.NoError(c.t, err)
		}
		return err == nil
	}), "%s are not served", resource)
	return created
}

// createBy creates an object as the user of a client.
func (c *cluster) createBy(client dynamic.Interface, resource schema.GroupVersionResource, kind, name string, spec map[string]any, options metav1.CreateOptions) (*unstructured.Unstructured, error) {
	return client.Resource(resource).Namespace(c.namespace).Create(context.Background(), newObject(resource, kind, name, spec), options)
}

// tryCreate creates an object and reports whether that succeeded.
func (c *cluster) tryCreate(resource schema.GroupVersionResource, kind, name string, spec map[string]any) bool {
	_, err := c.createBy(c.client, resource, kind, name, spec, metav1.CreateOptions{})
	return err == nil
}

func (c *cluster) createAt(name, schedule, command string) *unstructured.Unstructured {
	c.t.Helper()
	return c.create(ats, "At", name, map[string]any{"spec": map[string]any{"schedule": schedule, "command": command}})
}

func (c *cluster) createCustomcluster(name string, count int64, message string) *unstructured.Unstructured {
	c.t.Helper()
	return c.create(customclusters, "Customcluster", name, map[string]any{"spec": map[string]any{"count": count, "message": message}})
}

func (c *cluster) createWatcher(name string, data map[string]any) *unstructured.Unstructured {
	c.t.Helper()
	return c.create(watchers, "Watcher", name, map[string]any{"spec": map[string]any{"container": watchContainer, "configData": data}})
}

// createPod creates a Pod that keeps running, or one that ends if it is never restarted.
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

func (c *cluster) get(resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return c.objects(resource).Get(context.Background(), name, metav1.GetOptions{})
}

func (c *cluster) list(resource schema.GroupVersionResource, selector string) []unstructured.Unstructured {
	c.t.Helper()
	list, err := c.objects(resource).List(c.t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(c.t, err)
	return list.Items
}

// watch returns the objects of a resource that exist, and follows them from then on. The API server ends a watch when it falls
// behind, and when the CRD is written; this one continues where it ended.
func (c *cluster) watch(resource schema.GroupVersionResource, of metav1.ListOptions) (present []unstructured.Unstructured, events <-chan watch.Event) {
	c.t.Helper()
	list, err := c.objects(resource).List(c.t.Context(), of)
	require.NoError(c.t, err)
	w, err := watchtools.NewRetryWatcherWithContext(c.t.Context(), list.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = of.LabelSelector, of.FieldSelector
			return c.objects(resource).Watch(ctx, options)
		},
	})
	require.NoError(c.t, err)
	c.t.Cleanup(w.Stop)
	return list.Items, w.ResultChan()
}

func (c *cluster) patch(resource schema.GroupVersionResource, name, patch string) {
	c.t.Helper()
	_, err := c.objects(resource).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(c.t, err)
}

func (c *cluster) delete(resource schema.GroupVersionResource, name string) {
	c.t.Helper()
	require.NoError(c.t, c.objects(resource).Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

// deletePod deletes a Pod without a grace period.
func (c *cluster) deletePod(name string) {
	c.t.Helper()
	require.NoError(c.t, c.objects(pods).Delete(c.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

// await waits until an object satisfies a condition and returns it.
func (c *cluster) await(resource schema.GroupVersionResource, name, what string, holds func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	c.t.Helper()
	var last *unstructured.Unstructured
	if !testcluster.WaitUntil(func() bool {
		object, err := c.get(resource, name)
		last = object
		return err == nil && holds(object)
	}) {
		require.FailNow(c.t, "not "+what, "%s %s: %v", resource.Resource, name, last)
	}
	return last
}

// exists is the condition that any object satisfies.
func exists(*unstructured.Unstructured) bool { return true }

func (c *cluster) awaitGone(resource schema.GroupVersionResource, name string) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		_, err := c.get(resource, name)
		return apierrors.IsNotFound(err)
	}), "%s %s still exists", resource.Resource, name)
}

func (c *cluster) awaitPhase(name, phase string) *unstructured.Unstructured {
	c.t.Helper()
	return c.await(ats, name, "in phase "+phase, func(o *unstructured.Unstructured) bool { return phaseOf(o) == phase })
}

// awaitReady waits until the current generation of an object is ready.
func (c *cluster) awaitReady(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	c.t.Helper()
	return c.await(resource, name, "ready", func(o *unstructured.Unstructured) bool {
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return isTrue(o, "Ready") && observed == o.GetGeneration()
	})
}

// awaitStalled waits until an object is stalled, and returns it with the reason and the message.
func (c *cluster) awaitStalled(resource schema.GroupVersionResource, name string) (object *unstructured.Unstructured, reason, message string) {
	c.t.Helper()
	object = c.await(resource, name, "stalled", func(o *unstructured.Unstructured) bool { return isTrue(o, "Stalled") })
	_, reason, message = condition(object, "Stalled")
	return object, reason, message
}

// awaitEvent waits until an object of this name has an Event with the reason.
func (c *cluster) awaitEvent(name, reason string) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool { return slices.Contains(c.eventReasons(name), reason) }), "%s has no Event %s", name, reason)
}

// awaitEvents waits until an object of this name has Events with these reasons, in this order, and no others.
func (c *cluster) awaitEvents(name string, reasons ...string) {
	c.t.Helper()
	var present []string
	require.True(c.t, testcluster.WaitUntil(func() bool {
		present = c.eventReasons(name)
		return slices.Equal(present, reasons)
	}), "%s has the Events %v", name, &present)
}

// eventReasons lists the reasons of the present Events of an object, in the order of their times.
func (c *cluster) eventReasons(name string) []string {
	return c.selectEventReasons("regarding.name=" + name)
}

func (c *cluster) selectEventReasons(fields string) []string {
	list, err := c.objects(events).List(context.Background(), metav1.ListOptions{FieldSelector: fields})
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

// phaseOf returns the phase of an object of a kind with phases, or of a Pod.
func phaseOf(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

func isRunning(pod *unstructured.Unstructured) bool { return phaseOf(pod) == "Running" }

// statusCount returns the number of Pods that a Customcluster reports.
func statusCount(o *unstructured.Unstructured) int64 {
	count, _, _ := unstructured.NestedInt64(o.Object, "status", "count")
	return count
}

// condition returns the status, reason and message of a condition of an object, all empty if the
// object does not have it.
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

// isTrue reports whether a condition of an object is True.
func isTrue(object *unstructured.Unstructured, kind string) bool {
	status, _, _ := condition(object, kind)
	return status == string(corev1.ConditionTrue)
}
