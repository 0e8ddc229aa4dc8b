package e2e

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// fenceKind has a rule that no CRD can carry, and a ConfigMap as child.
const fenceKind = `package fence

import (
	"net"
	"strings"

	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

// Fence is a fence.
#Fence: {
	apiVersion!: "fences.example.com/v1"
	kind!:       "Fence"
	metadata!:   k8s.#ObjectMeta
	spec!: {
		colour: *"green" | "white"
		site?:  net.AbsURL
		place?: strings.MaxRunes(100) @kube(immutable)
	}
	status?: contract.#Status
}

#FenceController: contract.#Controller & {
	object!: #Fence
	names: plural: "fences"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: colour: object.spec.colour}
}
`

// isRegistered reports whether the API server knows the webhooks and which authority to trust.
func (c *cluster) isRegistered(name string) bool {
	client, err := kubernetes.NewForConfig(testcluster.Config(c.t))
	require.NoError(c.t, err)
	registered, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(context.Background(), name, metav1.GetOptions{})
	return err == nil && len(registered.Webhooks) > 0 && len(registered.Webhooks[0].ClientConfig.CABundle) > 0
}

func (c *cluster) awaitRegistration(name string) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool { return c.isRegistered(name) }), "the webhooks are not registered")
}

// removeWebhooks lets objects of kinds be written without an operator again.
func removeWebhooks(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	api := client.AdmissionregistrationV1()
	for _, err := range []error{
		api.MutatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}),
		api.ValidatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}),
	} {
		if !apierrors.IsNotFound(err) {
			require.NoError(t, err)
		}
	}
}

// launchWebhooks starts an operator with webhooks and health, with the rights of an installation
// for kinds but those that are removed.
func (c *cluster) launchWebhooks(kinds []*kind.Kind, removed []install.Right, args ...string) *process {
	c.t.Helper()
	typed, err := kubernetes.NewForConfig(testcluster.Config(c.t))
	require.NoError(c.t, err)
	parts, err := c.installation(true).parts(kinds, nil)
	require.NoError(c.t, err)
	config := c.grant(without(c.t, rightsIn(install.Objects(parts)), removed...))
	address, name := testcluster.FreePort(c.t, "127.0.0.1"), c.installation(true).ClusterName()
	c.t.Cleanup(func() { removeWebhooks(c.t, typed, name) })
	return c.launchAs(c.proxy.through(config), append(args, "--health-listen", "127.0.0.1:0", "--webhook-listen", address,
		"--webhook-url", "https://"+address, "--webhook-configuration", name, "--webhook-secret", c.namespace+"/"+operator.DefaultSecret)...)
}
