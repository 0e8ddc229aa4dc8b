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

const (
	longAgo = "2020-11-16T10:12:00Z"
	// forLong is a command that the test node runs until it is told otherwise.
	forLong = "sleep 3600"
)

// It is not parallel: nothing else runs beside it that could delay the timer. How exactly one
// fires is measured by BenchmarkTimers.
func TestScheduleFiresOnTime(t *testing.T) {
	c := newCluster(t)
	c.start()
	due := time.Now().Add(3 * time.Second).Truncate(time.Second).Add(time.Second)
	c.createAt("soon", due.UTC().Format(time.RFC3339), forLong)

	object := c.awaitPhase("soon", "PENDING")
	_, _, message := condition(object, "Succeeded")
	if message == "" { // the first status says only the phase
		c.await(ats, "soon", "waiting", func(o *unstructured.Unstructured) bool {
			_, _, message = condition(o, "Succeeded")
			return message != ""
		})
	}
	require.Equal(t, "waiting until "+due.UTC().Format(time.RFC3339), message)

	object = c.awaitPhase("soon", "RUNNING")
	text, _, err := unstructured.NestedString(object.Object, "status", "lastPhaseTransitionTime")
	require.NoError(t, err)
	fired, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	require.GreaterOrEqual(t, fired.Sub(due), time.Duration(0), "fired before its time")
	require.Less(t, fired.Sub(due), time.Second)
	t.Logf("fired %s after its time", fired.Sub(due))
}

func TestPastScheduleRunsToDone(t *testing.T) {
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
	require.Equal(t, []string{"PENDING", "RUNNING", "DONE"}, c.eventReasons("past"))

	require.Zero(t, o.stop(), "stops cleanly")
}

func TestFailedPodIsDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("fails", longAgo, forLong)
	c.await(pods, "fails-pod", "running", isRunning)
	c.patch(pods, "fails-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
	c.awaitPhase("fails", "DONE")
	pod, err := c.get(pods, "fails-pod")
	require.NoError(t, err)
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	require.Equal(t, "Failed", phase)
}

func TestPodOfDeletedAtIsCollected(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("gone", longAgo, forLong)
	c.await(pods, "gone-pod", "running", isRunning)
	c.awaitPhase("gone", "RUNNING")
	require.NoError(t, c.client.Resource(ats).Namespace(c.namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := c.get(pods, "gone-pod")
		return apierrors.IsNotFound(err)
	}, testcluster.Timeout, testcluster.Poll)
}

func TestDeletedPodIsMadeAgainUntilDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("drifts", longAgo, forLong)
	first := c.await(pods, "drifts-pod", "running", isRunning)
	c.deletePod("drifts-pod")
	second := c.await(pods, "drifts-pod", "made again", func(o *unstructured.Unstructured) bool {
		return o.GetUID() != first.GetUID() && isRunning(o)
	})

	c.patch(pods, "drifts-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
	done := c.awaitPhase("drifts", "DONE")
	c.proxy.requests.reset()
	c.deletePod("drifts-pod")
	require.Eventually(t, func() bool {
		_, err := c.get(pods, "drifts-pod")
		return apierrors.IsNotFound(err)
	}, testcluster.Timeout, testcluster.Poll)

	// What comes after in the same queue shows that the deletion has been looked at.
	c.createAt("later", longAgo, "true")
	c.awaitPhase("later", "DONE")
	_, err := c.get(pods, "drifts-pod")
	require.True(t, apierrors.IsNotFound(err), "DONE stays DONE: the Pod %s is not made a third time", second.GetUID())
	after, err := c.get(ats, "drifts")
	require.NoError(t, err)
	require.Equal(t, done.GetResourceVersion(), after.GetResourceVersion())
}

// Every write of an At's life is followed by a crash once: the operator is killed when
// the API server has carried the write out and the operator does not know it.
func TestKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for n := int64(1); ; n++ {
		name := fmt.Sprintf("killed-%d", n)
		o := c.launch()
		c.proxy.writes.Store(0)
		hook := func(written int64) {
			if written == n {
				_ = o.cmd.Process.Kill()
			}
		}
		c.proxy.afterWrite.Store(&hook)
		c.createAtWhenServed(name, longAgo, "echo hello world!")
		wasKilled := waitForKillOrPhase(c, o, name)
		c.proxy.afterWrite.Store(nil)
		o.kill()

		o = c.start()
		c.awaitPhase(name, "DONE")
		list, err := c.client.Resource(pods).Namespace(c.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + name})
		require.NoError(t, err)
		require.Len(t, list.Items, 1, "killed after write %d", n)
		require.Equal(t, name+"-pod", list.Items[0].GetName())
		o.kill()
		if !wasKilled {
			require.Greater(t, n, int64(4), "a life has a Pod and three phases to write")
			return
		}
	}
}

// createAtWhenServed creates an At as soon as its CRD is there.
func (c *cluster) createAtWhenServed(name, schedule, command string) {
	require.Eventually(c.t, func() bool {
		_, err := c.client.Resource(ats).Namespace(c.namespace).List(c.t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	}, testcluster.Timeout, testcluster.Poll)
	c.createAt(name, schedule, command)
}

// waitForKillOrPhase waits until the operator is killed, or has brought the At to DONE
// and recorded the last Event.
func waitForKillOrPhase(c *cluster, o *process, name string) (killed bool) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		select {
		case <-o.done:
			killed = true
			return true
		default:
		}
		object, err := c.get(ats, name)
		return err == nil && phaseOf(object) == "DONE" && c.proxy.writes.Load() >= 7
	}), "neither killed nor DONE")
	return killed
}

func TestAPIServerGoesAwayAndComesBack(t *testing.T) {
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

// At rest an operator follows and does nothing else.
func TestAtRestSendsNoRequests(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	for i := range 100 {
		c.createAt(fmt.Sprintf("done-%d", i), longAgo, "true")
		c.createAt(fmt.Sprintf("pending-%d", i), "2999-01-01T00:00:00Z", "true")
	}
	for i := range 100 {
		c.awaitPhase(fmt.Sprintf("done-%d", i), "DONE")
		c.awaitPhase(fmt.Sprintf("pending-%d", i), "PENDING")
	}
	// Events are recorded beside the passes; wait until the last of them are.
	quiet := time.Now()
	require.Eventually(t, func() bool {
		if len(c.proxy.requests.all()) > 0 {
			c.proxy.requests.reset()
			quiet = time.Now()
		}
		return time.Since(quiet) > 2*time.Second
	}, testcluster.Timeout, testcluster.Poll)
	require.Never(t, func() bool { return len(c.proxy.requests.all()) > 0 }, 30*time.Second, 100*time.Millisecond,
		"requests at rest")
	require.Empty(t, c.proxy.requests.all())
}

// Prints what one At costs, so that a change shows in the log of a test run.
func TestRequestsOfOneLife(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.proxy.requests.reset()
	c.createAt("costs", longAgo, "true")
	c.awaitPhase("costs", "DONE")
	c.eventReasons("costs")
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
	require.JSONEq(t, `{"status writes":3,"child writes":1,"events":3}`, string(text))
}

// A stop lets the running pass finish: the operator is told to stop when the API server
// has made the Pod and the operator does not know it, and still writes the phase.
func TestStopFinishesTheRunningPass(t *testing.T) {
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

// An object of the child's name that someone else has made is not taken over.
func TestForeignPodIsNotTakenOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	foreign, err := c.client.Resource(pods).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "taken-pod"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "command", "image": "nginx", "command": []any{"sleep", "1"}}}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.start()
	c.createAt("taken", longAgo, "echo hello")
	object := c.await(ats, "taken", "stalled", func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Stalled")
		return status == "True"
	})
	_, reason, message := condition(object, "Stalled")
	require.Equal(t, "ChildRefused", reason)
	require.Equal(t, `child "pod": pods "taken-pod" exists and was not made for this object; rename or delete it`, message)
	pod, err := c.get(pods, "taken-pod")
	require.NoError(t, err)
	require.Empty(t, pod.GetOwnerReferences())
	require.Equal(t, foreign.GetLabels(), pod.GetLabels())

	c.deletePod("taken-pod")
	object = c.awaitPhase("taken", "DONE")
	status, _, _ := condition(object, "Stalled")
	require.Empty(t, status)
}

// An At that is deleted and made again at once runs its command again, in a Pod of its own.
func TestAtMadeAgainHasItsOwnPod(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createAt("again", longAgo, "echo hello")
	first := c.awaitPhase("again", "DONE")
	before, err := c.get(pods, "again-pod")
	require.NoError(t, err)
	require.NoError(t, c.client.Resource(ats).Namespace(c.namespace).Delete(t.Context(), "again", metav1.DeleteOptions{}))
	second := c.createAt("again", longAgo, "echo hello")
	require.NotEqual(t, first.GetUID(), second.GetUID())

	c.awaitPhase("again", "DONE")
	after, err := c.get(pods, "again-pod")
	require.NoError(t, err)
	require.NotEqual(t, before.GetUID(), after.GetUID())
	require.True(t, metav1.IsControlledBy(after, second))
}
