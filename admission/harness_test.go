package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// fence is a kind whose objects create a ConfigMap.
func fence(tb testing.TB) *kind.Kind {
	tb.Helper()
	return kindtest.From(tb, fenceText)[0]
}

// injectingFence is a fence whose objects also inject their spec.pod.
func injectingFence(tb testing.TB) *kind.Kind {
	tb.Helper()
	return kindtest.From(tb, fenceText+`
#FenceController: {
	object!: #Fence
	inject: {
		annotation: "fences.example.com/inject"
		add: {if object.spec.pod != _|_ {object.spec.pod}}
	}
}
`)[0]
}

const fenceText = `package fence

import (
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
		place?: string @kube(immutable)
		paint?: string @kube(deprecated="use colour")
		posts?: [...{name!: string, height: *1 | int}]
		pod?: {...}    @kube(preserveUnknownFields)
	}
	status?: contract.#Status
}

#FenceController: contract.#Controller & {
	object!: #Fence
	names: plural: "fences"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: colour: object.spec.colour}
}
`

// running is a server on a loopback port and a client that trusts it.
type running struct {
	url    string
	client *http.Client
	stop   func() error
}

// serve starts a server with a certificate and, if config has none, a log.
func serve(tb testing.TB, config Config) *running {
	tb.Helper()
	certificate, trusted := newCertificate(tb)
	config.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	server, err := New(config)
	require.NoError(tb, err)
	return run(tb, trusted, server.Serve)
}

// run starts a server on a new listener.
func run(tb testing.TB, trusted *x509.CertPool, serve func(context.Context, net.Listener) error) *running {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener) }()
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: trusted},
		MaxIdleConnsPerHost: 1000, ForceAttemptHTTP2: true,
	}
	tb.Cleanup(func() { cancel(); transport.CloseIdleConnections() })
	return &running{
		url:    "https://" + listener.Addr().String(),
		client: &http.Client{Transport: transport, Timeout: time.Minute},
		stop:   func() error { cancel(); return <-ended },
	}
}

func newCertificate(tb testing.TB) (*tls.Certificate, *x509.CertPool) {
	tb.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(tb, err)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(tb, err)
	trusted := x509.NewCertPool()
	require.True(tb, trusted.AppendCertsFromPEM(certPEM))
	return &pair, trusted
}

// answer is an HTTP response, whose body must always be an AdmissionReview.
type answer struct {
	*http.Response
	review *admissionv1.AdmissionResponse
}

// dial opens a connection on which nothing was sent.
func (r *running) dial(tb testing.TB) *tls.Conn {
	tb.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), r.client.Transport.(*http.Transport).TLSClientConfig)
	require.NoError(tb, err)
	return connection
}

// post sends a body as the API server does, and returns the status code and the review.
func (r *running) post(tb testing.TB, path string, body []byte) (int, *admissionv1.AdmissionResponse) {
	tb.Helper()
	a, err := r.send(tb, http.MethodPost, path, "application/json", bytes.NewReader(body))
	require.NoError(tb, err)
	return a.StatusCode, a.review
}

// send sends any request; the test does not fail if it is not answered.
func (r *running) send(tb testing.TB, method, path, contentType string, body io.Reader) (*answer, error) {
	tb.Helper()
	request, err := http.NewRequest(method, r.url+path, body)
	require.NoError(tb, err)
	request.Header.Set("Content-Type", contentType)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(tb, err)
	return &answer{response, requireReview(tb, response.StatusCode, text)}, nil
}

// requireReview checks that a body is a valid answer.
func requireReview(tb testing.TB, code int, body []byte) *admissionv1.AdmissionResponse {
	tb.Helper()
	var review admissionv1.AdmissionReview
	require.NoError(tb, json.Unmarshal(body, &review), "%q", body)
	require.Equal(tb, reviewType, review.TypeMeta)
	require.NotNil(tb, review.Response)
	if !review.Response.Allowed {
		require.NotNil(tb, review.Response.Result, "a rejection must have a reason")
		require.GreaterOrEqual(tb, review.Response.Result.Code, int32(400))
		require.NotEmpty(tb, review.Response.Result.Message)
	}
	require.Equal(tb, code == http.StatusOK, code < 300)
	require.Equal(tb, review.Response.Patch != nil, review.Response.PatchType != nil)
	return review.Response
}

// requestFor returns a request to create an object, or to update old.
func requestFor(tb testing.TB, k *kind.Kind, object, old string) *admissionv1.AdmissionRequest {
	tb.Helper()
	request := &admissionv1.AdmissionRequest{
		UID:       "6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11",
		Operation: admissionv1.Create,
		Namespace: "default",
		Name:      "a",
		Resource:  metav1.GroupVersionResource(k.GroupVersionResource()),
		Kind:      metav1.GroupVersionKind(k.GroupVersionKind),
		UserInfo:  authenticationv1.UserInfo{Username: "ada", Groups: []string{"system:authenticated"}},
		Object:    runtime.RawExtension{Raw: []byte(object)},
	}
	var meta struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.Unmarshal([]byte(object), &meta) == nil {
		for _, version := range k.Versions {
			if version.GroupVersionKind.GroupVersion().String() == meta.APIVersion {
				request.Kind = metav1.GroupVersionKind(version.GroupVersionKind)
			}
		}
	}
	if old != "" {
		request.Operation, request.OldObject.Raw = admissionv1.Update, []byte(old)
	}
	return request
}

// reviewOf returns the body of a request.
func reviewOf(tb testing.TB, request *admissionv1.AdmissionRequest) []byte {
	tb.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: reviewType, Request: request})
	require.NoError(tb, err)
	return body
}

// requireMetrics waits until the metrics have these values: an answer reaches its client before it is counted.
func requireMetrics(t *testing.T, metrics prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, testutil.GatherAndCompare(metrics, strings.NewReader(want), names...))
	}, testcluster.Timeout, testcluster.Poll)
}
