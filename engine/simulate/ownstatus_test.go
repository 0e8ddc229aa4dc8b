package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// countingKind has as many children as its own status says.
const countingKind = `
package counting

import (
	"list"

	"fescue.dev/cue/contract"
)

#Counter: {
	apiVersion!: "counting.example.com/v1", kind!: "Counter", metadata!: {name!: string, ...}
	spec: count: *0 | int
	status?: {contract.#Status, count?: int}
}
#CounterController: contract.#Controller & {
	object!: #Counter
	observed: _
	names: plural: "counters"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {for i in list.Range(0, *object.status.count | 0, 1) {"c\(i)": template: {apiVersion: "v1", kind: "ConfigMap"}}}
	status: count: COUNT
}
`

// counter returns a cluster with a Counter whose status has a count, and its state.
func counter(t *testing.T, count string) (c *Cluster, state func() State) {
	t.Helper()
	k := enginetest.Kind(t, strings.ReplaceAll(countingKind, "COUNT", count))
	c = New([]*kind.Kind{k}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, c.Apply(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "counting.example.com/v1", "kind": "Counter", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"count": int64(2)},
	}}))
	require.NoError(t, c.Settle())
	return c, func() State { return StateOf(c.find(k.GroupVersionKind, "default", "a"), c.Objects()) }
}

// What a behaviour has written into the status and reads there is an input like any other.
func TestOwnStatusIsReadAgain(t *testing.T) {
	t.Parallel()
	c, state := counter(t, "object.spec.count")
	require.Len(t, state().Children, 2)
	require.Contains(t, state().Conditions["Ready"], "True")
	require.NoError(t, c.Patch(c.Objects()[0], map[string]any{"spec": map[string]any{"count": int64(1)}}))
	require.NoError(t, c.Settle())
	require.Len(t, state().Children, 1)
	require.Equal(t, map[string]any{"count": int64(1)}, state().Status)
}

// A status that changes whenever it is read never ends, and is slowed down.
func TestStatusThatNeverSettles(t *testing.T) {
	t.Parallel()
	c, state := counter(t, "1 - (*object.status.count | 0)")
	require.Contains(t, state().Conditions["Stalled"], "NoProgress")
	require.NoError(t, c.Wait(time.Hour))
	require.Contains(t, state().Conditions["Stalled"], "NoProgress")
}
