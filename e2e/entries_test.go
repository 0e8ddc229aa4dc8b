package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// nightlyKind runs a Pod of the same name in each entry of a phase. GROUP is replaced.
const nightlyKind = `
package nightly

import "fescue.dev/cue/contract"

#Nightly: {
	apiVersion!: "GROUP/v1", kind!: "Nightly", metadata!: {name!: string, ...}
	spec: {}
	status?: contract.#Status
}
#NightlyController: contract.#Controller & {
	object!: #Nightly
	observed: _
	names: plural: "nightlies"
	initial: "RUNNING"
	phases: {
		RUNNING: {
			children: backup: {update: "Never", template: {
				apiVersion: "v1", kind: "Pod", metadata: labels: nightly: object.metadata.name
				spec: {restartPolicy: "Never", containers: [{name: "c", image: "busybox", command: ["true"]}]}
			}}
			next: [{to: "WAITING", when: observed.backup.status.phase == "Succeeded"}]
		}
		WAITING: next: [{to: "RUNNING", after: "1s"}]
	}
}
`

// A phase that is entered again runs its Pod again: once in each entry and never two at a time, whenever the operator is
// killed.
func TestPhaseIsEnteredAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.group()
	nightlies := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "nightlies"}
	c.deleteCRDs("nightlies." + group)
	dir, _ := writeKind(t, strings.ReplaceAll(nightlyKind, "GROUP", group))
	c.start("--kinds", dir).kill()
	for n := int64(1); n <= 9; n++ {
		name := fmt.Sprintf("killed-%d", n)
		census := c.takeCensus("nightly=" + name)
		o := c.launchUntilWrite(n, "--kinds", dir)
		c.create(nightlies, "Nightly", name, map[string]any{"spec": map[string]any{}})
		require.True(t, testcluster.WaitUntil(o.hasEnded), "not killed after write %d", n)
		c.proxy.afterWrite.Store(nil)
		o = c.start("--kinds", dir)
		require.True(t, testcluster.WaitUntil(func() bool { return census.created() >= 3 }), "killed after write %d", n)
		c.delete(nightlies, name)
		c.awaitGone(pods, name+"-backup")
		o.kill()
		census.mu.Lock()
		require.LessOrEqual(t, census.most, 1, "at a time, killed after write %d", n)
		entries := make(map[string]bool)
		for _, pod := range census.all {
			entered := pod.GetAnnotations()["fescue.dev/entered"]
			require.NotEmpty(t, entered)
			require.False(t, entries[entered], "twice in the entry of %s, killed after write %d", entered, n)
			entries[entered] = true
		}
		census.mu.Unlock()
	}
}
