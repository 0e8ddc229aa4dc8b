package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
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

func isRunning(pod *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return phase == "Running"
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

// strictKind is a kind of a group of its own whose CRD is installed without its
// schema, so that the API server stores what the kind refuses.
const strictKind = `
package strict

import "fescue.dev/cue:kinds"

#At: {
	apiVersion!: "strict.example.com/v1"
	kind!:       "At"
	metadata!: {...}
	spec!: {schedule!: =~"Z$", command!: string}
	status?: kinds.#AtStatus
}

#AtController: kinds.#AtBehaviour & {
	object!: #At
	phases: RUNNING: children: pod: template: spec: containers: [{image: "busybox"}]
}
`

func TestInvalidStoredObjectIsStalled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "strict.cue"), []byte(strictKind), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	open := *kinds[0]
	open.Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	require.NoError(t, crds.Install(t.Context(), c.client, []*kind.Kind{&open}))
	resource := open.GroupVersionResource()
	_, err = c.client.Resource(resource).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "strict.example.com/v1", "kind": "At", "metadata": map[string]any{"name": "bad"},
		"spec": map[string]any{"schedule": "tomorrow", "command": "echo hello"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)

	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	c.keepCRDs = true
	c.start("--kinds", dir)
	isStalled := func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Stalled")
		return status == "True"
	}
	object := c.await(resource, "bad", "stalled", isStalled)
	_, reason, message := condition(object, "Stalled")
	require.Equal(t, "InvalidObject", reason)
	require.Equal(t, `spec.schedule: Invalid value: "tomorrow": must satisfy =~"Z$"`, message)
	require.Empty(t, phaseOf(object))

	require.Eventually(t, func() bool { return slices.Contains(c.eventReasonsOf("bad"), "InvalidObject") }, testcluster.Timeout, testcluster.Poll)

	// Nothing is tried again until the object changes; then it goes on at once.
	c.proxy.requests.reset()
	require.Never(t, func() bool { return len(c.proxy.requests.all()) > 0 }, 2*time.Second, testcluster.Poll)
	fixed := object.DeepCopy()
	fixed.Object["spec"] = map[string]any{"schedule": longAgo, "command": "echo hello"}
	_, err = c.client.Resource(resource).Namespace(c.namespace).Update(t.Context(), fixed, metav1.UpdateOptions{})
	require.NoError(t, err)
	object = c.await(resource, "bad", "in phase DONE", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "DONE" })
	require.False(t, isStalled(object))
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
	require.Equal(t, `child "pod": pods "taken-pod" exists and was not created for this object; rename or delete it`, message)
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

// Children of a kind without phases: corrected, made anew, and deleted when an if drops
// them.
func TestChildrenFollowTheirTemplates(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	archive, err := txtar.ParseFile("../testdata/kinds/features.txtar")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kind.cue"), archive.Files[0].Data, 0o600))
	c.start("--kinds", dir)
	features := schema.GroupVersionResource{Group: "features.example.com", Version: "v1", Resource: "features"}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	_, err = c.client.Resource(features).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "features.example.com/v1", "kind": "Feature", "metadata": map[string]any{"name": "f"},
		"spec": map[string]any{"required": "x", "optional": true},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	hasName := func(name string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			text, _, _ := unstructured.NestedString(o.Object, "data", "name")
			return text == name
		}
	}
	c.await(configMaps, "f-config", "made", hasName("x"))
	secret := c.await(secrets, "f-extra", "made", func(*unstructured.Unstructured) bool { return true })
	c.await(features, "f", "ready", func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Ready")
		seen, _, _ := unstructured.NestedInt64(o.Object, "status", "seen")
		return status == "True" && seen == 3
	})

	c.patch(configMaps, "f-config", `{"data":{"name":"by hand","other":"stays"}}`)
	corrected := c.await(configMaps, "f-config", "corrected", hasName("x"))
	other, _, _ := unstructured.NestedString(corrected.Object, "data", "other")
	require.Equal(t, "stays", other, "what the template does not say is left alone")

	c.patch(features, "f", `{"spec":{"required":"y"}}`)
	c.await(configMaps, "f-config", "changed", hasName("y"))

	// A child that has lost its owner reference is found by its label.
	c.patch(secrets, "f-extra", `{"metadata":{"ownerReferences":null}}`)
	reclaimed := c.await(secrets, "f-extra", "reclaimed", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 1 })
	require.Equal(t, secret.GetUID(), reclaimed.GetUID())

	// One to recreate is made anew when its template changes, and only then.
	c.patch(features, "f", `{"spec":{"extra":"changed"}}`)
	c.await(secrets, "f-extra", "made anew", func(o *unstructured.Unstructured) bool {
		extra, _, _ := unstructured.NestedString(o.Object, "data", "extra")
		return o.GetUID() != secret.GetUID() && extra == "Y2hhbmdlZA=="
	})

	// A field that the template no longer says goes.
	c.patch(features, "f", `{"spec":{"note":"short-lived"}}`)
	hasNote := func(o *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedString(o.Object, "data", "note")
		return found
	}
	c.await(configMaps, "f-config", "with a note", hasNote)
	c.patch(features, "f", `{"spec":{"note":null}}`)
	c.await(configMaps, "f-config", "without a note", func(o *unstructured.Unstructured) bool { return !hasNote(o) })

	c.patch(features, "f", `{"spec":{"optional":null}}`)
	require.Eventually(t, func() bool {
		_, err := c.get(secrets, "f-extra")
		return apierrors.IsNotFound(err)
	}, testcluster.Timeout, testcluster.Poll)
}

// An installed CRD is upgraded.
func TestInstallUpgradesCRDs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.cue")
	install := func(text string) *unstructured.Unstructured {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		kinds, err := kind.FromDir(dir)
		require.NoError(t, err)
		require.NoError(t, crds.Install(t.Context(), c.client, kinds))
		definition, err := c.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(t.Context(), "as.upgrade.example.com", metav1.GetOptions{})
		require.NoError(t, err)
		return definition
	}
	const before = `
package a

import "fescue.dev/cue/contract"

#A: {apiVersion!: "upgrade.example.com/v1", kind!: "A", metadata!: {...}, spec!: old!: string, status?: contract.#Status}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
`
	first := install(before)
	require.Equal(t, first.GetResourceVersion(), install(before).GetResourceVersion(), "installing twice changes nothing")
	text, err := install(strings.ReplaceAll(before, "old", "new")).MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), `"properties":{"new":{"type":"string"}}`)
	require.NotContains(t, string(text), `"old"`)
}

// What is wrong with a kind, and only shows when it runs, is said where people look.
func TestFaultyKinds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "faulty.cue"), []byte(`
package faulty

import "fescue.dev/cue/contract"

// The status that it projects is not of the type that its schema has.
#Wrong: {apiVersion!: "faulty.example.com/v1", kind!: "Wrong", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, number?: int}}
#WrongController: contract.#Controller & {
	object!: #Wrong
	names: plural: "wrongs"
	status: number: object.spec.text
}

#Old: {apiVersion!: "faulty.example.com/v1", kind!: "Old", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, phase?: "ONLY"}}
#OldController: contract.#Controller & {
	object!: #Old
	names: plural: "olds"
	initial: "ONLY"
	phases: ONLY: next: []
}

// The template has a field that ConfigMaps do not.
#Typo: {apiVersion!: "faulty.example.com/v1", kind!: "Typo", metadata!: {...}, spec!: text!: string, status?: contract.#Status}
#TypoController: contract.#Controller & {
	object!: #Typo
	names: plural: "typos"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", dta: a: "b"}
}
`), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	require.Len(t, kinds, 3)
	wrong, typo := kinds[2], kinds[1]
	// The installed CRD of Old is from before it had phases.
	old := *kinds[0]
	old.Schema = old.Schema.DeepCopy()
	delete(old.Schema.Properties["status"].Properties, "phase")
	require.NoError(t, crds.Install(t.Context(), c.client, []*kind.Kind{&old, wrong, typo}))
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	c.keepCRDs = true
	o := c.start("--kinds", dir)
	for _, k := range kinds {
		_, err := c.client.Resource(k.GroupVersionResource()).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "faulty.example.com/v1", "kind": k.GroupVersionKind.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "x"},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, tc := range []struct {
		kind            *kind.Kind
		reason, message string
	}{
		{wrong, "EvaluationFailed", `status.number: Invalid value: "string"`},
		{typo, "ChildRefused", `.dta: field not declared in schema`},
	} {
		object := c.await(tc.kind.GroupVersionResource(), "a", "stalled", func(o *unstructured.Unstructured) bool {
			status, _, _ := condition(o, "Stalled")
			return status == "True"
		})
		_, reason, message := condition(object, "Stalled")
		require.Equal(t, tc.reason, reason)
		require.Contains(t, message, tc.message)
	}
	o.awaitLog("the installed CRD is older than the kind; upgrade it")
}
