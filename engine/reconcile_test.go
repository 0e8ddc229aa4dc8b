package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
	"github.com/fescue-dev/fescue/engine/reconcile"
	"github.com/fescue-dev/fescue/internal/informers"
	quietlog "github.com/fescue-dev/fescue/internal/quiet"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// answers are those of an API server to the writes of one At that is due: nil is success.
type answers struct {
	create, status error
	panics         bool
	statuses       []map[string]any // that were written
}

// runningAt returns a controller with one At in its queue, whose Pod does not exist, and the
// recorder of its Events.
func runningAt(t *testing.T, api *answers) (*controller, *events.FakeRecorder) {
	return dueAt(t, api, "RUNNING")
}

// dueAt is like runningAt, with an At in any phase whose time has come.
func dueAt(t *testing.T, api *answers, phase string) (*controller, *events.FakeRecorder) {
	t.Helper()
	return queuedObject(t, api, enginetest.Shipped(t, "At"), enginetest.At("2020-01-01T00:00:00Z", phase))
}

// queuedObject is like runningAt, for an object of any kind whose children are Pods.
func queuedObject(t *testing.T, api *answers, k *kind.Kind, content map[string]any) (*controller, *events.FakeRecorder) {
	t.Helper()
	object := &unstructured.Unstructured{Object: content}
	object.SetResourceVersion("5")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", k.GroupVersionResource(): object.GetKind() + "List"}, object)
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if api.panics {
			panic("a bug")
		}
		if api.create != nil {
			return true, nil, api.create
		}
		stored := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		stored.SetUID("pod")
		stored.SetResourceVersion("9")
		return true, stored, nil
	})
	client.PrependReactor("update", k.GroupVersionResource().Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		stored := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured).DeepCopy()
		status, _ := stored.Object["status"].(map[string]any)
		api.statuses = append(api.statuses, status)
		stored.SetResourceVersion("10")
		return true, stored, api.status
	})
	recorder := events.NewFakeRecorder(10)
	e, err := New(Config{Kinds: []*kind.Kind{k}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet(), Events: recorder})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	require.NoError(t, c.watch(t.Context()))
	require.Equal(t, 1, c.queue.Len())
	return c, recorder
}

// work reconciles the next object.
func (c *controller) work(ctx context.Context) bool {
	return c.queue.work(func(name cache.ObjectName) { c.handle(ctx, name) })
}

func reconciles(c *controller, result string) int {
	return int(testutil.ToFloat64(c.metrics.reconciles.WithLabelValues(c.metrics.name, result)))
}

// condition returns the status, reason and message of a condition.
func condition(status map[string]any, name string) []any {
	list, _ := status["conditions"].([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			return []any{c["status"], c["reason"], c["message"]}
		}
	}
	return nil
}

// A child is created and reported. What the cache has not seen yet is not acted on again.
func TestReconcileCreatesAndReports(t *testing.T) {
	t.Parallel()
	api := &answers{}
	c, _ := runningAt(t, api)
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 1)
	require.Equal(t, []any{"Unknown", "RUNNING", ""}, condition(api.statuses[0], "Succeeded"))
	require.Nil(t, condition(api.statuses[0], "Stalled"))
	require.Equal(t, map[string]any{
		"types":   []any{map[string]any{"apiVersion": "v1", "kind": "Pod"}},
		"created": map[string]any{"pod": "pod"},
	}, api.statuses[0]["childInventory"])
	require.Equal(t, 1, reconciles(c, labelSuccess))

	c.queue.Add(cache.MetaObjectToName(c.objects.InNamespace("default")[0]))
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 1)
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.cacheWaits.WithLabelValues(c.metrics.name)), 0)
}

// A write that etcd lost when it was restored from an older copy is not what the next ones are based on.
func TestLostStatusIsForgotten(t *testing.T) {
	t.Parallel()
	api := &answers{status: apierrors.NewConflict(schema.GroupResource{Resource: "ats"}, "a", errors.New("changed"))}
	c, _ := runningAt(t, api)
	name := cache.ObjectName{Namespace: "default", Name: "a"}
	lost := c.objects.Get(name).DeepCopy()
	lost.SetResourceVersion("12")
	c.records.rememberObject(name, lost)
	newest := func() string {
		return c.records.newest(name, func() *unstructured.Unstructured { return c.objects.Get(name) }).GetResourceVersion()
	}
	require.Equal(t, "12", newest())
	require.True(t, c.work(t.Context()))
	require.Equal(t, 1, reconciles(c, labelRequeue))
	require.Equal(t, "5", newest())
}

// A cache that shows no object any more, and has not shown the last write of one, has come to the end of a former object of the name, or the object
// is gone: the API server knows.
func TestWriteThatTheCacheHasNotShown(t *testing.T) {
	t.Parallel()
	for name, exists := range map[string]bool{"of a new object": true, "of one that is gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &answers{}
			c, _ := runningAt(t, api)
			name := cache.ObjectName{Namespace: "default", Name: "a"}
			written := c.objects.Get(name).DeepCopy()
			written.SetResourceVersion("12")
			client := c.config.Client.(*fake.FakeDynamicClient)
			require.NoError(t, client.Resource(c.kind.GroupVersionResource()).Namespace(name.Namespace).Delete(t.Context(), name.Name, metav1.DeleteOptions{}))
			require.Eventually(t, func() bool { return c.objects.Get(name) == nil }, time.Minute, time.Millisecond)
			c.records.rememberObject(name, written)
			client.PrependReactor("list", "ats", func(clienttesting.Action) (bool, runtime.Object, error) {
				found := new(unstructured.UnstructuredList)
				if exists {
					found.Items = append(found.Items, *written.DeepCopy())
				}
				return true, found, nil
			})
			require.True(t, c.work(t.Context()))
			require.Equal(t, exists, c.records.hasObject(name))
			require.Equal(t, exists, len(api.statuses) > 0)
		})
	}
}

// A child of a former object of the same name is about to be collected, also if it was created when the
// kind stored another version: nothing is rejected.
func TestChildOfFormerObjectIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1alpha1", "v1alpha0"} {
		api := &answers{create: apierrors.NewAlreadyExists(pods.GroupResource(), "a-pod")}
		c, _ := runningAt(t, api)
		c.config.Client.(*fake.FakeDynamicClient).PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			pod := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a-pod", "namespace": "default", "uid": "former-pod"}}}
			pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cnat.fescue.dev/" + version, Kind: "At", Name: "a", UID: "former", Controller: new(true)}})
			return true, pod, nil
		})
		require.True(t, c.work(t.Context()))
		require.Zero(t, reconciles(c, labelError), version)
		require.Equal(t, 1, reconciles(c, labelRequeueAfter), version)
	}
}

// A child of the object itself that the cache does not have and that is being deleted was created, if it is created
// once. It is recorded, and nothing waits.
func TestChildThatIsBeingDeletedWasCreated(t *testing.T) {
	t.Parallel()
	for name, controller := range map[string]types.UID{"its own": "1", "another's": "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &answers{create: apierrors.NewAlreadyExists(pods.GroupResource(), "a-pod")}
			c, _ := runningAt(t, api)
			c.config.Client.(*fake.FakeDynamicClient).PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
					"name": "a-pod", "namespace": "default", "uid": "pod", "annotations": map[string]any{"fescue.dev/created-as": "Pod/a-pod/pod/RUNNING"},
				}}}
				pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cnat.fescue.dev/v1alpha1", Kind: "At", Name: "a", UID: controller, Controller: new(true)}})
				pod.SetDeletionTimestamp(new(metav1.Now()))
				return true, pod, nil
			})
			require.True(t, c.work(t.Context()))
			require.Len(t, api.statuses, 1)
			created, _, _ := unstructured.NestedStringMap(api.statuses[0], "childInventory", "created")
			if controller != "1" {
				require.Empty(t, created)
				require.Equal(t, 1, reconciles(c, labelRequeueAfter))
				return
			}
			require.Equal(t, map[string]string{"pod": "pod"}, created)
			require.Equal(t, 1, reconciles(c, labelSuccess))
		})
	}
}

// The events of an object's own writes do not reconcile it again, and neither do those that show
// nothing a decision reads; others do.
func TestOwnWritesQueueNothing(t *testing.T) {
	t.Parallel()
	c, _ := runningAt(t, &answers{})
	require.True(t, c.work(t.Context()))
	pod := func(version, phase string, finalizers ...string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "a-pod", "namespace": "default", "uid": "pod"}, "status": map[string]any{"phase": phase},
		}}
		object.SetResourceVersion(version)
		object.SetFinalizers(finalizers)
		object.SetAnnotations(map[string]string{children.AnnotationOwner: children.OwnerPrefix(c.kind) + "a"})
		return object
	}
	events := c.intake.ofChildren(pods)
	events.OnAdd(pod("9", "", "example.com/one"), false)
	require.Zero(t, c.queue.Len(), "it was created")
	events.OnUpdate(pod("9", "", "example.com/one"), pod("12", "", "example.com/other"))
	require.Equal(t, 1, c.queue.Len(), "someone has changed its metadata")
	require.True(t, c.work(t.Context()))
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.cacheWaits.WithLabelValues(c.metrics.name)), 0)

	events.OnUpdate(pod("12", "Pending"), pod("13", "Pending"))
	require.Equal(t, 1, c.queue.Len(), "a reconcile waits for any event")
	c.records.forget(cache.ObjectName{Namespace: "default", Name: "a"})
	require.True(t, c.work(t.Context()))
	events.OnUpdate(pod("13", "Pending"), pod("14", "Pending"))
	require.Zero(t, c.queue.Len(), "nothing has changed that is read")
	events.OnUpdate(pod("14", "Pending"), pod("15", "Succeeded"))
	require.Equal(t, 1, c.queue.Len())
}

// A rejection stalls the object at once, with an Event, and is retried.
func TestRejectionStalls(t *testing.T) {
	t.Parallel()
	api := &answers{create: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-pod", nil)}
	c, recorder := runningAt(t, api)
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 1)
	require.Equal(t, []any{"True", "ChildRejected", `child "pod": pods "a-pod" is forbidden: <nil>`}, condition(api.statuses[0], "Stalled"))
	require.Contains(t, <-recorder.Events, `Warning ChildRejected child "pod"`)
	require.Equal(t, 1, reconciles(c, labelError))
}

const costly = `
package costly

import "fescue.dev/cue/contract"

#C: {apiVersion!: "costly.example.com/v1", kind!: "C", metadata!: {...}, spec!: items!: [...int], status?: {contract.#Status, phase?: "A" | "B", n?: int}}
#CController: contract.#Controller & {
	object!: #C
	names: plural: "cs"
	initial: "A"
	phases: {
		A: {children: pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "a", image: "a"}]}, next: [{to: "B", when: true}]}
		B: terminal: true
	}
	status: n: len([for a in object.spec.items for b in object.spec.items {1}])
}
`

// So is that of a child of a phase that is over once the child exists, also if another decision would exceed the budget.
func TestRejectionOfACostlyObject(t *testing.T) {
	t.Parallel()
	api := &answers{create: apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "o-pod", nil)}
	k := enginetest.Kind(t, costly)
	object := map[string]any{
		"apiVersion": "costly.example.com/v1", "kind": "C", "spec": map[string]any{"items": []any{}},
		"metadata": map[string]any{"name": "o", "namespace": "default", "uid": "owner", "generation": int64(1)},
		"status":   map[string]any{"phase": "A"},
	}
	for b, n := k.NewBudget(), 100; !b.IsLow(); n += 20 {
		b = k.NewBudget()
		object["spec"] = map[string]any{"items": slices.Repeat([]any{int64(1)}, n)}
		require.Nil(t, plan.Decide(k, &unstructured.Unstructured{Object: object}, &plan.View{Budget: b}, time.Now()).Stalled)
	}
	c, _ := queuedObject(t, api, k, object)
	require.True(t, c.work(t.Context()))
	require.Equal(t, "ChildRejected", condition(api.statuses[0], "Stalled")[1])
	require.Equal(t, 1, reconciles(c, labelError))
}

// A kind that the API server does not know everywhere yet, as after its CRD was installed, is retried without
// stalling its objects, and reported if that lasts.
func TestKindThatTheAPIServerLearnsOf(t *testing.T) {
	t.Parallel()
	const text = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion cnat.fescue.dev/v1alpha1 Kind At: no matches for kind"
	api := &answers{create: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-pod", errors.New(text))}
	c, recorder := runningAt(t, api)
	for range reconcile.Patience + 1 {
		require.True(t, c.work(t.Context()))
	}
	require.Len(t, api.statuses, 1)
	require.Nil(t, condition(api.statuses[0], "Stalled"))
	require.Contains(t, condition(api.statuses[0], "Succeeded")[2], `child "pod": the API server does not know the new kind everywhere yet`)
	require.Empty(t, recorder.Events)
	require.Equal(t, reconcile.Patience+1, reconciles(c, labelError))
}

// Without normal Events, a change of phase is logged only, and a rejection is still an Event.
func TestOnlyWarnings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		onlyWarnings bool
		create       error
		event        string
	}{
		"all":           {event: "Normal RUNNING phase changed from PENDING to RUNNING"},
		"only warnings": {onlyWarnings: true},
		"a rejection":   {onlyWarnings: true, create: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-pod", nil), event: "Warning ChildRejected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, recorder := dueAt(t, &answers{create: tc.create}, "PENDING")
			c.config.OnlyWarnings = tc.onlyWarnings
			require.True(t, c.work(t.Context()))
			close(recorder.Events)
			var recorded []string
			for event := range recorder.Events {
				recorded = append(recorded, event)
			}
			if tc.event == "" {
				require.Empty(t, recorded)
				return
			}
			require.Len(t, recorded, 1)
			require.Contains(t, recorded[0], tc.event)
		})
	}
}

// An object that exceeds its deadline gets one Event.
func TestDeadlineIsRecordedOnce(t *testing.T) {
	t.Parallel()
	c, recorder := runningAt(t, &answers{})
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "c"}}}
	p := &plan.Plan{Kind: enginetest.Shipped(t, "Customcluster"), Object: object, Deadline: 5 * time.Minute, At: time.Now()}
	o := &plan.Outcome{Late: true, Obstacles: plan.Obstacles{Failed: errors.New("no node")}}
	tell := func() {
		r := c.reconciliation(cache.ObjectName{}, quiet())
		var news plan.News
		news.Stored(p, o)
		event, _ := news.Event()
		r.tell(object, reconcile.Result{Event: event})
	}
	tell()
	require.Equal(t, "Warning ProgressDeadlineExceeded no node", <-recorder.Events)
	status, err := plan.Report(p, o)
	require.NoError(t, err)
	object.Object["status"] = status
	o.Failed = errors.New("another reason")
	tell()
	o.Failed, o.Late = nil, false
	tell()
	require.Empty(t, recorder.Events)
}

// A rejection that stays the same is logged once, and a new one at once, by a log like that of the operator.
func TestRepeatedRejectionIsLoggedOnce(t *testing.T) {
	t.Parallel()
	api := &answers{create: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-pod", nil)}
	c, _ := runningAt(t, api)
	var log bytes.Buffer
	c.log = slog.New(quietlog.NewHandler(slog.NewTextHandler(&log, nil)))
	warnings := func() int {
		for range 3 {
			c.queue.Add(cache.MetaObjectToName(c.objects.InNamespace("default")[0]))
			require.True(t, c.work(t.Context()))
		}
		return strings.Count(log.String(), "was rejected; retrying")
	}
	require.Equal(t, 1, warnings())
	api.create = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-pod", errors.New("another reason"))
	require.Equal(t, 2, warnings())
}

// Most failures are over with the next try, so only one that lasts is reported.
func TestFailureIsReportedWhenItLasts(t *testing.T) {
	t.Parallel()
	api := &answers{create: apierrors.NewInternalError(http.ErrServerClosed)}
	c, _ := runningAt(t, api)
	giveUp := time.AfterFunc(time.Minute, c.queue.ShutDown)
	defer giveUp.Stop()
	for range reconcile.Patience {
		require.True(t, c.work(t.Context()))
		require.Empty(t, api.statuses)
	}
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 1)
	require.Equal(t, []any{"Unknown", "RUNNING", `child "pod": Internal error occurred: http: Server closed`}, condition(api.statuses[0], "Succeeded"))
	require.Nil(t, condition(api.statuses[0], "Stalled"))
	require.Equal(t, reconcile.Patience+1, reconciles(c, labelError))
}

// A panic while a child is written ends neither the process nor the worker.
func TestPanicOfAWriteIsContained(t *testing.T) {
	t.Parallel()
	api := &answers{}
	c, _ := runningAt(t, api)
	api.panics = true
	require.True(t, c.work(t.Context()))
	require.Equal(t, 1, reconciles(c, labelError))
	require.InDelta(t, 1, testutil.ToFloat64(c.metrics.panics.WithLabelValues(c.metrics.name)), 0)
	api.panics = false
	c.queue.Add(cache.MetaObjectToName(c.objects.InNamespace("default")[0]))
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 1)
}

// A status that the API server rejects is replaced by one that shows that.
func TestInvalidStatusIsReported(t *testing.T) {
	t.Parallel()
	api := &answers{status: apierrors.NewInvalid(schema.GroupKind{Kind: "At"}, "a", nil)}
	c, _ := runningAt(t, api)
	require.True(t, c.work(t.Context()))
	require.Len(t, api.statuses, 2)
	require.Equal(t, []any{"True", "EvaluationFailed", `status: At "a" is invalid`}, condition(api.statuses[1], "Stalled"))
	require.Equal(t, "RUNNING", api.statuses[1]["phase"])
	require.Equal(t, 1, reconciles(c, labelError))
}

// Someone else's write in between is not a failure.
func TestConflictIsRequeued(t *testing.T) {
	t.Parallel()
	api := &answers{status: apierrors.NewConflict(schema.GroupResource{Resource: "ats"}, "a", nil)}
	c, _ := runningAt(t, api)
	require.True(t, c.work(t.Context()))
	require.Equal(t, 1, reconciles(c, labelRequeue))
	require.Zero(t, reconciles(c, labelError))
}

// For a cache that is behind, the children of one object are read from the API server, and no others: a
// namespace may have many thousands.
func TestStaleCacheIsPassedOver(t *testing.T) {
	t.Parallel()
	c, _ := runningAt(t, &answers{})
	client := c.config.Client.(*fake.FakeDynamicClient)
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	for name, uid := range map[string]string{"own": string(object.GetUID()), "other": "other"} {
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": name, "namespace": object.GetNamespace(), "uid": name, "labels": map[string]any{"fescue.dev/owner-uid": uid},
		}}}
		require.NoError(t, client.Tracker().Add(pod))
	}
	client.ClearActions()
	found := c.childrenOf(t, object, true)
	require.Len(t, found, 1)
	require.Equal(t, "own", found[0].Object.GetName())
	var selectors []string
	for _, action := range client.Actions() {
		if list, ok := action.(clienttesting.ListAction); ok {
			selectors = append(selectors, list.GetListRestrictions().Labels.String())
		}
	}
	require.Equal(t, []string{children.OwnerSelector(object)}, selectors)
}

// childrenOf returns the children of an object that a reconcile observes, in the caches or on the API server.
func (c *controller) childrenOf(t *testing.T, object *unstructured.Unstructured, fromServer bool) []children.Live {
	t.Helper()
	r := c.reconciliation(cache.MetaObjectToName(object), quiet())
	r.memory = plan.NewMemory(object)
	v, err := r.observe(t.Context(), object, fromServer)
	require.NoError(t, err)
	return v.Children
}

// podOf returns a Pod that belongs to an At, with a label that names an owner.
func podOf(at *unstructured.Unstructured, uid types.UID, label string) *unstructured.Unstructured {
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"name": "a-pod", "namespace": at.GetNamespace(), "uid": string(uid), "labels": map[string]any{children.LabelOwnerUID: label},
		"annotations": map[string]any{"fescue.dev/created-as": "Pod/a-pod/pod/RUNNING"},
	}}}
	pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cnat.fescue.dev/v1alpha1", Kind: "At", Name: "a", UID: at.GetUID(), Controller: new(true)}})
	return pod
}

// What a cache that is behind has under the name of a child that was read is a former object.
func TestFormerChildOfANameIsPassedOver(t *testing.T) {
	t.Parallel()
	c, _ := runningAt(t, &answers{})
	client := c.config.Client.(*fake.FakeDynamicClient)
	object := c.objects.InNamespace("default")[0]
	require.NoError(t, client.Tracker().Add(podOf(object, "former", "other")))
	uids := func(fromServer bool) (uids []types.UID) {
		for _, child := range c.childrenOf(t, object, fromServer) {
			uids = append(uids, child.Object.GetUID())
		}
		return uids
	}
	require.Eventually(t, func() bool { return slices.Equal(uids(false), []types.UID{"former"}) }, time.Minute, time.Millisecond)
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*podOf(object, "new", string(object.GetUID()))}}, nil
	})
	require.Equal(t, []types.UID{"new"}, uids(true))
}

// A child that leaves its cache may have lost its label, unless the API server has answered that it is deleted. A request without an answer
// may not have arrived.
func TestDeletionWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer   error
		mayExist bool
	}{
		"deleted":   {nil, false},
		"gone":      {apierrors.NewNotFound(pods.GroupResource(), "a-pod"), false},
		"no answer": {io.ErrUnexpectedEOF, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := runningAt(t, &answers{})
			c.config.Client.(*fake.FakeDynamicClient).PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, tc.answer
			})
			object := c.objects.InNamespace("default")[0]
			owner, pod := cache.MetaObjectToName(object), podOf(object, "pod", string(object.GetUID()))
			c.reconciliation(owner, quiet()).CarryOut(t.Context(), object, &plan.Comparison{Steps: []plan.Step{
				{Verb: plan.Delete, Child: "pod", Resource: pods, Name: "a-pod", Live: pod},
			}})
			require.True(t, c.records.isDeleting(owner, "pod"))
			c.intake.mayBeLost(pods, pod)
			require.Equal(t, tc.mayExist, len(c.records.lostOf(owner, object.GetUID())) > 0)
		})
	}
}

// A status of which the API server stores nothing new is no reason to decide again.
func TestStatusThatIsNotStoredEndsTheReconcile(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package counts

import "fescue.dev/cue/contract"

#Count: {
	apiVersion!: "counts.example.com/v1", kind!: "Count", metadata!: {name!: string, ...}
	status?: {contract.#Status, n?: int}
}
#CountController: contract.#Controller & {
	object!: #Count
	names: plural: "counts"
	children: {}
	_n: *object.status.n | 0
	status: n: _n + 1
}
`)
	object := map[string]any{"apiVersion": "counts.example.com/v1", "kind": "Count", "metadata": map[string]any{"namespace": "default", "name": "a", "uid": "u"}}
	c, _ := queuedObject(t, &answers{}, k, object)
	writes := 0
	c.config.Client.(*fake.FakeDynamicClient).PrependReactor("update", "counts", func(clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		stored := (&unstructured.Unstructured{Object: object}).DeepCopy()
		stored.SetResourceVersion("5")
		return true, stored, nil
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, 1, writes)
}

// A child that was taken over from a former owner is not written again as the cache still shows it.
func TestAdoptedChildIsAsItWasRead(t *testing.T) {
	t.Parallel()
	c, _ := runningAt(t, &answers{})
	object := &unstructured.Unstructured{Object: enginetest.At("2020-01-01T00:00:00Z", "RUNNING")}
	child := func(version, owner string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
			"name": "a-pod", "namespace": object.GetNamespace(), "uid": "adopted", "resourceVersion": version,
			"labels":      map[string]any{"fescue.dev/owner-uid": owner},
			"annotations": map[string]any{"fescue.dev/owner": c.kind.Name() + "/" + object.GetName()},
		}}}
	}
	versions := func(fromServer bool) (versions []string) {
		for _, seen := range c.childrenOf(t, object, fromServer) {
			versions = append(versions, seen.Object.GetResourceVersion())
		}
		return versions
	}
	client, cached := c.config.Client.(*fake.FakeDynamicClient), child("1", "former")
	require.NoError(t, client.Tracker().Add(&cached))
	require.Eventually(t, func() bool { return slices.Equal(versions(false), []string{"1"}) }, 10*time.Second, time.Millisecond)
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{child("2", string(object.GetUID()))}}, nil
	})
	require.Equal(t, []string{"2"}, versions(true))
}

// An object that can leave its phase, but for a child that waits for what nobody sets, waits for an event.
func TestWaitingChildKeepsThePhase(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `
package waits

import "fescue.dev/cue/contract"

#Wait: {
	apiVersion!: "waits.example.com/v1"
	kind!:       "Wait"
	metadata!: {...}
	spec!: later?: string
	status?: {contract.#Status, phase?: "A" | "B"}
}

#WaitController: contract.#Controller & {
	object!: #Wait
	names: plural: "waits"
	owns: [{apiVersion: "v1", kind: "Pod"}]
	initial: "A"
	phases: {
		A: {
			children: pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "a", image: object.spec.later}]}
			next: [{to: "B", when: true}]
		}
		B: next: []
	}
}
`)
	c, _ := queuedObject(t, &answers{}, k, map[string]any{
		"apiVersion": "waits.example.com/v1", "kind": "Wait", "metadata": map[string]any{"namespace": "default", "name": "a", "uid": "u"},
		"spec": map[string]any{}, "status": map[string]any{"phase": "A"},
	})
	require.True(t, c.work(t.Context()))
	require.Equal(t, 0, reconciles(c, labelRequeue))
	require.Equal(t, 1, reconciles(c, labelSuccess))
}
