package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

// sorterKind has objects whose evaluation takes minutes within all limits.
const sorterKind = `
package kinds

import ("list", "fescue.dev/cue/contract")

#Sorter: {
	apiVersion!: "GROUP/v1"
	kind!:       "Sorter"
	metadata!: {...}
	spec!: {items!: [...int & <=10000] & list.MaxItems(1000)}
	status?: {contract.#Status, x?: int}
}
#SorterController: contract.#Controller & {
	object!: #Sorter
	names: plural: "sorters"
	status: x: list.Sum([for a in object.spec.items {list.Sort(object.spec.items, {x: int, y: int, less: x < y})[0] + a}])
}
`

// An evaluation that hangs delays the objects of no other kind, and the process ends on SIGTERM
// before a kubelet would kill it, and names the object.
func TestStopDuringAnEvaluation(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, added := writeKind(t, strings.ReplaceAll(sorterKind, "GROUP", c.namespace+".example.com"))
	c.deleteCRDs(added[0].Name())
	o := c.start("--kinds", dir, "--leader-elect")
	items := make([]any, 1000)
	for i := range items {
		items[i] = int64(i * 7919 % 997)
	}
	require.True(t, c.tryCreate(added[0].GroupVersionResource(), "Sorter", "s", map[string]any{"items": items}))
	working := func() bool {
		return sample(t, o.scrape(), "controller_runtime_active_workers", map[string]string{"controller": added[0].Name()}) > 0
	}
	require.True(t, testcluster.WaitUntil(working))
	require.True(t, c.tryCreate(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}))
	c.awaitPhase("a", "DONE")
	require.True(t, working(), "it does not hang")
	began := time.Now()
	require.Equal(t, 1, o.stop())
	require.Less(t, time.Since(began), 30*time.Second, "a kubelet would have killed it")
	require.Contains(t, o.log.String(), "stopped before all running reconciles had finished: Sorter "+c.namespace+"/s for ")
}
