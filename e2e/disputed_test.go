package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// disputedKind is one of which docs/cue.md says that Fescue and CUE disagree.
const disputedKind = `
package disputed

import "fescue.dev/cue/contract"

#Disputed: {
	apiVersion!: "GROUP/v1", kind!: "Disputed", metadata!: {name!: string, ...}
	spec: extra?: bool
	status?: {contract.#Status, n?: int}
}
#DisputedController: contract.#Controller & {
	object!: #Disputed
	observed: _
	names: plural: "disputeds"
	owns: []
	_s: {
		n: 1
		if object.spec.extra {m: 2}
	}
	children: {}
	status: n: _s.n
}
#AgreedDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: agreed: "yes"}
	object: _
	observed: _
	children: copy: template: {apiVersion: "v1", kind: "Secret", metadata: name: object.metadata.name}
}
`

// Fescue does not run a kind about which it and CUE disagree, and installs no CRD of it. One whose CRD says that the
// cluster ran it before starts.
func TestDisputedKindsDoNotStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strings.ReplaceAll(disputedKind, "GROUP", c.group()))
	k := kind.WithoutDecorators(kinds)[0]
	c.deleteCRDs(k.Name())
	o := c.launchAs(c.installer(kinds), "--install-crds", "--kinds", dir, "--shipped-kinds=false")
	o.awaitReady()
	o.awaitLog("Fescue and CUE disagree, which is a bug in Fescue")
	value := func(family string) float64 {
		return sample(t, o.scrape(), family, map[string]string{"controller": k.Name()})
	}
	for _, family := range []string{"fescue_kinds_disputed", "fescue_kinds_waiting"} {
		require.True(t, testcluster.WaitUntil(func() bool { return value(family) == 1 }), family)
	}
	_, err := c.client.Resource(definitions).Get(t.Context(), k.Name(), metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.True(t, testcluster.WaitUntil(func() bool {
		return strings.Contains(o.log.String(), `msg="kind is running" decorator=Agreed`)
	}), "the decorator, about which they agree, does not run")

	c.installCRDs([]*kind.Kind{k})
	c.create(k.GroupVersionResource(), "Disputed", "d", map[string]any{"spec": map[string]any{}})
	c.await(k.GroupVersionResource(), "d", "reconciled", func(o *unstructured.Unstructured) bool { return isTrue(o, "Ready") })
	require.Zero(t, value("fescue_kinds_waiting"))
}
