package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// BenchmarkTimers measures how late timers fire.
func TestScheduleDoesNotFireEarly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("later", farAway, forLong)
	_, _, message := condition(c.awaitPhase("later", "PENDING"), "Succeeded")
	require.Equal(t, "waiting until "+farAway, message)

	due := time.Now().Add(3 * time.Second).Truncate(time.Second).Add(time.Second)
	c.createAt("soon", due.UTC().Format(time.RFC3339), forLong)
	object := c.awaitPhase("soon", "RUNNING")
	text, _, err := unstructured.NestedString(object.Object, "status", "lastPhaseTransitionTime")
	require.NoError(t, err)
	fired, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	require.GreaterOrEqual(t, fired.Sub(due), time.Duration(0), "fired early")
}

func TestPastScheduleReachesDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.createAt("past", longAgo, "echo hello world!")
	object := c.awaitPhase("past", "DONE")

	status, reason, _ := condition(object, "Succeeded")
	require.Equal(t, []string{"True", "DONE"}, []string{status, reason})
	observed, _, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	require.NoError(t, err)
	require.Equal(t, object.GetGeneration(), observed)
	image, _, _ := unstructured.NestedString(object.Object, "spec", "image")
	require.Equal(t, "busybox:1.37", image, "the API server sets the default")

	pod, err := c.get(pods, "past-pod")
	require.NoError(t, err)
	require.True(t, metav1.IsControlledBy(pod, object))
	containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	command, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "command")
	require.Equal(t, []string{"echo", "hello", "world!"}, command)
	c.awaitEvents("past", "RUNNING", "DONE")
	require.Empty(t, pod.GetFinalizers())

	require.Zero(t, o.stop(), "stops cleanly")
}

func TestAtOfFailedPodIsDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("fails", longAgo, forLong)
	c.await(pods, "fails-pod", "running", isRunning)
	c.patch(pods, "fails-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
	c.awaitPhase("fails", "DONE")
	pod, err := c.get(pods, "fails-pod")
	require.NoError(t, err)
	require.Equal(t, "Failed", phaseOf(pod))
}

func TestPodOfDeletedAtIsDeleted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		c.createAt("gone", longAgo, forLong)
		c.await(pods, "gone-pod", "running", isRunning)
		c.awaitPhase("gone", "RUNNING")
		require.NoError(t, c.objects(ats).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: &policy}))
		c.awaitGone(pods, "gone-pod")
		c.awaitGone(ats, "gone")
	}

	// An orphan keeps running.
	c.createAt("gone", longAgo, forLong)
	c.await(pods, "gone-pod", "running", isRunning)
	require.NoError(t, c.objects(ats).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	c.awaitGone(ats, "gone")
	require.True(t, isRunning(c.await(pods, "gone-pod", "an orphan", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 0 })))
}

// A command runs once: a Pod that is deleted while its At is RUNNING is not created again, however it is deleted.
func TestDeletedPodStallsItsAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	deletions := map[string]metav1.DeleteOptions{
		"graceful":   {},
		"forced":     {GracePeriodSeconds: new(int64(0))},
		"foreground": {PropagationPolicy: new(metav1.DeletePropagationForeground)},
	}
	for name, options := range deletions {
		c.createAt(name, longAgo, forLong)
		pod := c.await(pods, name+"-pod", "running", isRunning)
		require.NoError(t, c.objects(pods).Delete(t.Context(), name+"-pod", options))
		object, reason, message := c.awaitStalled(ats, name)
		require.Equal(t, "ChildGone", reason)
		require.Equal(t, `child "pod": pods "`+name+`-pod" was created in phase RUNNING and is gone; it is created only once: to start over, recreate the object`, message)
		require.Equal(t, string(pod.GetUID()), createdPod(object))
		require.Equal(t, "RUNNING", phaseOf(object))
	}

	// Neither a new process nor a change of the At creates it.
	o.kill()
	c.start()
	for name := range deletions {
		c.patch(ats, name, `{"metadata":{"annotations":{"touched":"yes"}}}`)
	}
	c.createAt("later", longAgo, "true")
	c.awaitPhase("later", "DONE")
	for name := range deletions {
		_, err := c.get(pods, name+"-pod")
		require.True(t, apierrors.IsNotFound(err))
	}
}

// A Pod that lost the label by which it is watched while no operator ran is not gone.
func TestPodThatLostItsLabelWhileDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.createAt("a", longAgo, forLong)
	c.await(ats, "a", "recorded", func(o *unstructured.Unstructured) bool { return createdPod(o) != "" })
	o.kill()
	c.patch(pods, "a-pod", `{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`)
	c.start()
	c.await(pods, "a-pod", "labelled", func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/owner-uid"] != "" })
	c.patch(pods, "a-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
	c.awaitPhase("a", "DONE")
}

// createdPod returns the UID of the Pod that an At records.
func createdPod(at *unstructured.Unstructured) string {
	uid, _, _ := unstructured.NestedString(at.Object, "status", "childInventory", "created", "pod")
	return uid
}

func TestDoneStaysDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("ends", longAgo, "true")
	done := c.awaitPhase("ends", "DONE")
	c.deletePod("ends-pod")
	c.awaitGone(pods, "ends-pod")

	// Once a later object in the same queue is done, the deletion has been reconciled.
	c.createAt("later", longAgo, "true")
	c.awaitPhase("later", "DONE")
	_, err := c.get(pods, "ends-pod")
	require.True(t, apierrors.IsNotFound(err), "the Pod is not created again")
	after, err := c.get(ats, "ends")
	require.NoError(t, err)
	require.Equal(t, done.GetResourceVersion(), after.GetResourceVersion())
}

// The operator is killed when the Pod of an At exists, or when it is recorded as well, and things happen to the Pod
// before the next one starts. Only a Pod that is gone before any operator has recorded it is created again.
func TestCommandRunsOnce(t *testing.T) {
	t.Parallel()
	podCreated := func(c *cluster) bool { _, err := c.get(pods, "a-pod"); return err == nil }
	podRecorded := func(c *cluster) bool { at, err := c.get(ats, "a"); return err == nil && createdPod(at) != "" }
	ends := func(c *cluster) {
		c.await(pods, "a-pod", "running", isRunning)
		c.patch(pods, "a-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
		c.await(pods, "a-pod", "ended", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "Failed" })
	}
	isDeleted := func(c *cluster) { c.delete(pods, "a-pod"); c.awaitGone(pods, "a-pod") }
	isForceDeleted := func(c *cluster) { c.deletePod("a-pod"); c.awaitGone(pods, "a-pod") }
	isDone := func(c *cluster) { c.awaitPhase("a", "DONE") }
	isStalled := func(c *cluster) {
		_, reason, _ := c.awaitStalled(ats, "a")
		require.Equal(c.t, "ChildGone", reason)
	}
	for name, tc := range map[string]struct {
		killAt func(c *cluster) bool
		// down happens while no operator runs.
		down  func(c *cluster)
		check func(c *cluster)
		// pods is how many Pods existed in all.
		pods int
	}{
		"the phase is stored and the Pod is not created": {
			killAt: func(c *cluster) bool { at, err := c.get(ats, "a"); return err == nil && phaseOf(at) == "RUNNING" },
			down: func(c *cluster) {
				_, err := c.get(pods, "a-pod")
				require.True(c.t, apierrors.IsNotFound(err))
			},
			check: func(c *cluster) { ends(c); isDone(c) }, pods: 1},
		"the Pod ends": {killAt: podCreated, down: ends, check: isDone, pods: 1},
		"the Pod is being deleted": {killAt: podCreated,
			down: func(c *cluster) {
				c.patch(pods, "a-pod", `{"metadata":{"finalizers":["example.com/kept"]}}`)
				c.delete(pods, "a-pod")
			},
			check: func(c *cluster) {
				c.await(ats, "a", "recorded", func(o *unstructured.Unstructured) bool { return createdPod(o) != "" })
				c.patch(pods, "a-pod", `{"metadata":{"finalizers":null}}`)
				c.awaitGone(pods, "a-pod")
				isStalled(c)
			}, pods: 1},
		"the Pod ends and is deleted":     {killAt: podCreated, down: func(c *cluster) { ends(c); isDeleted(c) }, check: func(c *cluster) { ends(c); isDone(c) }, pods: 2},
		"the Pod is deleted by force":     {killAt: podCreated, down: isForceDeleted, check: func(c *cluster) { ends(c); isDone(c) }, pods: 2},
		"a recorded Pod ends":             {killAt: podRecorded, down: ends, check: isDone, pods: 1},
		"a recorded Pod ends, is deleted": {killAt: podRecorded, down: func(c *cluster) { ends(c); isDeleted(c) }, check: isStalled, pods: 1},
		"a recorded Pod is deleted":       {killAt: podRecorded, down: isDeleted, check: isStalled, pods: 1},
		"a recorded Pod is force-deleted": {killAt: podRecorded, down: isForceDeleted, check: isStalled, pods: 1},
		"the At is deleted":               {killAt: podCreated, down: func(c *cluster) { c.delete(ats, "a"); c.awaitGone(pods, "a-pod") }, check: func(*cluster) {}, pods: 1},
		"the At is deleted without its Pod": {killAt: podCreated,
			down: func(c *cluster) {
				// The garbage collector deletes what it hears of only after the owner is gone.
				c.await(pods, "a-pod", "running", isRunning)
				require.NoError(c.t, c.objects(ats).Delete(c.t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
				c.awaitGone(ats, "a")
				isDeleted(c)
			},
			check: func(*cluster) {}, pods: 1},
		"the At is recreated": {killAt: podCreated,
			down: func(c *cluster) {
				c.delete(ats, "a")
				c.createAt("a", longAgo, "true")
			},
			check: isDone, pods: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			census := c.takeCensus("")
			o := c.start()
			hook := func(int64) {
				if tc.killAt(c) {
					_ = o.cmd.Process.Kill()
				}
			}
			c.proxy.afterWrite.Store(&hook)
			c.createAt("a", longAgo, forLong)
			o.awaitEnd()
			c.proxy.afterWrite.Store(nil)
			tc.down(c)
			c.start()
			tc.check(c)
			census.requireCreated(t, tc.pods)
		})
	}
}

// The operator is killed once after each write of an At's life: when the API server has carried out
// the write and the operator does not know it yet.
func TestKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for n := int64(1); ; n++ {
		name := fmt.Sprintf("killed-%d", n)
		o := c.launchUntilWrite(n)
		c.createAt(name, longAgo, "echo hello world!")
		wasKilled := c.awaitKillOrDone(o, name)
		c.proxy.afterWrite.Store(nil)
		o.kill()

		o = c.start()
		c.awaitPhase(name, "DONE")
		list := c.list(pods, "app="+name)
		require.Len(t, list, 1, "killed after write %d", n)
		o.kill()
		if !wasKilled {
			require.Greater(t, n, int64(3), "a life takes a write of the Pod and two of the status")
			return
		}
	}
}

// awaitKillOrDone waits until the operator is killed, or the At is DONE and its last Event
// recorded.
func (c *cluster) awaitKillOrDone(o *process, name string) (killed bool) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		if killed = o.hasEnded(); killed {
			return true
		}
		object, err := c.get(ats, name)
		return err == nil && phaseOf(object) == "DONE" && c.proxy.writes.Load() >= 5
	}), "neither killed nor DONE")
	return killed
}

func TestAPIServerOutage(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.createAt("before", longAgo, forLong)
	c.await(pods, "before-pod", "running", isRunning)
	c.awaitPhase("before", "RUNNING")

	c.proxy.cut()
	c.createAt("meanwhile", longAgo, "echo hello")
	c.patch(pods, "before-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
	c.await(pods, "before-pod", "failed", func(pod *unstructured.Unstructured) bool { return !isRunning(pod) })
	c.proxy.mend(t)

	c.awaitPhase("before", "DONE")
	c.awaitPhase("meanwhile", "DONE")
	require.Zero(t, o.stop())
}

func TestIdleAtsSendNoRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	for i := range 100 {
		c.createAt(fmt.Sprintf("done-%d", i), longAgo, "true")
		c.createAt(fmt.Sprintf("pending-%d", i), farAway, "true")
	}
	for i := range 100 {
		c.awaitPhase(fmt.Sprintf("done-%d", i), "DONE")
		c.awaitPhase(fmt.Sprintf("pending-%d", i), "PENDING")
	}
	// Events are recorded in the background: wait for the last of them.
	for reason, want := range map[string]int{"PENDING": 100, "RUNNING": 100, "DONE": 100} {
		require.True(t, testcluster.WaitUntil(func() bool { return len(c.selectEventReasons("reason="+reason)) == want }), reason)
	}
	quiet := time.Now()
	require.Eventually(t, func() bool {
		if len(c.proxy.requests.all()) > 0 {
			c.proxy.requests.reset()
			quiet = time.Now()
		}
		return time.Since(quiet) > 2*time.Second
	}, testcluster.Timeout, testcluster.Poll)
	require.True(t, testcluster.HoldsFor(15*time.Second, func() bool { return len(c.proxy.requests.all()) == 0 }),
		"requests while idle: %v", c.proxy.requests.all())
}

// The number of requests that one At takes.
func TestRequestsOfOneAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("first", longAgo, "true") // until the API server knows the kind everywhere, it forbids the Pod
	c.awaitPhase("first", "DONE")
	c.awaitEvents("first", "RUNNING", "DONE")
	c.proxy.requests.reset()
	began := time.Now()
	c.createAt("costs", longAgo, "true")
	c.awaitPhase("costs", "DONE")
	took := time.Since(began)
	c.awaitEvents("costs", "RUNNING", "DONE")
	counts := make(map[string]int)
	for _, request := range c.proxy.requests.all() {
		switch method, path, _ := strings.Cut(request, " "); {
		case method == "GET":
			counts["reads"]++
		case strings.Contains(path, "/events"):
			counts["events"]++
		case strings.Contains(path, "/status"):
			counts["status writes"]++
		default:
			counts["child writes"]++
		}
	}
	if took > 10*time.Second && counts["status writes"] == 3 { // one that records a Pod which takes so long to end
		counts["status writes"] = 2
	}
	text, err := json.Marshal(counts)
	require.NoError(t, err)
	require.JSONEq(t, `{"status writes":2,"child writes":1,"events":2}`, string(text))
}

// A stop lets the running reconcile finish: the operator is stopped when the API server has created
// the Pod and the operator does not know it yet, and still writes the phase.
func TestStopFinishesTheRunningReconcile(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.proxy.writes.Store(0)
	stopped := make(chan struct{})
	hook := func(int64) {
		if _, err := c.get(pods, "stops-pod"); err == nil {
			select {
			case <-stopped:
			default:
				close(stopped)
				_ = o.cmd.Process.Signal(syscall.SIGTERM)
				testcluster.WaitUntil(func() bool { return strings.Contains(o.log.String(), "stopping") })
			}
		}
	}
	c.proxy.afterWrite.Store(&hook)
	c.createAt("stops", longAgo, forLong)
	o.awaitEnd()
	require.Zero(t, o.cmd.ProcessState.ExitCode())
	object, err := c.get(ats, "stops")
	require.NoError(t, err)
	require.Equal(t, "RUNNING", phaseOf(object))
}

// An unrelated object with the name of a child is not adopted.
func TestUnrelatedPodIsNotAdopted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	unrelated := c.create(pods, "Pod", "taken-pod", map[string]any{"spec": sleeping("command")})
	c.start()
	c.createAt("taken", longAgo, "echo hello")
	_, reason, message := c.awaitStalled(ats, "taken")
	require.Equal(t, "ChildRejected", reason)
	require.Equal(t, `child "pod": pods "taken-pod" exists and was not created for this object; rename or delete it`, message)
	pod, err := c.get(pods, "taken-pod")
	require.NoError(t, err)
	require.Empty(t, pod.GetOwnerReferences())
	require.Equal(t, unrelated.GetLabels(), pod.GetLabels())

	c.deletePod("taken-pod")
	status, _, _ := condition(c.awaitPhase("taken", "DONE"), "Stalled")
	require.Empty(t, status)
}
