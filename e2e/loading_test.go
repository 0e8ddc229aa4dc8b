package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// goodKind is a kind, and slowKind one that takes the CUE evaluator hours.
const goodKind = `
package kinds

import "fescue.dev/cue/contract"

#Good: {apiVersion!: "GROUP/v1", kind!: "Good", metadata!: {...}, spec!: {}, status?: contract.#Status}
#GoodController: contract.#Controller & {object!: #Good, names: plural: "goods"}
`

const slowKind = `
#Slow: {
	apiVersion!: "GROUP/v1"
	kind!:       "Slow"
	metadata!: {...}
	spec!: {}
	status?: {contract.#Status, x?: int}
}
#SlowController: contract.#Controller & {
	object!: #Slow
	names: plural: "slows"
	status: x:     len([for a in _l for b in _l for c in _l for d in _l for e in _l {e}])
}
_l: [FORTY]
`

// A kind that takes long to load delays nothing else: the operator is live, and the kinds that are
// loaded are reconciled. It is ready when all are loaded, also those that failed to load.
func TestSlowKindDelaysNoOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := c.namespace + ".example.com"
	replace := strings.NewReplacer("GROUP", group, "FORTY", strings.Repeat("0,", 40))
	_, good := writeKind(t, replace.Replace(goodKind))
	goods := good[0].GroupVersionResource()
	c.deleteCRDs(good[0].Name())
	dir := corpus.Folder(t, replace.Replace(goodKind+slowKind))
	config := c.installer(append(kindtest.Shipped(t), good...))
	o := c.launchAs(config, "--install-crds", "--kinds", dir, "--load-timeout", "1m")
	health := o.address("--health-listen")
	for _, path := range []string{"/healthz", "/livez"} {
		code, _ := get(t, health+path)
		require.Equal(t, http.StatusOK, code, path)
	}
	c.createAtWhenServed("a")
	c.awaitPhase("a", "DONE")
	code, reason := get(t, health+"/readyz/kinds")
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, reason, "kinds are still being loaded")
	require.Zero(t, o.stop())

	o = c.launchAs(config, "--install-crds", "--kinds", dir, "--load-timeout", "8s")
	o.awaitLog("kind Slow: loading takes longer than ") // 8s of CPU time, or 48s on a busy machine
	o.awaitReady()
	o.awaitLog("kinds are loaded, and some failed to load")
	o.awaitLog("failed=1")
	require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(goods, "Good", "g", map[string]any{}) }))
	c.awaitReady(goods, "g")
	require.Zero(t, o.stop())
}
