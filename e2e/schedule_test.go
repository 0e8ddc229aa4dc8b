package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
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

// A leader that is frozen when it has written, and continues when another one leads, meets a time of a
// schedule only once.
func TestScheduleOverALeaderChange(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strings.ReplaceAll(clockKind, "clock.example.com", "frozen.example.com"))
	c.deleteCRDs(kinds[0].Name())
	clocks := kinds[0].GroupVersionResource()
	flags := append([]string{"--kinds", dir, "--shipped-kinds=false"}, quickElection...)
	leader := c.start(flags...)
	require.True(t, testcluster.WaitUntil(leader.leads))
	for last := int64(1); last <= 3; last++ { // the status, the child, the status
		standby := c.launch(flags...)
		standby.awaitReady()
		name := fmt.Sprintf("frozen-%d", last)
		var written atomic.Int64
		c.proxy.answered.Store(new(func(r *http.Response) {
			path := r.Request.URL.Path
			if r.Request.Method == http.MethodGet || r.StatusCode >= 300 || !strings.Contains(path, "/clocks/") && !strings.Contains(path, "/configmaps") {
				return
			}
			if written.Add(1) == last {
				_ = leader.cmd.Process.Signal(syscall.SIGSTOP)
			}
		}))
		c.create(clocks, "Clock", name, map[string]any{"spec": map[string]any{"schedule": "0 0 1 1 *"}})
		entered := time.Now().AddDate(-1, 0, 0).UTC()
		_, err := c.objects(clocks).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"phase":"WAITING","lastPhaseTransitionTime":%q}}`, entered.Format(time.RFC3339)), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		c.patch(clocks, name, `{"metadata":{"annotations":{"e2e":"look at the status"}}}`)
		require.True(t, testcluster.WaitUntil(func() bool { return written.Load() >= last }), "no write %d", last)
		require.True(t, testcluster.WaitUntil(standby.leads))
		hasTicked := func(object *unstructured.Unstructured) bool {
			last, _, _ := unstructured.NestedString(object.Object, "status", "lastScheduleTime")
			return phaseOf(object) == "WAITING" && last != ""
		}
		c.await(clocks, name, "waiting again", hasTicked)
		require.NoError(t, leader.cmd.Process.Signal(syscall.SIGCONT))
		leader.awaitEnd() // it has lost its Lease
		var ticks []string
		for _, configMap := range c.list(configMaps, "") {
			if strings.HasPrefix(configMap.GetName(), name+"-") {
				ticks = append(ticks, configMap.GetName())
			}
		}
		require.Len(t, ticks, 1, "frozen after write %d", last)
		leader = standby
	}
}

// An operator that comes back after 90 minutes meets the last of two times of a schedule, once, and is
// killed once after each of the writes that this takes. The next time is tomorrow.
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
		first := time.Now().UTC().Truncate(time.Minute).Add(-80 * time.Minute)
		due := first.Add(time.Hour)
		schedule := fmt.Sprintf("%d %d,%d * * *", due.Minute(), first.Hour(), due.Hour())
		c.create(clocks, "Clock", name, map[string]any{"spec": map[string]any{"schedule": schedule}})
		entered := time.Now().Add(-90 * time.Minute).UTC()
		_, err := c.objects(clocks).Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"phase":"WAITING","lastPhaseTransitionTime":%q}}`, entered.Format(time.RFC3339)), metav1.PatchOptions{}, "status")
		require.NoError(t, err)

		o := c.launchUntilWrite(n, "--kinds", dir)
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
		require.Equal(t, due, last)
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
