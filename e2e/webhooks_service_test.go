package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// serviceTest is for an operator behind the Service and the webhook configurations that
// `fescue manifests` prints. The operator is a process of this machine and not a Pod.
type serviceTest struct {
	*cluster
	address string // where the operator listens
	host    string // the name that the API server calls
	flags   []string
}

func newServiceTest(t *testing.T, more ...string) *serviceTest {
	t.Helper()
	c := newCluster(t)
	kinds := append([]string{corpus.Folder(t, fenceKind)}, more...)
	s := &serviceTest{cluster: c, address: testcluster.FreePort(t, hostAddress(t)), host: "fescue-webhooks." + c.namespace + ".svc"}
	s.flags = append(c.webhookFlags(s.address), "--webhook-service", c.namespace+"/fescue-webhooks")
	for _, dir := range kinds {
		s.flags = append(s.flags, "--kinds", dir)
	}
	c.prepare(s.flags)
	loaded, err := load.All(true, kinds...)
	require.NoError(t, err)
	parts, err := c.installation(true).parts(loaded.All(), nil)
	require.NoError(t, err)
	for _, object := range install.Objects(parts) {
		if object.GetKind() != "Service" && object.GroupVersionKind().Group != admissionregistrationv1.GroupName {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := c.client.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.serveWebhooksAt(s.address)
	return s
}

// submit submits a Fence that the CRD accepts and the webhook rejects.
func (s *serviceTest) submit() error {
	_, err := s.createBy(s.client, fences, "Fence", "bad", map[string]any{"site": "wall"}, dryRun)
	return err
}

// awaitRejection waits until the API server reaches the webhook and trusts it.
func (s *serviceTest) awaitRejection() {
	s.t.Helper()
	var err error
	require.True(s.t, testcluster.WaitUntil(func() bool { err = s.submit(); return apierrors.IsInvalid(err) }), "%v", err)
	require.ErrorContains(s.t, err, `admission webhook "fences.fences.example.com" denied the request`)
}

// bundle returns the CA bundle of the webhook configuration.
func (s *serviceTest) bundle() []byte {
	s.t.Helper()
	configuration, err := s.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(s.t.Context(), s.webhookName(), metav1.GetOptions{})
	require.NoError(s.t, err)
	return configuration.Webhooks[0].ClientConfig.CABundle
}

func TestWebhooksBehindAService(t *testing.T) {
	t.Parallel()
	converted, kinds := writeKind(t, convertedBackup("service.example.com"))
	s := newServiceTest(t, converted)
	s.deleteCRDs(kinds[0].Name())
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // the operator does not run yet
		err = s.submit()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}), "%v", err)
	_, err = s.typed.CoreV1().Pods(s.namespace).Create(t.Context(), podWith(map[string]string{"watch.fescue.dev/inject": "log"}), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, s.bundle())

	s.start(append(s.flags, "--leader-elect")...)
	s.awaitRejection()
	// The certificate is for the name of the Service.
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(s.bundle()))
	connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: s.host}}).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	require.NoError(t, connection.Close())
	s.converts(kinds[0])
}

// converts requires that the API server reaches the conversion webhook of a kind of backups by the Service.
func (s *serviceTest) converts(backups *kind.Kind) {
	s.t.Helper()
	s.create(backups.GroupVersionResource(), "Backup", "a", map[string]any{"spec": map[string]any{"keep": int64(3), "volumes": []any{"x", "y"}}})
	older := backups.GroupVersionResource()
	older.Version = "v1beta1"
	var object *unstructured.Unstructured
	var err error
	require.True(s.t, testcluster.WaitUntil(func() bool { object, err = s.get(older, "a"); return err == nil }), "%v", err)
	require.Equal(s.t, map[string]any{"keep": "3", "volumes": "x y", "suspend": false}, object.Object["spec"])
	crd, err := s.client.Resource(definitions).Get(s.t.Context(), backups.Name(), metav1.GetOptions{})
	require.NoError(s.t, err)
	service, _, _ := unstructured.NestedMap(crd.Object, "spec", "conversion", "webhook", "clientConfig", "service")
	require.Equal(s.t, s.namespace, service["namespace"])
	s.delete(older, "a")
}

// A certificate in files is served, and its authority is registered, also when they are replaced.
func TestWebhooksWithCertificateFiles(t *testing.T) {
	t.Parallel()
	s := newServiceTest(t)
	dir := t.TempDir()
	write := func() (authority []byte) {
		chain, key, err := cert.GenerateSelfSignedCertKey(s.host, nil, nil)
		require.NoError(t, err)
		for name, content := range map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key, "ca.crt": chain} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		}
		return chain
	}
	first := write()
	s.start(append(s.flags, "--webhook-cert-dir", dir)...)
	s.awaitRejection()
	require.Equal(t, first, s.bundle())
	_, err := s.typed.CoreV1().Secrets(s.namespace).Get(t.Context(), operator.DefaultSecret, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "no Secret is created")

	second := write()
	require.Eventually(t, func() bool { return bytes.Equal(s.bundle(), second) }, testcluster.Timeout, testcluster.Poll)
	s.awaitRejection()
}

// With --webhook-client-ca, webhooks answer only clients with a certificate of that authority.
func TestWebhooksRequireClientCertificates(t *testing.T) {
	t.Parallel()
	s := newServiceTest(t)
	authority := filepath.Join(os.Getenv("DEVCLUSTER_DIR"), "webhook-client.crt")
	o := s.start(append(s.flags, "--webhook-client-ca", authority)...)
	s.awaitRejection()

	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(s.bundle()))
	connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: s.host}}).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	_, err = connection.Read(make([]byte, 1)) // in TLS 1.3, the client gets the error only now
	require.ErrorContains(t, err, "certificate required")
	require.NoError(t, connection.Close())
	require.Zero(t, o.stop())

	// The certificate of the API server is not of another authority.
	authority = filepath.Join(t.TempDir(), "ca.crt")
	other, _, err := cert.GenerateSelfSignedCertKey("another", nil, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(authority, other, 0o600))
	s.start(append(s.flags, "--webhook-client-ca", authority)...)
	require.True(t, testcluster.WaitUntil(func() bool {
		err = s.submit()
		return err != nil && strings.Contains(err.Error(), "remote error: tls: ")
	}), "%v", err)
	require.ErrorContains(t, err, "remote error: tls: unknown certificate authority")
}
