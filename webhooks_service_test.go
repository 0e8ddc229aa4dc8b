package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds/manifests"
)

// serviceTest is an operator behind the Service that `fescue manifests` prints, registered by
// the configurations that it prints, without a Pod.
type serviceTest struct {
	*cluster
	typed   kubernetes.Interface
	address string // that the operator listens on
	host    string // that the API server calls
	flags   []string
}

func newServiceTest(t *testing.T) *serviceTest {
	t.Helper()
	c := newCluster(t)
	typed, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	kinds := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(kinds, "fence.cue"), []byte(fenceKind), 0o600))
	name := c.installation(true).ClusterName()
	s := &serviceTest{cluster: c, typed: typed, address: freePort(t, hostAddress(t)), host: "fescue-webhooks." + c.namespace + ".svc"}
	s.flags = []string{
		"--kinds", kinds, "--webhook-service", c.namespace + "/fescue-webhooks", "--webhook-listen", s.address,
		"--webhook-configuration", name,
	}
	c.prepare(s.flags)
	loaded, err := loadKinds([]string{kinds})
	require.NoError(t, err)
	parts, err := c.installation(true).partsFor(loaded.all, nil)
	require.NoError(t, err)
	t.Cleanup(func() { removeWebhooks(t, typed, name) })
	for _, object := range manifests.Objects(parts) {
		if object.GetKind() != "Service" && object.GroupVersionKind().Group != admissionregistrationv1.GroupName {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := c.client.Resource(resource).Namespace(object.GetNamespace()).Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	address, port, err := net.SplitHostPort(s.address)
	require.NoError(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	require.NoError(t, err)
	_, err = typed.DiscoveryV1().EndpointSlices(c.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "process", Labels: map[string]string{discoveryv1.LabelServiceName: "fescue-webhooks"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports: []discoveryv1.EndpointPort{{Name: new("webhooks"), Port: new(int32(number))}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

// submit has the API server ask about a Fence that no CRD refuses.
func (s *serviceTest) submit() error {
	w := &webhookTest{cluster: s.cluster}
	_, err := w.create(s.client, fences, "Fence", "bad", map[string]any{"site": "wall"}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// awaitRefusal waits until the API server reaches the webhook and trusts it.
func (s *serviceTest) awaitRefusal() {
	s.t.Helper()
	var err error
	require.True(s.t, waitUntil(func() bool { err = s.submit(); return apierrors.IsInvalid(err) }), "%v", err)
	require.ErrorContains(s.t, err, `admission webhook "fences.fences.example.com" denied the request`)
}

// bundle is whom the API server is told to trust.
func (s *serviceTest) bundle() []byte {
	s.t.Helper()
	configuration, err := s.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(s.t.Context(), s.installation(true).ClusterName(), metav1.GetOptions{})
	require.NoError(s.t, err)
	return configuration.Webhooks[0].ClientConfig.CABundle
}

func TestWebhooksBehindAService(t *testing.T) {
	t.Parallel()
	s := newServiceTest(t)
	var err error
	require.True(t, waitUntil(func() bool { // the operator is not there yet
		err = s.submit()
		return err != nil && strings.Contains(err.Error(), "connection refused")
	}), "%v", err)
	_, err = s.typed.CoreV1().Pods(s.namespace).Create(t.Context(), podWith(map[string]string{"watch.fescue.dev/inject": "log"}), metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, s.bundle())

	s.start(append(s.flags, "--leader-elect")...)
	s.awaitRefusal()
	// The certificate is for the name of the Service.
	trusted := x509.NewCertPool()
	require.True(t, trusted.AppendCertsFromPEM(s.bundle()))
	connection, err := (&tls.Dialer{Config: &tls.Config{RootCAs: trusted, ServerName: s.host}}).DialContext(t.Context(), "tcp", s.address)
	require.NoError(t, err)
	require.NoError(t, connection.Close())
}

// A certificate that others make is served, and its authority registered, also when they are
// replaced.
func TestWebhooksWithACertificateOfFiles(t *testing.T) {
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
	s.awaitRefusal()
	require.Equal(t, first, s.bundle())
	_, err := s.typed.CoreV1().Secrets(s.namespace).Get(t.Context(), defaultSecret, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "none is made then")

	second := write()
	require.Eventually(t, func() bool { return bytes.Equal(s.bundle(), second) }, timeout, poll)
	s.awaitRefusal()
}

// With --webhook-client-ca only those are answered who have a certificate of that authority.
func TestWebhooksKnowTheirClients(t *testing.T) {
	t.Parallel()
	s := newServiceTest(t)
	client, text := clientCertificate(t)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authority, text, 0o600))
	s.start(append(s.flags, "--webhook-client-ca", authority)...)
	require.Eventually(t, func() bool { return len(s.bundle()) > 0 }, timeout, poll)

	object, err := json.Marshal(map[string]any{
		"apiVersion": "fences.example.com/v1", "kind": "Fence", "metadata": map[string]any{"name": "a", "namespace": s.namespace}, "spec": map[string]any{"colour": "white"},
	})
	require.NoError(t, err)
	review, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: s.namespace, Name: "a",
			Kind:     metav1.GroupVersionKind{Group: fences.Group, Version: fences.Version, Kind: "Fence"},
			Resource: metav1.GroupVersionResource{Group: fences.Group, Version: fences.Version, Resource: fences.Resource},
			UserInfo: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters"}},
			Object:   runtime.RawExtension{Raw: object},
		},
	})
	require.NoError(t, err)
	ask := func(certificates ...tls.Certificate) (*admissionv1.AdmissionReview, error) {
		trusted := x509.NewCertPool()
		require.True(t, trusted.AppendCertsFromPEM(s.bundle()))
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: s.host, Certificates: certificates}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.address+admission.ValidatePath, bytes.NewReader(review))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return nil, err
		}
		defer func() { _ = response.Body.Close() }()
		answer := &admissionv1.AdmissionReview{}
		return answer, json.NewDecoder(response.Body).Decode(answer)
	}
	answer, err := ask(client)
	require.NoError(t, err)
	require.NotNil(t, answer.Response)
	require.True(t, answer.Response.Allowed, "%v", answer.Response.Result)
	_, err = ask()
	require.ErrorContains(t, err, "certificate required")
	stranger, _ := clientCertificate(t)
	_, err = ask(stranger)
	require.Error(t, err)
	// The API server of the control plane has none, and is told so.
	require.True(t, waitUntil(func() bool { err = s.submit(); return err != nil && !apierrors.IsInvalid(err) }))
	require.ErrorContains(t, err, "certificate required")
}

// clientCertificate is one that is its own authority.
func clientCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
