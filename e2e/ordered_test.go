package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// orderedKind has an ordered set of Pods, each of which knows its number.
const orderedKind = `package rows

import "fescue.dev/cue/contract"

#Row: {
	apiVersion!: "ordered.example.com/v1"
	kind!:       "Row"
	metadata!: {name!: string, ...}
	spec!: {count!: int & >=0 & <=9, message!: string}
	status?: contract.#Status
}
#RowController: contract.#Controller & {
	object!:  #Row
	observed: _
	index:    _
	names: plural: "rows"
	children: pods: {
		replicas: object.spec.count
		ordered:  true
		update:   "Recreate"
		template: {
			apiVersion: "v1"
			kind:       "Pod"
			metadata: {name: object.metadata.name, labels: {row: object.metadata.name, message: object.spec.message}}
			spec: containers: [{name: "main", image: "busybox:1.37", env: [{name: "INDEX", value: "\(index)"}]}]
		}
	}
}
`

// history is what becomes of the Pods of a Row, in the order of the events.
type history struct {
	steps []string
	live  map[string]bool
	ready map[string]bool
}

// follow watches the Pods of a Row. The function that it returns waits until a condition holds, and
// returns what has happened since the last time.
func (c *cluster) follow(row string) (next func(isOver func(*history) bool) *history) {
	c.t.Helper()
	_, events := c.watch(pods, metav1.ListOptions{LabelSelector: "row=" + row})
	h := &history{live: make(map[string]bool), ready: make(map[string]bool)}
	return func(isOver func(*history) bool) *history {
		c.t.Helper()
		h.steps = nil
		deadline := time.After(testcluster.Timeout)
		for !isOver(h) {
			select {
			case event := <-events:
				pod, ok := event.Object.(*unstructured.Unstructured)
				require.True(c.t, ok)
				h.add(string(event.Type), pod)
			case <-deadline:
				require.Fail(c.t, "the Pods do not get that far", "%v; live %v, ready %v", h.steps, h.live, h.ready)
			}
		}
		return h
	}
}

func (h *history) add(event string, pod *unstructured.Unstructured) {
	name := pod.GetName()
	switch {
	case event == "ADDED":
		h.live[name] = true
		h.steps = append(h.steps, "create "+name)
	case event == "DELETED":
		delete(h.live, name)
		delete(h.ready, name)
		h.steps = append(h.steps, "gone "+name)
	case pod.GetDeletionTimestamp() != nil:
		delete(h.ready, name)
	case isTrue(pod, "Ready") && !h.ready[name]:
		h.ready[name] = true
		h.steps = append(h.steps, "ready "+name)
	}
}

// has reports whether exactly the members of a Row up to a number are ready.
func (h *history) has(row string, count int) bool {
	if len(h.live) != count || len(h.ready) != count {
		return false
	}
	for i := range count {
		if !h.ready[fmt.Sprintf("%s-%d", row, i)] {
			return false
		}
	}
	return true
}

// Members are created one after the other, each when the one before it is ready; they are replaced and
// deleted from the end.
func TestOrderedSet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, orderedKind)
	rows := kinds[0].GroupVersionResource()
	c.start("--kinds", dir)
	next := c.follow("r")
	c.create(rows, "Row", "r", map[string]any{"spec": map[string]any{"count": int64(3), "message": "a"}})
	h := next(func(h *history) bool { return h.has("r", 3) })
	require.Equal(t, "create r-0, ready r-0, create r-1, ready r-1, create r-2, ready r-2", strings.Join(h.steps, ", "))
	c.awaitReady(rows, "r")
	for i := range 3 {
		pod, err := c.get(pods, fmt.Sprintf("r-%d", i))
		require.NoError(t, err)
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		require.Contains(t, fmt.Sprint(containers), fmt.Sprintf("map[name:INDEX value:%d]", i))
	}

	c.patch(rows, "r", `{"spec":{"message":"b"}}`)
	h = next(func(h *history) bool { return len(h.steps) >= 9 && h.has("r", 3) })
	require.Equal(t, "gone r-2, create r-2, ready r-2, gone r-1, create r-1, ready r-1, gone r-0, create r-0, ready r-0", strings.Join(h.steps, ", "))

	c.deletePod("r-1")
	h = next(func(h *history) bool { return len(h.steps) >= 3 && h.has("r", 3) })
	require.Equal(t, "gone r-1, create r-1, ready r-1", strings.Join(h.steps, ", "))

	c.patch(rows, "r", `{"spec":{"count":1}}`)
	h = next(func(h *history) bool { return h.has("r", 1) })
	require.Equal(t, "gone r-2, gone r-1", strings.Join(h.steps, ", "))
	c.awaitReady(rows, "r")
}

// What others made under the name of a member, and copies of members, are neither counted nor deleted.
func TestOrderedSetLeavesOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strings.ReplaceAll(orderedKind, "ordered.example.com", "others.example.com"))
	c.deleteCRDs(kinds[0].Name())
	rows := kinds[0].GroupVersionResource()
	c.start("--kinds", dir)
	c.createPod("r-1", "Always", map[string]any{"row": "r", "message": "a"}, nil)
	theirs, err := c.get(pods, "r-1")
	require.NoError(t, err)
	c.create(rows, "Row", "r", map[string]any{"spec": map[string]any{"count": int64(3), "message": "a"}})
	_, reason, message := c.awaitStalled(rows, "r")
	require.Equal(t, "ChildRejected", reason)
	require.Contains(t, message, "r-1")
	copied := c.copyOf(pods, "r-0", "r-7", true)
	c.patch(rows, "r", `{"spec":{"count":0}}`)
	c.awaitGone(pods, "r-0")
	c.awaitReady(rows, "r")
	c.requireUntouched(pods, theirs)
	c.requireUntouched(pods, copied)
}

// The operator is killed after each write while an ordered set is created: no two members are made at
// a time, and none twice.
func TestOrderedSetKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strings.ReplaceAll(orderedKind, "ordered.example.com", "killed.example.com"))
	rows := kinds[0].GroupVersionResource()
	c.start("--kinds", dir).kill()
	for n := int64(1); ; n++ {
		row := fmt.Sprintf("killed-%d", n)
		next := c.follow(row)
		o := c.launchUntilWrite(n, "--kinds", dir)
		c.create(rows, "Row", row, map[string]any{"spec": map[string]any{"count": int64(2), "message": "a"}})
		require.True(t, testcluster.WaitUntil(func() bool {
			object, err := c.get(rows, row)
			return o.hasEnded() || err == nil && isTrue(object, "Ready")
		}), "neither killed nor ready")
		c.proxy.afterWrite.Store(nil)
		wasKilled := o.hasEnded()
		o.kill()

		o = c.start("--kinds", dir)
		c.awaitReady(rows, row)
		h := next(func(h *history) bool { return h.has(row, 2) })
		require.Equal(t, "create R-0, ready R-0, create R-1, ready R-1", strings.ReplaceAll(strings.Join(h.steps, ", "), row, "R"), "killed after write %d", n)
		c.delete(rows, row)
		next(func(h *history) bool { return len(h.live) == 0 })
		o.kill()
		if !wasKilled {
			require.Greater(t, n, int64(2), "it takes two Pods, and the status")
			return
		}
	}
}
