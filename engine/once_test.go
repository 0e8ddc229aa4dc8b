package engine

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// onceCluster is a fake API server with an At that is due, on a clock that jumps.
type onceCluster struct {
	t      *testing.T
	kind   *kind.Kind
	client *fake.FakeDynamicClient
	// created and statuses count the Pods that were created, and the status writes.
	created, statuses atomic.Int64
	engine            *Engine // the last one that was started
	// answer changes the answer to a write that was carried out, or prevents it.
	answer atomic.Pointer[func(action clienttesting.Action) error]
}

func newOnceCluster(t *testing.T) *onceCluster {
	t.Helper()
	k := enginetest.Shipped(t, "At")
	c := &onceCluster{t: t, kind: k, client: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		k.GroupVersionResource(): "AtList", pods: "PodList",
	})}
	version := int64(10)
	store := func(object *unstructured.Unstructured) {
		version++
		object.SetResourceVersion(strconv.FormatInt(version, 10))
	}
	c.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		if _, err := c.client.Tracker().Get(pods, "default", pod.GetName()); err == nil {
			return true, nil, apierrors.NewAlreadyExists(pods.GroupResource(), pod.GetName())
		}
		pod.SetUID(types.UID("pod-" + strconv.FormatInt(c.created.Add(1), 10)))
		pod.SetCreationTimestamp(metav1.Now())
		store(pod)
		require.NoError(t, c.client.Tracker().Create(pods, pod.DeepCopy(), "default"))
		return true, pod, c.answerTo(action)
	})
	c.client.PrependReactor("update", "ats", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if err := c.answerTo(action); err != nil {
			return true, nil, err
		}
		at := action.(clienttesting.UpdateAction).GetObject().(*unstructured.Unstructured)
		stored, err := c.client.Tracker().Get(k.GroupVersionResource(), "default", "a")
		require.NoError(t, err)
		if stored.(*unstructured.Unstructured).GetResourceVersion() != at.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(k.GroupVersionResource().GroupResource(), "a", nil)
		}
		c.statuses.Add(1)
		store(at)
		require.NoError(t, c.client.Tracker().Update(k.GroupVersionResource(), at.DeepCopy(), "default"))
		return true, at, nil
	})
	at := &unstructured.Unstructured{Object: enginetest.At("2000-01-01T00:00:00Z", "")} // before the clock of a bubble
	at.SetResourceVersion("1")
	require.NoError(t, c.client.Tracker().Create(k.GroupVersionResource(), at, "default"))
	return c
}

func (c *onceCluster) answerTo(action clienttesting.Action) error {
	answer := c.answer.Load()
	if answer == nil {
		return nil
	}
	return (*answer)(action)
}

// answerWith changes the answers from now on.
func (c *onceCluster) answerWith(answer func(action clienttesting.Action) error) {
	c.answer.Store(&answer)
}

// run runs an operator, and returns how it ends.
func (c *onceCluster) run() (e *Engine, kill func()) {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	e, err := New(Config{
		Kinds: []*kind.Kind{c.kind}, Client: c.client, Informers: informers.New(ctx, informers.Decoded(c.client), nil),
		Mapper: mapper(), Log: quiet(), Events: events.NewFakeRecorder(100), Shards: 1,
	})
	require.NoError(c.t, err)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() {
		stop()
		require.NoError(c.t, <-ended)
		synctest.Wait()
	}
}

// start runs an operator that acts.
func (c *onceCluster) start() (kill func()) {
	c.t.Helper()
	c.engine, kill = c.run()
	c.engine.Take(0)
	c.pass(time.Second)
	return kill
}

// recordPod runs an operator until the status has the Pod.
func (c *onceCluster) recordPod() {
	c.t.Helper()
	kill := c.start()
	c.pass(10 * time.Second)
	c.expect(1, 2, "RUNNING", "pod-1", "")
	kill()
}

func (c *onceCluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// change changes the Pod.
func (c *onceCluster) change(change func(pod *unstructured.Unstructured)) {
	c.t.Helper()
	live, err := c.client.Tracker().Get(pods, "default", "a-pod")
	require.NoError(c.t, err)
	pod := live.(*unstructured.Unstructured).DeepCopy()
	change(pod)
	pod.SetResourceVersion(pod.GetResourceVersion() + "0")
	require.NoError(c.t, c.client.Tracker().Update(pods, pod, "default"))
}

// forceDelete deletes the Pod without grace.
func (c *onceCluster) forceDelete() {
	c.t.Helper()
	require.NoError(c.t, c.client.Tracker().Delete(pods, "default", "a-pod"))
}

func isEnded(pod *unstructured.Unstructured) {
	pod.Object["status"] = map[string]any{"phase": "Succeeded"}
}

func isLeaving(pod *unstructured.Unstructured) {
	pod.SetDeletionTimestamp(new(metav1.Now()))
}

// expect checks how often a Pod was created and the status written in all, and what the status shows.
func (c *onceCluster) expect(created, statuses int64, phase, record, stalled string) {
	c.t.Helper()
	live, err := c.client.Tracker().Get(c.kind.GroupVersionResource(), "default", "a")
	require.NoError(c.t, err)
	status, _ := live.(*unstructured.Unstructured).Object["status"].(map[string]any)
	uid, _, _ := unstructured.NestedString(status, "childInventory", "created", "pod")
	reason := ""
	if c := condition(status, "Stalled"); c != nil {
		reason, _ = c[1].(string)
	}
	require.Equal(c.t, []any{created, phase, record, stalled}, []any{c.created.Load(), status["phase"], uid, reason})
	require.Equal(c.t, statuses, c.statuses.Load(), "status writes")
}

// bubble runs a test on a clock that jumps.
func bubble(t *testing.T, run func(c *onceCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newOnceCluster(t)) })
}

// A short At takes three requests: its Pod has ended before it is recorded.
func TestShortAtTakesThreeWrites(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *onceCluster) {
		defer c.start()()
		c.expect(1, 1, "RUNNING", "", "")
		c.change(isEnded)
		c.pass(time.Hour)
		c.expect(1, 2, "DONE", "", "")
		require.Empty(c.t, c.engine.running()[0].records.byObject, "it is forgotten")
		for _, action := range c.client.Actions() {
			require.Contains(t, []string{"list", "watch", "create", "update"}, action.GetVerb())
		}
	})
}

// A Pod that runs for longer is recorded when it is ten seconds old, by a status that is written only for that.
func TestPodIsRecordedWhenItIsTenSecondsOld(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *onceCluster) {
		kill := c.start()
		c.pass(8 * time.Second)
		c.expect(1, 1, "RUNNING", "", "")
		c.pass(2 * time.Second)
		c.expect(1, 2, "RUNNING", "pod-1", "")
		c.pass(time.Hour)
		c.expect(1, 2, "RUNNING", "pod-1", "")

		// Whatever happens to it while no operator runs, it is not created again.
		kill()
		c.change(isEnded)
		c.forceDelete()
		kill = c.start()
		c.expect(1, 3, "RUNNING", "pod-1", "ChildGone")
		kill()
		defer c.start()()
		c.pass(time.Hour)
		c.expect(1, 3, "RUNNING", "pod-1", "ChildGone")
	})
}

// A Pod that goes before it is recorded, however it does, is recorded at once and is not created again.
func TestPodThatGoesIsRecorded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		going    []func(c *onceCluster)
		statuses int64
	}{
		"deleted by force": {statuses: 2, going: []func(c *onceCluster){func(c *onceCluster) { c.forceDelete() }}},
		"deleted with grace": {statuses: 3, going: []func(c *onceCluster){
			func(c *onceCluster) {
				c.change(isLeaving)
				c.pass(time.Second)
				c.expect(1, 2, "RUNNING", "pod-1", "")
			},
			func(c *onceCluster) { c.forceDelete() },
		}},
		"the status cannot be written": {statuses: 2, going: []func(c *onceCluster){
			func(c *onceCluster) {
				c.answerWith(func(clienttesting.Action) error { return apierrors.NewInternalError(context.DeadlineExceeded) })
				c.forceDelete()
				c.pass(time.Minute)
				c.expect(1, 1, "RUNNING", "", "")
			},
			func(c *onceCluster) { c.answer.Store(nil); c.pass(time.Hour) },
		}},
		"it conflicts at first": {statuses: 2, going: []func(c *onceCluster){func(c *onceCluster) {
			var asked atomic.Int64
			c.answerWith(func(action clienttesting.Action) error {
				if asked.Add(1) > 3 {
					return nil
				}
				return apierrors.NewConflict(action.GetResource().GroupResource(), "a", nil)
			})
			c.forceDelete()
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(c *onceCluster) {
				kill := c.start()
				for _, step := range tc.going {
					step(c)
				}
				c.pass(time.Second)
				c.expect(1, tc.statuses, "RUNNING", "pod-1", "ChildGone")
				kill()
				defer c.start()()
				c.pass(time.Hour)
				c.expect(1, tc.statuses, "RUNNING", "pod-1", "ChildGone")
			})
		})
	}
}

// An operator that is killed before the Pod is recorded leaves it to the next one.
func TestUnrecordedPodWithoutAnOperator(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		down              func(c *onceCluster)
		created, statuses int64
		phase, record     string
		stalled           string
	}{
		"nothing happens":         {func(*onceCluster) {}, 1, 1, "RUNNING", "", ""},
		"it becomes old":          {func(c *onceCluster) { c.pass(time.Minute) }, 1, 2, "RUNNING", "pod-1", ""},
		"it ends":                 {func(c *onceCluster) { c.change(isEnded) }, 1, 2, "DONE", "", ""},
		"it is being deleted":     {func(c *onceCluster) { c.change(isLeaving) }, 1, 2, "RUNNING", "pod-1", ""},
		"it ends and is deleted":  {func(c *onceCluster) { c.change(isEnded); c.forceDelete() }, 2, 1, "RUNNING", "", ""},
		"it is deleted by force":  {func(c *onceCluster) { c.forceDelete() }, 2, 1, "RUNNING", "", ""},
		"its At is deleted as it": {func(c *onceCluster) { c.forceDelete(); c.deleteAt() }, 1, 1, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(c *onceCluster) {
				c.start()()
				c.expect(1, 1, "RUNNING", "", "")
				tc.down(c)
				defer c.start()()
				if tc.phase == "" {
					require.Equal(t, []int64{tc.created, tc.statuses}, []int64{c.created.Load(), c.statuses.Load()})
					return
				}
				c.expect(tc.created, tc.statuses, tc.phase, tc.record, tc.stalled)
			})
		})
	}
}

// A recorded Pod that lost the label by which it is watched while no operator ran is not gone.
func TestRecordedPodThatLostItsLabel(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *onceCluster) {
		c.recordPod()
		c.change(func(pod *unstructured.Unstructured) {
			unstructured.RemoveNestedField(pod.Object, "metadata", "labels", children.LabelOwnerUID)
		})
		defer c.start()()
		c.expect(1, 2, "RUNNING", "pod-1", "")
		c.change(func(pod *unstructured.Unstructured) {
			require.Equal(c.t, "1", pod.GetLabels()[children.LabelOwnerUID])
			isEnded(pod)
		})
		c.pass(time.Second)
		c.expect(1, 3, "DONE", "", "")
	})
}

// No event shows that a recorded Pod is gone that lost its label while it was being deleted, so it is read again.
func TestRecordedPodThatGoesWithoutItsLabel(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *onceCluster) {
		c.recordPod()
		live, err := c.client.Tracker().Get(pods, "default", "a-pod")
		require.NoError(t, err)
		pod := live.(*unstructured.Unstructured).DeepCopy()
		isLeaving(pod)
		unstructured.RemoveNestedField(pod.Object, "metadata", "labels", children.LabelOwnerUID)
		c.forceDelete() // for watches, which do not select it
		var isGone atomic.Bool
		c.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !isGone.Load(), pod, nil
		})
		defer c.start()()
		c.pass(time.Minute)
		c.expect(1, 2, "RUNNING", "pod-1", "")
		isGone.Store(true)
		c.pass(10 * time.Second)
		c.expect(1, 3, "RUNNING", "pod-1", "ChildGone")
	})
}

func (c *onceCluster) deleteAt() {
	require.NoError(c.t, c.client.Tracker().Delete(c.kind.GroupVersionResource(), "default", "a"))
}

// An answer that is lost creates no second Pod: the next request tells that one exists, also if it is being deleted.
func TestLostAnswerOfACreation(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meanwhile func(pod *unstructured.Unstructured)
		statuses  int64
		record    string
	}{
		"it runs":             {func(*unstructured.Unstructured) {}, 1, ""},
		"it is being deleted": {isLeaving, 2, "pod-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(c *onceCluster) {
				c.answerWith(func(action clienttesting.Action) error {
					if action.GetVerb() != "create" {
						return nil
					}
					c.answer.Store(nil)
					c.change(tc.meanwhile)
					return apierrors.NewTimeoutError("no answer", 0)
				})
				defer c.start()()
				c.expect(1, tc.statuses, "RUNNING", tc.record, "")
			})
		})
	}
}

// Two operators act in turn: what the first one has created is known to the second, and recorded by it.
func TestUnrecordedPodChangesHands(t *testing.T) {
	t.Parallel()
	bubble(t, func(c *onceCluster) {
		first, killFirst := c.run()
		defer killFirst()
		second, killSecond := c.run()
		defer killSecond()
		first.Take(0)
		c.pass(time.Second)
		c.expect(1, 1, "RUNNING", "", "")
		first.GiveUp(0)
		second.Take(0)
		c.pass(time.Second)
		c.expect(1, 1, "RUNNING", "", "")
		c.pass(10 * time.Second)
		c.expect(1, 2, "RUNNING", "pod-1", "")
		c.forceDelete()
		c.pass(time.Second)
		c.expect(1, 3, "RUNNING", "pod-1", "ChildGone")
		second.GiveUp(0)
		first.Take(0)
		c.pass(time.Hour)
		c.expect(1, 3, "RUNNING", "pod-1", "ChildGone")
	})
}
