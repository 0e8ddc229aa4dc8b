package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

// sorterKind has objects whose evaluation would take minutes.
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

// An evaluation that takes too many steps stalls its object alone: others of the kind and of other
// kinds are reconciled, and the process stops when it is told to.
func TestEvaluationThatTakesTooLong(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, added := writeKind(t, strings.ReplaceAll(sorterKind, "GROUP", c.namespace+".example.com"))
	c.deleteCRDs(added[0].Name())
	o := c.start("--kinds", dir, "--leader-elect")
	items := make([]any, 1000)
	for i := range items {
		items[i] = int64(i * 7919 % 997)
	}
	sorters := added[0].GroupVersionResource()
	require.True(t, c.tryCreate(sorters, "Sorter", "long", map[string]any{"items": items}))
	require.True(t, c.tryCreate(sorters, "Sorter", "short", map[string]any{"items": items[:3]}))
	require.True(t, c.tryCreate(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}))
	_, reason, message := c.awaitStalled(sorters, "long")
	require.Equal(t, "EvaluationFailed", reason)
	require.Regexp(t, `^status(\.x)?: takes more than \d+ steps \(.*kind\.cue:\d+\)$`, message)
	require.True(t, testcluster.WaitUntil(func() bool {
		short, err := c.get(sorters, "short")
		require.NoError(t, err)
		x, found, _ := unstructured.NestedInt64(short.Object, "status", "x")
		return found && x == int64(0+7919%997+2*7919%997)
	}))
	c.awaitPhase("a", "DONE")
	require.Zero(t, o.stop())
}
