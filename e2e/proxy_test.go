package e2e

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// proxy stands between an operator and the API server. It forwards tokens, counts requests, and can
// be cut. It calls afterWrite when the API server has answered a write and the operator does not
// know it yet.
type proxy struct {
	url        string
	server     *http.Server
	handler    http.Handler
	address    string
	requests   requestLog
	writes     atomic.Int64
	afterWrite atomic.Pointer[func(n int64)]
	// answered is called with each answer, and must leave its body readable.
	answered atomic.Pointer[func(r *http.Response)]
	// failing returns the status code to answer a request with instead of forwarding it; 0 forwards it.
	failing atomic.Pointer[func(r *http.Request) int]
}

func newProxy(t *testing.T, config *rest.Config) *proxy {
	t.Helper()
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	require.NoError(t, err)
	p := &proxy{}
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1, // a watch is a response that never ends
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept-Encoding", "identity") // hooks read the answers
			p.requests.add(r.In)
		},
		ErrorLog: log.New(io.Discard, "", 0), // errors of operators that are killed
		ModifyResponse: func(r *http.Response) error {
			if hook := p.answered.Load(); hook != nil { //nolint:bodyclose // the proxy does
				(*hook)(r)
			}
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 && !strings.Contains(r.Request.URL.Path, "customresourcedefinitions") && !strings.Contains(r.Request.URL.Path, "selfsubject") {
				n := p.writes.Add(1)
				if hook := p.afterWrite.Load(); hook != nil {
					(*hook)(n)
				}
			}
			return nil
		},
	}
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hook := p.failing.Load(); hook != nil {
			if code := (*hook)(r); code != 0 {
				w.WriteHeader(code)
				return
			}
		}
		// The API server may reject a request before it has read the body, and the client then
		// sends no more of it. ReverseProxy would wait for the rest, and the client for the end of
		// the answer (golang.org/issue/80085).
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	})
	p.listen(t, testcluster.FreePort(t, "127.0.0.1")) // that mend finds free again
	t.Cleanup(p.cut)
	return p
}

// listen begins to listen at an address. A former listener there is closed, but a process that another test has just forked has its
// descriptor until it becomes the operator.
func (p *proxy) listen(t *testing.T, address string) {
	var listener net.Listener
	var err error
	testcluster.WaitUntil(func() bool {
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	require.NoError(t, err)
	p.address = listener.Addr().String()
	p.url = "https://" + p.address
	p.server = &http.Server{
		Handler: p.handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{proxyCertificate().pair}},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }()
}

// through returns config with the proxy instead of the API server. The proxy uses TLS, because
// clients send no token without it.
func (p *proxy) through(config *rest.Config) *rest.Config {
	return &rest.Config{Host: p.url, BearerToken: config.BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: proxyCertificate().authority}}
}

type servingPair struct {
	pair      tls.Certificate
	authority []byte
}

// proxyCertificate is the certificate of all proxies.
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

// cut breaks all connections and accepts no new ones, until mend.
func (p *proxy) cut() { _ = p.server.Close() }

func (p *proxy) mend(t *testing.T) { p.listen(t, p.address) }

// requestLog records all requests except watches, and the checks of rights that each start makes in
// the background.
type requestLog struct {
	mu   sync.Mutex
	list []string
}

func (l *requestLog) add(r *http.Request) {
	if r.URL.Query().Get("watch") == "true" || strings.Contains(r.URL.Path, "selfsubjectaccessreviews") {
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

// requestPaths returns the requests without their queries.
func (c *cluster) requestPaths() []string {
	var paths []string
	for _, request := range c.proxy.requests.all() {
		path, _, _ := strings.Cut(request, "?")
		paths = append(paths, path)
	}
	return paths
}
