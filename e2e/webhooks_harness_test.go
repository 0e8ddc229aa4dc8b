package e2e

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// fenceKind has a rule that a CRD cannot express, and a ConfigMap as child.
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

// webhookName returns the name of the webhook configurations of an installation.
func (c *cluster) webhookName() string { return c.installation(true).ClusterName() }

// webhookFlags returns flags for an operator whose webhooks listen on an address, and deletes its
// webhook configurations after the test.
func (c *cluster) webhookFlags(address string) []string {
	c.deleteWebhooks(c.webhookName())
	return []string{"--webhook-listen", address, "--webhook-configuration", c.webhookName(), "--webhook-secret", c.namespace + "/" + operator.DefaultSecret}
}

// webhookURLFlags are those flags for webhooks that the API server calls by a URL, with a free
// port.
func (c *cluster) webhookURLFlags() (flags []string, url string) {
	address := testcluster.FreePort(c.t, "127.0.0.1")
	url = "https://" + address
	return append(c.webhookFlags(address), "--webhook-url", url), url
}

// relayWebhooks has connections to the URL of webhooks served, each in a goroutine, as a Service in front of several operators does.
func relayWebhooks(t *testing.T, url string, serve func(net.Conn)) {
	t.Helper()
	listener, err := net.Listen("tcp", strings.TrimPrefix(url, "https://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(connection)
		}
	}()
}

// relay copies what each of two connections sends to the other one, until one ends.
func relay(from, to net.Conn) {
	go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
	_, _ = io.Copy(to, from)
}

// serveWebhooksAt has the Service of the webhooks lead to an address of this machine.
func (c *cluster) serveWebhooksAt(address string) {
	c.t.Helper()
	host, port, err := net.SplitHostPort(address)
	require.NoError(c.t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	require.NoError(c.t, err)
	_, err = c.typed.DiscoveryV1().EndpointSlices(c.namespace).Create(c.t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "process", Labels: map[string]string{discoveryv1.LabelServiceName: "fescue-webhooks"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}}},
		Ports: []discoveryv1.EndpointPort{{Name: new("webhooks"), Port: new(int32(number))}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

// deleteWebhooks deletes webhook configurations after the test, so that objects can be written
// without an operator again.
func (c *cluster) deleteWebhooks(name string) {
	c.t.Cleanup(func() {
		api := c.typed.AdmissionregistrationV1()
		for _, err := range []error{
			api.MutatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}),
			api.ValidatingWebhookConfigurations().Delete(context.Background(), name, metav1.DeleteOptions{}),
		} {
			if !apierrors.IsNotFound(err) {
				require.NoError(c.t, err)
			}
		}
	})
}

// isRegistered reports whether the API server knows the webhooks and which authority to trust.
func (c *cluster) isRegistered() bool {
	registered, err := c.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(context.Background(), c.webhookName(), metav1.GetOptions{})
	return err == nil && len(registered.Webhooks) > 0 && len(registered.Webhooks[0].ClientConfig.CABundle) > 0
}

func (c *cluster) awaitRegistration() {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(c.isRegistered), "the webhooks are not registered")
}

// launchWebhooks starts an operator with webhooks. It has the rights of an installation for kinds,
// except those that are removed.
func (c *cluster) launchWebhooks(kinds []*kind.Kind, removed []install.Right, args ...string) *process {
	c.t.Helper()
	config := c.grant(without(c.t, c.installation(true).rights(c.t, kinds), removed...))
	flags, _ := c.webhookURLFlags()
	return c.launchAs(c.proxy.through(config), append(args, flags...)...)
}
