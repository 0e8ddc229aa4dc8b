package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// Tools that use kstatus, such as Flux and kpt, see the right health in each phase of an At.
func TestKstatusOfAt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.prepare(nil)
	_, events := c.watch(ats, metav1.ListOptions{})
	c.start()
	c.create(pods, "Pod", "blocked-pod", map[string]any{"spec": sleeping("a")})
	c.createAt("done", longAgo, "echo")
	c.createAt("blocked", longAgo, "echo")
	c.createAt("later", farAway, "echo")

	seen := make(map[string]map[string]kstatus.Status)
	deadline := time.After(testcluster.Timeout)
	for seen["done"]["DONE"] == "" || seen["blocked"]["RUNNING, stalled"] == "" || seen["later"]["PENDING"] == "" {
		var event apiwatch.Event
		select {
		case event = <-events:
		case <-deadline:
			require.FailNow(t, "the Ats do not get that far", "%v", seen)
		}
		object, ok := event.Object.(*unstructured.Unstructured)
		require.True(t, ok, "%v", event)
		result, err := kstatus.Compute(object)
		require.NoError(t, err)
		in := phaseOf(object)
		if isTrue(object, "Stalled") {
			in += ", stalled"
		}
		if seen[object.GetName()] == nil {
			seen[object.GetName()] = make(map[string]kstatus.Status)
		}
		seen[object.GetName()][in] = result.Status
	}
	// PENDING is left at once, so it is not stored.
	require.Equal(t, map[string]kstatus.Status{
		"": kstatus.InProgressStatus, "RUNNING": kstatus.InProgressStatus, "DONE": kstatus.CurrentStatus,
	}, seen["done"])
	require.Equal(t, kstatus.FailedStatus, seen["blocked"]["RUNNING, stalled"])
	require.Equal(t, kstatus.InProgressStatus, seen["later"]["PENDING"])
}

// healthLog records the health of the objects of a kind, according to kstatus.
type healthLog struct {
	*cluster
	resource schema.GroupVersionResource

	mu   sync.Mutex
	seen []healthAt
}

// healthAt is the health of one version of an object.
type healthAt struct {
	name, version string
	health        kstatus.Status
}

func (c *cluster) followHealth(resource schema.GroupVersionResource) *healthLog {
	c.t.Helper()
	_, events := c.watch(resource, metav1.ListOptions{})
	h := &healthLog{cluster: c, resource: resource}
	go func() {
		for event := range events {
			if object, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != apiwatch.Deleted {
				h.record(object)
			}
		}
	}()
	return h
}

func (h *healthLog) record(object *unstructured.Unstructured) {
	result, err := kstatus.Compute(object)
	if err != nil {
		return // the test notices that it is missing
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(h.seen, healthAt{object.GetName(), object.GetResourceVersion(), result.Status})
}

// since returns the health of an object after a version of it, without repetitions.
func (h *healthLog) since(version, name string) []kstatus.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	var seen []kstatus.Status
	for _, at := range h.seen {
		if at.name != name {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(at.version, version); err == nil && order > 0 {
			seen = append(seen, at.health)
		}
	}
	return slices.Compact(seen)
}

// after does something, and returns the health of an object from then until it is as wanted.
func (h *healthLog) after(t *testing.T, name string, wanted kstatus.Status, do func()) []kstatus.Status {
	t.Helper()
	before := "1" // the first of any cluster
	if object, err := h.get(h.resource, name); err == nil {
		before = object.GetResourceVersion()
	}
	do()
	var seen []kstatus.Status
	require.True(t, testcluster.WaitUntil(func() bool {
		seen = h.since(before, name)
		return len(seen) > 0 && seen[len(seen)-1] == wanted
	}), "%s: not %s but %v", name, wanted, seen)
	return seen
}

// The same for kinds without phases, which are never done: each change of the spec is in progress
// until the controller has observed it and the children are in sync.
func TestKstatusOfKindsWithoutPhases(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	for name, test := range map[string]struct {
		resource schema.GroupVersionResource
		create   func(name string)
		change   string
		// block makes the object fail, until unblock.
		block, unblock func()
		blocked        kstatus.Status
	}{
		"watcher": {
			resource: watchers, create: func(name string) { c.createWatcher(name, map[string]any{"a": "1"}) },
			change: `{"spec":{"configData":{"a":"2"}}}`,
			block: func() {
				c.patch(watchers, "watcher", `{"spec":{"configData":{"a":"`+strings.Repeat("x", 1<<20+1)+`"}}}`)
			},
			unblock: func() { c.patch(watchers, "watcher", `{"spec":{"configData":{"a":"3"}}}`) },
			blocked: kstatus.FailedStatus,
		},
		"customcluster": {
			resource: customclusters, create: func(name string) { c.createCustomcluster(name, 2, "one") },
			change: `{"spec":{"message":"two"}}`,
			block: func() {
				c.create(quotas, "ResourceQuota", "pods", map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": "0"}}})
				c.awaitQuota("pods", "0")
				c.patch(customclusters, "customcluster", `{"spec":{"count":3}}`)
			},
			unblock: func() { c.patch(quotas, "pods", `{"spec":{"hard":{"pods":"9"}}}`) },
			blocked: kstatus.InProgressStatus, // a quota passes
		},
	} {
		h := c.followHealth(test.resource)
		inProgress := []kstatus.Status{kstatus.InProgressStatus}
		require.Equal(t, append(inProgress, kstatus.CurrentStatus), h.after(t, name, kstatus.CurrentStatus, func() { test.create(name) }), "%s: created", name)
		require.Equal(t, append(inProgress, kstatus.CurrentStatus), h.after(t, name, kstatus.CurrentStatus, func() { c.patch(test.resource, name, test.change) }), "%s: changed", name)
		want := []kstatus.Status{kstatus.InProgressStatus, test.blocked}
		require.Equal(t, slices.Compact(want), h.after(t, name, test.blocked, test.block), "%s: blocked", name)
		again := h.after(t, name, kstatus.CurrentStatus, test.unblock)
		require.Subset(t, []kstatus.Status{kstatus.FailedStatus, kstatus.InProgressStatus, kstatus.CurrentStatus}, again, "%s: unblocked", name)
		c.patch(test.resource, name, `{"metadata":{"finalizers":["test.example.com/hold"]}}`)
		require.Equal(t, []kstatus.Status{kstatus.TerminatingStatus}, h.after(t, name, kstatus.TerminatingStatus, func() {
			c.delete(test.resource, name)
		}), "%s: deleted", name)
		c.patch(test.resource, name, `{"metadata":{"finalizers":null}}`)
	}
}

// What somebody else writes into the status, as an operator that has lost its Lease may do late, is corrected at once.
func TestStatusOfSomebodyElseIsCorrected(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createWatcher("w", map[string]any{"a": "b"})
	object := c.awaitReady(watchers, "w")
	require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{}, "status", "conditions"))
	_, err := c.objects(watchers).UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	c.awaitReady(watchers, "w")
}
