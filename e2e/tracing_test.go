package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// collector receives traces like an OpenTelemetry collector.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	all   []*span
	about map[string]string // attributes of the process
}

// span is a span with its attributes and IDs as text, and the name of its service.
type span struct {
	*tracev1.Span
	service           string
	trace, id, parent string
	attributes        map[string]string
}

func newCollector(t *testing.T, options ...grpc.ServerOption) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newCollectorAt(t, listener, options...)
}

func newCollectorAt(t *testing.T, listener net.Listener, options ...grpc.ServerOption) *collector {
	t.Helper()
	c := &collector{address: listener.Addr().String(), about: make(map[string]string)}
	server := grpc.NewServer(options...)
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c
}

// env makes an operator send its spans at once and not every five seconds.
func (c *collector) env() []string { return []string{"OTEL_BSP_SCHEDULE_DELAY=50"} }

// Export implements the service of OTLP.
func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, from := range request.GetResourceSpans() {
		for _, a := range from.GetResource().GetAttributes() {
			c.about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range from.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				attributes := make(map[string]string)
				for _, a := range s.GetAttributes() {
					attributes[a.GetKey()] = a.GetValue().GetStringValue()
				}
				c.all = append(c.all, &span{s, c.about["service.name"], hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), attributes})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// await waits for a span and returns it.
func (c *collector) await(t *testing.T, what string, matches func(*span) bool) *span {
	t.Helper()
	var found *span
	require.Eventually(t, func() bool {
		for _, s := range c.spans() {
			if matches(s) {
				found = s
			}
		}
		return found != nil
	}, testcluster.Timeout, testcluster.Poll, "no span: %s", what)
	return found
}

func (c *collector) spans() []*span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*span(nil), c.all...)
}

// resource returns an attribute of the process.
func (c *collector) resource(attribute string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.about[attribute]
}

// traceparents are the headers with the trace of each request.
type traceparents struct {
	mu        sync.Mutex
	byRequest map[string][]string
}

// watch records the headers of all requests through a proxy.
func (p *traceparents) watch(through *proxy) {
	p.byRequest = make(map[string][]string)
	through.answered.Store(new(func(answer *http.Response) {
		p.mu.Lock()
		defer p.mu.Unlock()
		r := answer.Request
		request := r.Method + " " + r.URL.Path
		p.byRequest[request] = append(p.byRequest[request], r.Header.Get("Traceparent"))
	}))
}

func (p *traceparents) of(request string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.byRequest[request]...)
}

// header returns the header of https://www.w3.org/TR/trace-context/ for a sampled span.
func (s *span) header() string { return "00-" + s.trace + "-" + s.id + "-01" }

// A reconcile is a trace, its writes are spans of it, and their requests have the spans as headers.
func TestTracesOfReconciles(t *testing.T) {
	t.Parallel()
	traces, c := newCollector(t), newCluster(t)
	var requests traceparents
	requests.watch(c.proxy)
	c.env = traces.env()
	o := c.start("--tracing-endpoint", traces.address)
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")

	const controller = "ats.cnat.fescue.dev"
	created := traces.await(t, "the creation of the Pod", func(s *span) bool { return s.GetName() == "create pods" })
	require.Equal(t, map[string]string{"verb": "create", "resource": "pods", "namespace": c.namespace, "name": "a-pod", "result": "done"}, created.attributes)
	reconcile := traces.await(t, "its reconcile", func(s *span) bool { return s.id == created.parent })
	require.Equal(t, "reconcile "+controller, reconcile.GetName())
	require.Empty(t, reconcile.parent)
	require.Equal(t, created.trace, reconcile.trace)
	require.Subset(t, reconcile.attributes, map[string]string{"controller": controller, "namespace": c.namespace, "name": "a"})
	require.Contains(t, []string{"success", "requeue_after"}, reconcile.attributes["result"])
	written := traces.await(t, "the write of its status", func(s *span) bool {
		return s.GetName() == "update ats/status.cnat.fescue.dev" && s.parent == reconcile.id
	})
	released := traces.await(t, "the removal of its finalizer", func(s *span) bool { return s.GetName() == "release pods" })
	require.NotEqual(t, created.trace, released.trace, "the Pod is released when it has ended")
	require.Equal(t, []string{created.header()}, requests.of("POST /api/v1/namespaces/"+c.namespace+"/pods"))
	require.Equal(t, []string{released.header()}, requests.of("PATCH /api/v1/namespaces/"+c.namespace+"/pods/a-pod"))
	require.Contains(t, requests.of("PUT /apis/cnat.fescue.dev/v1alpha1/namespaces/"+c.namespace+"/ats/a/status"), written.header())
	require.NotContains(t, strings.Join(requests.of("GET /apis/cnat.fescue.dev/v1alpha1/namespaces/"+c.namespace+"/ats"), ""), "-", "a watch belongs to no reconcile")
	require.Equal(t, "fescue", traces.resource("service.name"))

	// A rejected write has its reason, and a stop sends the remaining spans.
	c.create(pods, "Pod", "b-pod", map[string]any{"spec": sleeping("c")})
	c.createAt("b", longAgo, "echo")
	rejected := traces.await(t, "a rejected write", func(s *span) bool { return s.attributes["result"] == "rejected" })
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, rejected.GetStatus().GetCode())
	require.Contains(t, rejected.GetStatus().GetMessage(), `pods "b-pod" exists and was not created for this object`)
	require.Len(t, rejected.GetEvents(), 1, "the error is recorded")
	require.Zero(t, o.stop())
	require.NotContains(t, o.log.String(), "traces are lost")
}

// The environment can turn traces on and configure TLS, which an https endpoint always uses. The
// operator works without its collector.
func TestTracingEnvironment(t *testing.T) {
	t.Parallel()
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, certificate, 0o600))
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	traces, c := newCollector(t, grpc.Creds(credentials.NewServerTLSFromCert(&pair))), newCluster(t)
	c.env = append(traces.env(), "OTEL_EXPORTER_OTLP_ENDPOINT=https://"+traces.address, "OTEL_EXPORTER_OTLP_TIMEOUT=1000")
	o := c.start()
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")
	o.awaitLog("certificate signed by unknown authority")
	require.Empty(t, traces.spans())
	o.kill()

	c.env = append(c.env, "OTEL_EXPORTER_OTLP_CERTIFICATE="+file, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=test")
	c.start()
	c.createAt("b", longAgo, "echo")
	c.awaitPhase("b", "DONE")
	traces.await(t, "any span", func(*span) bool { return true })
	require.Equal(t, "test", traces.resource("deployment.environment"))
}

// A review joins the trace in the request of the API server, and so do its own requests.
func (w *webhookTest) traces(t *testing.T) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	var requests traceparents
	requests.watch(w.proxy)
	defer w.proxy.answered.Store(nil)
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"` + w.namespace + `","name":"traced",
		"kind":{"group":"fences.example.com","version":"v1","kind":"Fence"},"resource":{"group":"fences.example.com","version":"v1","resource":"fences"},
		"userInfo":{"username":"someone"},
		"object":{"apiVersion":"fences.example.com/v1","kind":"Fence","metadata":{"name":"traced","namespace":"` + w.namespace + `"},"spec":{"colour":"green"}}}}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+admission.ValidatePath, bytes.NewReader([]byte(review)))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+trace+"-"+parent+"-01")
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, string(body), string(metav1.StatusReasonForbidden), "the user may not create ConfigMaps")

	reviewed := w.spans.await(t, "the review", func(s *span) bool { return s.trace == trace })
	require.Equal(t, parent, reviewed.parent)
	require.Equal(t, "review /validate", reviewed.GetName())
	require.Subset(t, reviewed.attributes, map[string]string{
		"operation": "CREATE", "resource": "fences.fences.example.com", "namespace": w.namespace, "name": "traced", "outcome": "rejected",
	})
	require.Contains(t, requests.of("POST /apis/authorization.k8s.io/v1/subjectaccessreviews"), reviewed.header())
}

// The spans of the API server and of the operator are one trace when a client starts one.
func (w *webhookTest) tracesOfTheAPIServer(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	listener, err := net.Listen("unix", filepath.Join(os.Getenv("DEVCLUSTER_DIR"), "otlp.sock"))
	require.NoError(t, err)
	server := newCollectorAt(t, listener)
	config := testcluster.Config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			r = r.Clone(r.Context())
			r.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
			return next.RoundTrip(r)
		})
	})
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	_, err = w.createBy(client, fences, "Fence", "traced", map[string]any{}, dryRun)
	require.NoError(t, err)

	for _, path := range []string{admission.DefaultPath, admission.ValidatePath} {
		reviewed := w.spans.await(t, path, func(s *span) bool { return s.trace == trace && s.GetName() == "review "+path })
		require.Equal(t, "fescue", reviewed.service)
		called := server.await(t, "the call of "+path, func(s *span) bool { return s.id == reviewed.parent })
		require.Equal(t, trace, called.trace)
		require.Equal(t, "apiserver", called.service)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
