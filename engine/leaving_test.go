package engine

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

const keptKind = `
package kept

import "fescue.dev/cue/contract"

#Kept: {apiVersion!: "kept.example.com/v1", kind!: "Kept", metadata!: {name!: string, ...}, spec?: {...}, status?: contract.#Status}
#KeptController: contract.#Controller & {
	object!: #Kept
	names: plural: "kepts"
	children: pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "c"}]}
	onDelete: "LEAVING"
	phases: {
		LEAVING: next: [{to: "GONE", after: "1h"}]
		GONE: terminal: true
	}
}
`

// keeping returns a controller with one object in its queue, and the verbs of its writes. patch answers
// those of the object.
func keeping(t *testing.T, object *unstructured.Unstructured, patch func(body map[string]any) error) (c *controller, written *[]string) {
	t.Helper()
	return keepingBy(t, enginetest.Kind(t, keptKind), object, patch)
}

// keepingBy is keeping for a kind, which is a Kept, and for other objects that exist.
func keepingBy(t *testing.T, k *kind.Kind, object *unstructured.Unstructured, patch func(body map[string]any) error, others ...runtime.Object) (c *controller, written *[]string) {
	t.Helper()
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", {Group: "kept.example.com", Version: "v1", Resource: "kepts"}: "KeptList"}, append(others, object)...)
	written = new([]string)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "patch":
			*written = append(*written, "patch "+action.GetResource().Resource)
			var body map[string]any
			require.NoError(t, json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &body))
			if err := patch(body); err != nil {
				return true, nil, err
			}
			stored := object.DeepCopy()
			finalizers, _, _ := unstructured.NestedStringSlice(body, "metadata", "finalizers")
			stored.SetFinalizers(finalizers)
			stored.SetResourceVersion("6")
			return true, stored, nil
		case "update":
			*written = append(*written, "update status")
			stored := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
			stored.SetResourceVersion(strconv.Itoa(6 + len(*written)))
			return true, stored, nil
		case "create":
			*written = append(*written, "create "+action.GetResource().Resource)
			stored := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
			stored.SetUID("pod")
			stored.SetResourceVersion("9")
			return true, stored, nil
		}
		return false, nil, nil
	})
	e, err := New(Config{Kinds: []*kind.Kind{k}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet(), Events: events.NewFakeRecorder(10)})
	require.NoError(t, err)
	if k.Target != nil { // the kind watches its objects as well
		_, err := e.config.Informers.Watch(informers.Selection{Resource: schema.GroupVersionResource{Group: "kept.example.com", Version: "v1", Resource: "kepts"}})
		require.NoError(t, err)
	}
	c = newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	require.NoError(t, c.watch(t.Context()))
	require.Equal(t, 1, c.queue.Len())
	return c, written
}

func keptObject(finalizers ...string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kept.example.com/v1", "kind": "Kept",
		"metadata": map[string]any{"name": "a", "namespace": "default", "uid": "1", "generation": int64(1), "resourceVersion": "5"},
	}}
	object.SetFinalizers(finalizers)
	return object
}

// onDelete is the finalizer of kinds.
const onDelete = "fescue.dev/on-delete"

// The finalizer is written before anything else, beside those of others.
func TestFinalizerIsFirst(t *testing.T) {
	t.Parallel()
	c, written := keeping(t, keptObject("others"), func(body map[string]any) error {
		require.Equal(t, map[string]any{"metadata": map[string]any{
			"uid": "1", "resourceVersion": "5", "finalizers": []any{"others", onDelete},
		}}, body)
		return nil
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, []string{"patch kepts", "create pods", "update status"}, *written)
}

// A cache that is behind gets nothing done: the object was deleted meanwhile.
func TestStaleCacheDoesNotSkipTheFinalizer(t *testing.T) {
	t.Parallel()
	c, written := keeping(t, keptObject(), func(map[string]any) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "kepts"}, "a", nil)
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, []string{"patch kepts"}, *written)
	require.Equal(t, 1, reconciles(c, labelRequeue))
}

// An object that is being deleted is not touched without the finalizer, nor while the garbage collector
// takes the children off it.
func TestNothingIsDoneForObjectsThatAreNotKept(t *testing.T) {
	t.Parallel()
	for _, finalizers := range [][]string{{"others"}, {onDelete, metav1.FinalizerOrphanDependents}} {
		object := keptObject(finalizers...)
		object.SetDeletionTimestamp(new(metav1.Now()))
		c, written := keeping(t, object, func(map[string]any) error { return nil })
		require.True(t, c.work(t.Context()))
		require.Empty(t, *written)
	}
}

// An object enters the phase for its deletion also if its children may not be read any more: the caches show them.
func TestWithdrawnRightDoesNotKeepTheObject(t *testing.T) {
	t.Parallel()
	object := keptObject(onDelete)
	object.SetDeletionTimestamp(new(metav1.Now()))
	c, written := keeping(t, object, func(map[string]any) error { return nil })
	lists := 0
	c.config.Client.(*fake.FakeDynamicClient).PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		return true, nil, apierrors.NewForbidden(pods.GroupResource(), "", nil)
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, []string{"update status", "create pods"}, *written)
	require.Equal(t, 1, lists)
}

// A kind that has no onDelete any more lets its objects go.
func TestUnusedFinalizerIsRemoved(t *testing.T) {
	t.Parallel()
	object := keptObject(onDelete)
	object.SetDeletionTimestamp(new(metav1.Now()))
	c, written := keeping(t, object, func(body map[string]any) error {
		require.Equal(t, []any{}, body["metadata"].(map[string]any)["finalizers"])
		return nil
	})
	changed := *c.kind
	changed.OnDelete = ""
	c.kind = &changed
	require.True(t, c.work(t.Context()))
	require.Equal(t, []string{"patch kepts"}, *written)
}

// leftObject is a Kept that has entered the phase for its deletion, as a version shows it.
func leftObject(version string, finalizers ...string) *unstructured.Unstructured {
	object := keptObject(finalizers...)
	object.SetResourceVersion(version)
	object.SetDeletionTimestamp(new(metav1.Now()))
	object.Object["status"] = map[string]any{"phase": "LEAVING", "lastPhaseTransitionTime": time.Now().UTC().Format(time.RFC3339), "conditions": []any{
		map[string]any{"type": "Deleting", "status": "True", "reason": "LEAVING", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"},
	}}
	return object
}

// keptPod is the Pod of a Kept, which the Kept controls or has controlled.
func keptPod(isControlled bool) *unstructured.Unstructured {
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "a-pod", "namespace": "default", "uid": "pod", "resourceVersion": "3",
		"labels":      map[string]any{"app.kubernetes.io/managed-by": "fescue", children.LabelOwnerUID: "1", "fescue.dev/child": "pod"},
		"annotations": map[string]any{children.AnnotationOwner: "kepts.kept.example.com/a", "fescue.dev/created-as": "Pod/a-pod/pod"},
	}}}
	if isControlled {
		pod.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(keptObject(), keptObject().GroupVersionKind())})
	}
	return pod
}

// The events of an object and of its children come in any order. Whatever a reconcile sees of them, children that a second
// deletion orphaned stay as they are.
func TestEventsAboutOrphansComeInAnyOrder(t *testing.T) {
	t.Parallel()
	before, during, after := leftObject("2", onDelete), leftObject("3", onDelete, metav1.FinalizerOrphanDependents), leftObject("4", onDelete)
	for name, tc := range map[string]struct {
		shown      []*unstructured.Unstructured // by events
		cached     *unstructured.Unstructured
		controlled bool // as the cache shows the child
		recorded   bool
	}{
		"none is late":                   {[]*unstructured.Unstructured{before, during, after}, after, false, true},
		"the child's is late":            {[]*unstructured.Unstructured{before, during, after}, after, true, true},
		"the object's are late":          {[]*unstructured.Unstructured{before}, before, false, false},
		"the object's are not handled":   {[]*unstructured.Unstructured{before}, after, false, false},
		"the object's last is late":      {[]*unstructured.Unstructured{before, during}, during, false, false},
		"the object's last is unhandled": {[]*unstructured.Unstructured{before, during}, after, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, written := keepingBy(t, enginetest.Kind(t, keptKind), after, func(map[string]any) error { return nil }, keptPod(tc.controlled))
			clear(c.records.leaving)
			for _, version := range tc.shown {
				c.intake.ofObjects().OnAdd(version, false)
			}
			r := c.reconciliation(cache.MetaObjectToName(after), quiet())
			require.NoError(t, r.reconcile(t.Context(), tc.cached).Err)
			require.NotContains(t, *written, "patch pods")
			_, err := c.config.Client.Resource(pods).Namespace("default").Get(t.Context(), "a-pod", metav1.GetOptions{})
			require.NoError(t, err)
			orphaned, _, err := unstructured.NestedBool(c.records.newest(r.name, func() *unstructured.Unstructured { return after }).Object, "status", "childInventory", "orphaned")
			require.NoError(t, err)
			require.Equal(t, tc.recorded, orphaned)
		})
	}
}

// A child without a reference is deleted only for an object that still exists: --cascade=orphan may have left it, and the cache may not
// have heard that yet.
func TestOrphanOfAnObjectThatIsGoneStays(t *testing.T) {
	t.Parallel()
	for uid, stays := range map[types.UID]bool{"1": false, "2": true} {
		t.Run(string(uid), func(t *testing.T) {
			t.Parallel()
			live := keptObject()
			live.SetUID(uid)
			c, _ := keepingBy(t, enginetest.Kind(t, keptKind), live, func(map[string]any) error { return nil }, keptPod(false))
			r := c.reconciliation(cache.MetaObjectToName(live), quiet())
			done := r.CarryOut(t.Context(), keptObject(), &plan.Comparison{Steps: []plan.Step{
				{Verb: plan.Delete, Child: "pod", Resource: pods, Name: "a-pod", Live: keptPod(false)},
			}})
			require.NoError(t, done.Failed)
			require.Equal(t, stays, done.Waiting)
			_, err := c.config.Client.Resource(pods).Namespace("default").Get(t.Context(), "a-pod", metav1.GetOptions{})
			require.Equal(t, stays, err == nil, "%v", err)
		})
	}
}
