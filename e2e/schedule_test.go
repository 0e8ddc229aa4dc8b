package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

const clockKind = `
package clock

import (
	"time"

	"fescue.dev/cue/contract"
)

#Clock: {
	apiVersion!: "clock.example.com/v1", kind!: "Clock", metadata!: {name!: string, ...}
	spec!: schedule!: string
	status?: {contract.#Status, contract.#ScheduleStatus}
}
#ClockController: contract.#Controller & {
	object!: #Clock
	observed: _
	names: plural: "clocks"
	initial: "WAITING"
	phases: {
		WAITING: next: [{to: "RUNNING", cron: object.spec.schedule}]
		RUNNING: {
			children: tick: {update: "Never", template: {
				apiVersion: "v1", kind: "ConfigMap"
				metadata: name: "\(object.metadata.name)-\(time.FormatString("20060102-1504", object.status.lastScheduleTime))"
			}}
			next: [{to: "WAITING", when: observed.tick != _|_}]
		}
	}
}
`

// An operator that comes back after 90 minutes meets the last time of an hourly schedule, once, and is
// killed once after each of the writes that this takes.
func TestScheduleKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, clockKind)
	clocks := kinds[0].GroupVersionResource()
	lastScheduleTime := func(object *unstructured.Unstructured) string {
		last, _, _ := unstructured.NestedString(object.Object, "status", "lastScheduleTime")
		return last
	}
	hasTicked := func(object *unstructured.Unstructured) bool {
		return phaseOf(object) == "WAITING" && lastScheduleTime(object) != ""
	}
	c.start("--kinds", dir).kill()
	for n := int64(1); ; n++ {
		name := fmt.Sprintf("killed-%d", n)
		c.create(clocks, "Clock", name, map[string]any{"spec": map[string]any{"schedule": "@hourly"}})
		entered := time.Now().Add(-90 * time.Minute).UTC()
		_, err := c.objects(clocks).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"phase":"WAITING","lastPhaseTransitionTime":%q}}`, entered.Format(time.RFC3339)), metav1.PatchOptions{}, "status")
		require.NoError(t, err)

		o := c.launch("--kinds", dir)
		c.proxy.writes.Store(0)
		hook := func(written int64) {
			if written == n {
				_ = o.cmd.Process.Kill()
			}
		}
		c.proxy.afterWrite.Store(&hook)
		wasKilled := false
		require.True(t, testcluster.WaitUntil(func() bool {
			object, err := c.get(clocks, name)
			wasKilled = o.hasEnded()
			return wasKilled || err == nil && hasTicked(object) && c.proxy.writes.Load() >= 4
		}), "neither killed nor waiting again")
		c.proxy.afterWrite.Store(nil)
		o.kill()

		o = c.start("--kinds", dir)
		object := c.await(clocks, name, "waiting again", hasTicked)
		last, err := time.Parse(time.RFC3339, lastScheduleTime(object))
		require.NoError(t, err)
		require.Equal(t, last.Truncate(time.Hour), last)
		require.WithinRange(t, time.Now(), last, last.Add(time.Hour+testcluster.Timeout))
		var ticks []string
		for _, configMap := range c.list(configMaps, "") {
			if strings.HasPrefix(configMap.GetName(), name+"-") {
				ticks = append(ticks, configMap.GetName())
			}
		}
		require.Equal(t, []string{name + "-" + last.Format("20060102-1504")}, ticks, "killed after write %d", n)
		o.kill()
		if !wasKilled {
			require.Greater(t, n, int64(3), "it takes two writes of the status, and those of the child")
			return
		}
	}
}
