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

	"github.com/fescue-dev/fescue/internal/testcluster"
)

// BenchmarkTimers measures how late timers fire.
func TestScheduleDoesNotFireEarly(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	due := time.Now().Add(3 * time.Second).Truncate(time.Second).Add(time.Second)
	c.createAt("soon", due.UTC().Format(time.RFC3339), forLong)

	object := c.awaitPhase("soon", "PENDING")
	_, _, message := condition(object, "Succeeded")
	require.Equal(t, "waiting until "+due.UTC().Format(time.RFC3339), message)

	object = c.awaitPhase("soon", "RUNNING")
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
	require.Equal(t, []string{"RUNNING", "DONE"}, c.eventReasonsUntilDone("past"))
	c.await(pods, "past-pod", "released", isReleased)

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
		held := c.await(pods, "gone-pod", "running", isRunning)
		require.Equal(t, []string{"fescue.dev/recorded"}, held.GetFinalizers())
		c.awaitPhase("gone", "RUNNING")
		require.NoError(t, c.objects(ats).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: &policy}))
		c.awaitGone(pods, "gone-pod")
		c.awaitGone(ats, "gone")
	}

	// An orphan keeps running, and nothing keeps it from being deleted.
	c.createAt("gone", longAgo, forLong)
	c.await(pods, "gone-pod", "running", isRunning)
	require.NoError(t, c.objects(ats).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	c.awaitGone(ats, "gone")
	require.True(t, isRunning(c.await(pods, "gone-pod", "released", isReleased)))
}

// A command runs once: a Pod that is deleted while its At is RUNNING is not created again.
func TestDeletedPodStallsItsAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.createAt("drifts", longAgo, forLong)
	pod := c.await(pods, "drifts-pod", "running", isRunning)
	c.delete(pods, "drifts-pod")
	at := c.await(ats, "drifts", "recorded", func(o *unstructured.Unstructured) bool { return createdPod(o) != "" })
	require.Equal(t, string(pod.GetUID()), createdPod(at))
	object, reason, message := c.awaitStalled(ats, "drifts")
	require.Equal(t, "ChildGone", reason)
	require.Equal(t, `child "pod": pods "drifts-pod" was created in phase RUNNING and is gone; it is created only once: to start over, recreate the object`, message)
	require.Equal(t, "RUNNING", phaseOf(object))

	// Neither a new process nor a change of the At creates it.
	o.kill()
	c.start()
	c.patch(ats, "drifts", `{"metadata":{"annotations":{"touched":"yes"}}}`)
	c.createAt("later", longAgo, "true")
	c.awaitPhase("later", "DONE")
	_, err := c.get(pods, "drifts-pod")
	require.True(t, apierrors.IsNotFound(err))
}

func isReleased(o *unstructured.Unstructured) bool { return len(o.GetFinalizers()) == 0 }

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

// The operator is killed between the writes of an At's Pod, and things happen to the Pod before the
// next one starts: the command runs exactly once, and nothing hangs.
func TestCommandRunsOnce(t *testing.T) {
	t.Parallel()
	podCreated := func(c *cluster) bool { _, err := c.get(pods, "a-pod"); return err == nil }
	for name, tc := range map[string]struct {
		command string
		killAt  func(c *cluster) bool
		// down happens while no operator runs.
		down  func(c *cluster)
		check func(c *cluster)
		// pods is how many Pods existed in all.
		pods int
	}{
		"the Pod ends and is deleted": {command: "true", killAt: podCreated,
			down: func(c *cluster) {
				c.await(pods, "a-pod", "ended", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "Succeeded" })
				c.deletePod("a-pod")
			},
			check: func(c *cluster) {
				c.awaitPhase("a", "DONE")
				c.awaitGone(pods, "a-pod")
			}, pods: 1},
		"the Pod is deleted while it runs": {command: forLong, killAt: podCreated,
			down: func(c *cluster) {
				c.await(pods, "a-pod", "running", isRunning)
				c.delete(pods, "a-pod")
			},
			check: func(c *cluster) {
				c.awaitGone(pods, "a-pod")
				require.True(c.t, testcluster.WaitUntil(func() bool {
					object, err := c.get(ats, "a")
					_, reason, _ := condition(object, "Stalled")
					return err == nil && (phaseOf(object) == "DONE" || reason == "ChildGone")
				}))
			}, pods: 1},
		"the phase is stored and the Pod is not created": {command: "true",
			killAt: func(c *cluster) bool {
				at, err := c.get(ats, "a")
				return err == nil && phaseOf(at) == "RUNNING"
			},
			down: func(c *cluster) {
				_, err := c.get(pods, "a-pod")
				require.True(c.t, apierrors.IsNotFound(err))
			},
			check: func(c *cluster) {
				c.awaitPhase("a", "DONE")
			}, pods: 1},
		"the Pod ends": {command: "true", killAt: podCreated,
			down: func(c *cluster) {
				c.await(pods, "a-pod", "ended", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "Succeeded" })
			},
			check: func(c *cluster) {
				c.awaitPhase("a", "DONE")
				c.await(pods, "a-pod", "released", isReleased)
			}, pods: 1},
		"the Pod is not released": {command: "true",
			killAt: func(c *cluster) bool {
				at, err := c.get(ats, "a")
				return err == nil && phaseOf(at) == "DONE"
			},
			down: func(c *cluster) {
				c.delete(pods, "a-pod")
				c.await(pods, "a-pod", "kept", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
			},
			check: func(c *cluster) {
				c.awaitGone(pods, "a-pod")
				c.awaitPhase("a", "DONE")
			}, pods: 1},
		"the At is deleted": {command: forLong, killAt: podCreated,
			down: func(c *cluster) {
				c.delete(ats, "a")
				c.await(pods, "a-pod", "being deleted", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
			},
			check: func(c *cluster) {
				c.awaitGone(pods, "a-pod")
			}, pods: 1},
		"the At is deleted without its Pod": {command: forLong, killAt: podCreated,
			down: func(c *cluster) {
				// The garbage collector deletes what it hears of only after the owner is gone.
				c.await(pods, "a-pod", "running", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "Running" })
				require.NoError(c.t, c.objects(ats).Delete(c.t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
				c.awaitGone(ats, "a")
			},
			check: func(c *cluster) {
				c.await(pods, "a-pod", "released", isReleased)
			}, pods: 1},
		"the At is recreated": {command: "true", killAt: podCreated,
			down: func(c *cluster) {
				c.delete(ats, "a")
				c.await(pods, "a-pod", "being deleted", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
				c.createAt("a", longAgo, "true")
			},
			check: func(c *cluster) {
				c.awaitPhase("a", "DONE")
			}, pods: 2},
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
			c.createAt("a", longAgo, tc.command)
			<-o.done
			c.proxy.afterWrite.Store(nil)
			tc.down(c)
			c.start()
			tc.check(c)
			require.Equal(t, tc.pods, census.created())
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
		c.await(pods, name+"-pod", "released", isReleased)
		o.kill()
		if !wasKilled {
			require.Greater(t, n, int64(4), "a life takes two writes of the Pod and two of the status")
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
		return err == nil && phaseOf(object) == "DONE" && c.proxy.writes.Load() >= 6
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
	quiet := time.Now()
	require.Eventually(t, func() bool {
		if len(c.proxy.requests.all()) > 0 {
			c.proxy.requests.reset()
			quiet = time.Now()
		}
		return time.Since(quiet) > 2*time.Second
	}, testcluster.Timeout, testcluster.Poll)
	require.Never(t, func() bool { return len(c.proxy.requests.all()) > 0 }, 30*time.Second, 100*time.Millisecond,
		"requests while idle")
	require.Empty(t, c.proxy.requests.all())
}

// The number of requests that one At takes.
func TestRequestsOfOneAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.proxy.requests.reset()
	c.createAt("costs", longAgo, "true")
	c.awaitPhase("costs", "DONE")
	c.await(pods, "costs-pod", "released", isReleased)
	c.eventReasonsUntilDone("costs")
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
	text, err := json.Marshal(counts)
	require.NoError(t, err)
	require.JSONEq(t, `{"status writes":2,"child writes":2,"events":2}`, string(text))
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
	<-o.done
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

// An At that is deleted and recreated at once runs its command again, in a new Pod.
func TestRecreatedAtGetsANewPod(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("again", longAgo, "echo hello")
	first := c.awaitPhase("again", "DONE")
	before, err := c.get(pods, "again-pod")
	require.NoError(t, err)
	c.delete(ats, "again")
	second := c.createAt("again", longAgo, "echo hello")
	require.NotEqual(t, first.GetUID(), second.GetUID())

	c.awaitPhase("again", "DONE")
	after, err := c.get(pods, "again-pod")
	require.NoError(t, err)
	require.NotEqual(t, before.GetUID(), after.GetUID())
	require.True(t, metav1.IsControlledBy(after, second))
}
