package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

var (
	ats  = schema.GroupVersionResource{Group: "cnat.fescue.dev", Version: "v1alpha1", Resource: "ats"}
	pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// cluster is a namespace of the control plane, and a way to the API server for the
// operator of a test that can be watched and cut.
type cluster struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
	proxy     *proxy
	// env is added to the environment of operators.
	env []string
	// types name the resources of children, as --type of fescue manifests.
	types []string
	// keepCRDs leaves the CRDs that a test has installed itself.
	keepCRDs bool
	// prepared says for which flags config has the rights.
	prepared string
	config   *rest.Config
	granted  []*unstructured.Unstructured
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := testcluster.Config(t)
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	return &cluster{t: t, client: client, namespace: testcluster.Namespace(t), proxy: newProxy(t, config)}
}

// operator is a running process of the program itself.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  *syncedBuffer
	done chan struct{}
}

// start runs `fescue run` for the namespace and returns when it is ready.
func (c *cluster) start(args ...string) *process {
	c.t.Helper()
	o := c.launch(args...)
	o.awaitReady()
	return o
}

// launch starts it without waiting for anything. Operators act as the service account that
// `fescue manifests` prints, with its rights.
func (c *cluster) launch(args ...string) *process {
	c.t.Helper()
	c.prepare(args)
	return c.launchAs(c.proxy.through(c.config), args...)
}

// launchAs starts `fescue run` for the namespace with the server and the token of config.
func (c *cluster) launchAs(config *rest.Config, args ...string) *process {
	c.t.Helper()
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(c.t, kubeconfig, config, c.namespace)
	if !slices.Contains(args, "--health-listen") {
		args = append(args, "--health-listen", "127.0.0.1:0")
	}
	o := &process{t: c.t, log: &syncedBuffer{}, done: make(chan struct{})}
	o.cmd = exec.Command("fescue", append([]string{"run", "--kubeconfig", kubeconfig, "--namespace", c.namespace}, args...)...)
	o.cmd.Env = append(os.Environ(), c.env...)
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	require.NoError(c.t, o.cmd.Start())
	go func() {
		_ = o.cmd.Wait() // how it ended is in ProcessState
		close(o.done)
	}()
	c.t.Cleanup(func() {
		o.kill()
		if c.t.Failed() {
			c.t.Logf("operator's log:\n%s", o.log)
		}
	})
	return o
}

// awaitReady waits until /readyz succeeds, and fails if the operator ends first.
func (o *process) awaitReady() {
	o.t.Helper()
	ready := o.address("--health-listen") + "/readyz"
	require.True(o.t, testcluster.WaitUntil(func() bool {
		if o.hasEnded() {
			return true
		}
		response, err := http.Get(ready)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	}), "not ready")
	require.False(o.t, o.hasEnded(), "the operator has ended")
}

func (o *process) hasEnded() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// awaitLog waits until the operator has logged a text, and fails if it ends first.
func (o *process) awaitLog(text string) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		return o.hasEnded() || strings.Contains(o.log.String(), text)
	}, testcluster.Timeout, testcluster.Poll, "log has no %q", text)
	require.Contains(o.t, o.log.String(), text)
}

// kill ends the operator as a crash does.
func (o *process) kill() {
	_ = o.cmd.Process.Kill()
	<-o.done
}

// stop ends the operator as Kubernetes does and returns its exit code.
func (o *process) stop() int {
	require.NoError(o.t, o.cmd.Process.Signal(syscall.SIGTERM))
	<-o.done
	return o.cmd.ProcessState.ExitCode()
}

type syncedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// createAt creates an At in the namespace of the test.
func (c *cluster) createAt(name, schedule, command string) *unstructured.Unstructured {
	c.t.Helper()
	object, err := c.client.Resource(ats).Namespace(c.namespace).Create(c.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ats.GroupVersion().String(), "kind": "At",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"schedule": schedule, "command": command},
	}}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	return object
}

func (c *cluster) get(resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	return c.client.Resource(resource).Namespace(c.namespace).Get(context.Background(), name, metav1.GetOptions{})
}

// await waits until an object satisfies a condition and returns it.
func (c *cluster) await(resource schema.GroupVersionResource, name, what string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	c.t.Helper()
	var last *unstructured.Unstructured
	if !testcluster.WaitUntil(func() bool {
		object, err := c.get(resource, name)
		last = object
		return err == nil && is(object)
	}) {
		require.FailNow(c.t, "not "+what, "%s %s: %v", resource.Resource, name, last)
	}
	return last
}

func (c *cluster) awaitPhase(name, phase string) *unstructured.Unstructured {
	c.t.Helper()
	return c.await(ats, name, "in phase "+phase, func(o *unstructured.Unstructured) bool { return phaseOf(o) == phase })
}

func phaseOf(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

// condition returns the status, reason and message of a condition of an object, all
// empty if it is not there.
func condition(object *unstructured.Unstructured, kind string) (status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, reason, message
}

// proxy stands between an operator and the API server. It passes on whose token it is
// given, counts requests, may be cut, and calls afterWrite when the API server has answered a write and the operator does
// not know it yet.
type proxy struct {
	url        string
	server     *http.Server
	handler    http.Handler
	address    string
	requests   requestLog
	writes     atomic.Int64
	afterWrite atomic.Pointer[func(n int64)]
	// answered is called with each answer, whose body it must leave readable.
	answered atomic.Pointer[func(r *http.Response)]
}

func newProxy(t *testing.T, config *rest.Config) *proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(t, err)
	p := &proxy{}
	p.handler = &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch is a response that never ends
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.requests.add(r.In)
		},
		ErrorLog: log.New(io.Discard, "", 0), // of operators that are killed
		ModifyResponse: func(r *http.Response) error {
			if hook := p.answered.Load(); hook != nil { //nolint:bodyclose // the proxy does
				(*hook)(r)
			}
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 && !strings.Contains(r.Request.URL.Path, "customresourcedefinitions") && !strings.Contains(r.Request.URL.Path, "selfsubjectaccessreviews") {
				n := p.writes.Add(1)
				if hook := p.afterWrite.Load(); hook != nil {
					(*hook)(n)
				}
			}
			return nil
		},
	}
	p.listen(t, "127.0.0.1:0")
	t.Cleanup(p.cut)
	return p
}

func (p *proxy) listen(t *testing.T, address string) {
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	p.address = listener.Addr().String()
	p.url = "https://" + p.address
	p.server = &http.Server{
		Handler: p.handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{proxyCertificate().pair}},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
}

// through is config with the proxy in the place of the API server. It speaks TLS, without
// which clients send no token.
func (p *proxy) through(config *rest.Config) *rest.Config {
	return &rest.Config{Host: p.url, BearerToken: config.BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: proxyCertificate().authority}}
}

type servingPair struct {
	pair      tls.Certificate
	authority []byte
}

// proxyCertificate is that of all proxies of this run.
var proxyCertificate = sync.OnceValue(func() servingPair {
	chain, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		panic(err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		panic(err)
	}
	return servingPair{pair, chain}
})

// cut breaks all connections and refuses new ones, until mend.
func (p *proxy) cut() { _ = p.server.Close() }

func (p *proxy) mend(t *testing.T) { p.listen(t, p.address) }

// requestLog lists the requests that are no watches.
type requestLog struct {
	mu   sync.Mutex
	list []string
}

func (l *requestLog) add(r *http.Request) {
	if r.URL.Query().Get("watch") == "true" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r.Method+" "+r.URL.RequestURI())
}

func (l *requestLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}

func (l *requestLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.list...)
}
