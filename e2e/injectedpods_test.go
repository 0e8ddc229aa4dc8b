package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// awaitInjectedPods waits until a Watcher reports these numbers of Pods, and returns the reason and
// the message of its condition. Without any Pod it must not have the condition.
func (c *cluster) awaitInjectedPods(name string, current, outdated, missing int64) (reason, message string) {
	c.t.Helper()
	var want any = map[string]any{"current": current, "outdated": outdated, "missing": missing}
	if current+outdated+missing == 0 {
		want = nil
	}
	object := c.await(watchers, name, fmt.Sprintf("reporting %v", want), func(o *unstructured.Unstructured) bool {
		status, ok := o.Object["status"].(map[string]any)
		return ok && fmt.Sprint(status["injectedPods"]) == fmt.Sprint(want)
	})
	status, reason, message := condition(object, "Injected")
	switch {
	case want == nil:
		require.Empty(c.t, status)
	case outdated+missing == 0:
		require.Equal(c.t, "True", status)
	default:
		require.Equal(c.t, "False", status)
	}
	return reason, message
}

// TestInjectedPodsOfAWatcher runs without webhooks, so that nothing is injected: the test writes
// the annotations of the Pods.
func TestInjectedPodsOfAWatcher(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	asks := map[string]any{"watch.fescue.dev/inject": "w"}
	has := map[string]any{"watch.fescue.dev/inject": "w", "fescue.dev/injected": `{"Watcher.watch.fescue.dev/w":{"generation":1}}`}

	// A Pod that ended before the operator started is ignored.
	c.createPod("ended", "Never", nil, asks)
	c.await(pods, "ended", "ended", func(o *unstructured.Unstructured) bool {
		phase := phaseOf(o)
		return phase == "Succeeded" || phase == "Failed"
	})
	o := c.start()
	c.createWatcher("w", map[string]any{"a": "b"})
	c.awaitReady(watchers, "w")
	c.awaitInjectedPods("w", 0, 0, 0)

	c.createPod("has", "Always", nil, has)
	reason, _ := c.awaitInjectedPods("w", 1, 0, 0)
	require.Equal(t, "InjectedIntoAll", reason)
	c.createPod("asks", "Always", map[string]any{"app": "web"}, asks)
	reason, message := c.awaitInjectedPods("w", 1, 0, 1)
	require.Equal(t, "MissedPods", reason)
	require.Contains(t, message, "1 Pod requests it and does not have it: asks;")
	c.awaitReady(watchers, "w") // because its ConfigMap is

	// Another generation: the Pod is not restarted, and keeps the older one.
	before, err := c.get(pods, "has")
	require.NoError(t, err)
	c.patch(watchers, "w", `{"spec":{"configData":{"a":"c"}}}`)
	_, message = c.awaitInjectedPods("w", 0, 1, 1)
	require.Contains(t, message, "1 Pod has it from an older generation: has;")
	after, err := c.get(pods, "has")
	require.NoError(t, err)
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Nil(t, after.GetDeletionTimestamp())

	// Pods can be created while the operator is down; they are reported later.
	o.kill()
	c.createPod("missed", "Always", nil, asks)
	o = c.start()
	_, message = c.awaitInjectedPods("w", 0, 1, 2)
	require.Contains(t, message, "2 Pods request it and do not have it: asks, missed;")

	// A selector selects Pods without the annotation. Without the selector they are ignored.
	c.createPod("selected", "Always", map[string]any{"app": "web"}, nil)
	c.patch(watchers, "w", `{"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
	c.awaitInjectedPods("w", 0, 1, 3)
	c.createPod("selected-later", "Always", map[string]any{"app": "web"}, nil)
	c.awaitInjectedPods("w", 0, 1, 4)
	c.patch(watchers, "w", `{"spec":{"selector":null}}`)
	c.awaitInjectedPods("w", 0, 1, 2)

	for _, name := range []string{"has", "asks", "missed"} {
		c.delete(pods, name)
	}
	c.awaitInjectedPods("w", 0, 0, 0)
	require.Zero(t, o.stop())
}
