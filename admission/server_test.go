package admission

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

const validAt = `{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a"},"spec":{"schedule":"2030-01-01T00:00:00Z","command":"echo hello"}}`

// injectorFunc is an Injector.
type injectorFunc func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error)

func (f injectorFunc) Inject(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, []string, error) {
	return f(ctx, r)
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	request := requestFor(t, at, validAt, "")

	code, response := server.post(t, DefaultPath, reviewOf(t, request))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, request.UID, response.UID)
	require.JSONEq(t, `[{"op":"add","path":"/spec/image","value":"busybox:1.37"}]`, string(response.Patch))

	code, response = server.post(t, ValidatePath, reviewOf(t, request))
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}, response)

	request.Object.Raw = []byte(strings.Replace(validAt, "2030-01-01", "2030-13-01", 1))
	code, response = server.post(t, ValidatePath, reviewOf(t, request))
	require.Equal(t, http.StatusOK, code)
	require.False(t, response.Allowed)
	require.Equal(t, `At.cnat.fescue.dev "a" is invalid: spec.schedule: Invalid value: "2030-13-01T00:00:00Z": must satisfy time.Time`, response.Result.Message)

	code, _ = server.post(t, InjectPath, reviewOf(t, request))
	require.Equal(t, http.StatusNotFound, code, "no injector is configured")
	require.NoError(t, server.stop())
}

func TestFailures(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	const uid = "6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11"
	with := func(change func(*admissionv1.AdmissionReview)) string {
		review := &admissionv1.AdmissionReview{TypeMeta: reviewType, Request: requestFor(t, at, validAt, "")}
		change(review)
		body, err := json.Marshal(review)
		require.NoError(t, err)
		return string(body)
	}
	for name, test := range map[string]struct {
		body    string
		code    int
		uid     types.UID
		message string
	}{
		"empty":          {"", 400, "", "request body: "},
		"not JSON":       {"x", 400, "", "request body: "},
		"cut off":        {`{"kind":"AdmissionReview","request":{"extra":[{}],"uid":"` + uid + `","kind":`, 400, uid, "request body: "},
		"too large":      {`{"request":{"uid":"` + uid + `","object":"` + strings.Repeat("x", maxBodyBytes) + `"}}`, 413, uid, "request body: must have at most 7340032 bytes"},
		"no request":     {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "", "request: Required value"},
		"no UID":         {with(func(r *admissionv1.AdmissionReview) { r.Request.UID = "" }), 400, "", "request.uid: Required value"},
		"an old version": {with(func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }), 400, uid, `request body: apiVersion "admission.k8s.io/v1beta1", kind "AdmissionReview": must be admission.k8s.io/v1, AdmissionReview`},
		"a foreign kind": {with(func(r *admissionv1.AdmissionReview) {
			r.Request.Kind = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
		}), 404, uid, "request.kind: v1 Pod is not a kind that this server knows"},
		"no object":         {with(func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = nil }), 400, uid, "request.object: "},
		"an object of text": {with(func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = []byte(`"x"`) }), 400, uid, "request.object: "},
		"no old object":     {with(func(r *admissionv1.AdmissionReview) { r.Request.Operation = admissionv1.Update }), 400, uid, "request.oldObject: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{DefaultPath, ValidatePath} {
				code, response := server.post(t, path, []byte(test.body))
				require.Equal(t, test.code, code)
				require.Equal(t, test.uid, response.UID)
				require.False(t, response.Allowed)
				require.EqualValues(t, test.code, response.Result.Code)
				require.Contains(t, response.Result.Message, test.message)
			}
		})
	}
}

// A body without a Content-Length is limited as well.
func TestTooLargeInChunks(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	body := `{"request":{"uid":"u","object":"` + strings.Repeat("x", maxBodyBytes) + `"}}`
	answer, err := server.send(t, http.MethodPost, ValidatePath, "application/json", io.MultiReader(strings.NewReader(body)))
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
	require.Equal(t, types.UID("u"), answer.review.UID)
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	for name, test := range map[string]struct {
		method, path, contentType string
		code                      int
	}{
		"method":       {http.MethodGet, ValidatePath, "application/json", http.StatusMethodNotAllowed},
		"content type": {http.MethodPost, ValidatePath, "application/yaml", http.StatusUnsupportedMediaType},
		"none":         {http.MethodPost, ValidatePath, "", http.StatusUnsupportedMediaType},
		"charset":      {http.MethodPost, ValidatePath, "application/json; charset=utf-8", http.StatusBadRequest},
		"path":         {http.MethodPost, "/", "application/json", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := server.send(t, test.method, test.path, test.contentType, strings.NewReader(`{"request":{"uid":"u"}}`))
			require.NoError(t, err)
			require.Equal(t, test.code, answer.StatusCode)
			require.Equal(t, types.UID("u"), answer.review.UID)
		})
	}
}

func TestInjectorAnswers(t *testing.T) {
	t.Parallel()
	metrics := prometheus.NewRegistry()
	next := make(chan injectorFunc, 1)
	server := serve(t, Config{Metrics: metrics, Injector: injectorFunc(func(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, []string, error) {
		return (<-next)(ctx, r)
	})})
	at := kindtest.Named(t, kindtest.Shipped(t), "At")
	body := reviewOf(t, requestFor(t, at, validAt, ""))

	next <- func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
		return []byte(`[]`), []string{"not all"}, nil
	}
	code, response := server.post(t, InjectPath, body)
	require.Equal(t, http.StatusOK, code)
	require.True(t, response.Allowed)
	require.Equal(t, `[]`, string(response.Patch))
	require.Equal(t, []string{"not all"}, response.Warnings)

	next <- func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
		return nil, nil, errors.New("broken")
	}
	code, response = server.post(t, InjectPath, body)
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, "broken", response.Result.Message)

	next <- func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) { panic("boom") }
	code, response = server.post(t, InjectPath, body)
	require.Equal(t, http.StatusInternalServerError, code)
	require.Equal(t, types.UID("6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11"), response.UID)
	require.Equal(t, "panic: boom [recovered]", response.Result.Message)

	requireMetrics(t, metrics, `
# HELP controller_runtime_webhook_panics_total Panics in webhooks, which were recovered.
# TYPE controller_runtime_webhook_panics_total counter
controller_runtime_webhook_panics_total 1
# HELP controller_runtime_webhook_requests_in_flight Reviews that are being answered.
# TYPE controller_runtime_webhook_requests_in_flight gauge
controller_runtime_webhook_requests_in_flight{webhook="/default"} 0
controller_runtime_webhook_requests_in_flight{webhook="/inject"} 0
controller_runtime_webhook_requests_in_flight{webhook="/validate"} 0
# HELP controller_runtime_webhook_requests_total Reviews (admission and conversion) by HTTP status code.
# TYPE controller_runtime_webhook_requests_total counter
controller_runtime_webhook_requests_total{code="200",webhook="/default"} 0
controller_runtime_webhook_requests_total{code="200",webhook="/inject"} 1
controller_runtime_webhook_requests_total{code="200",webhook="/validate"} 0
controller_runtime_webhook_requests_total{code="500",webhook="/default"} 0
controller_runtime_webhook_requests_total{code="500",webhook="/inject"} 2
controller_runtime_webhook_requests_total{code="500",webhook="/validate"} 0
`, "controller_runtime_webhook_panics_total", "controller_runtime_webhook_requests_in_flight", "controller_runtime_webhook_requests_total")
}

// Requests beyond the limit are answered with a request to retry.
func TestInFlight(t *testing.T) {
	t.Parallel()
	began, finish := make(chan struct{}), make(chan struct{})
	server := serve(t, Config{MaxInFlight: 1, Kinds: kindtest.Shipped(t), Injector: injectorFunc(func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
		close(began)
		<-finish
		return nil, nil, nil
	})})
	body := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
	first := make(chan int, 1)
	go func() {
		response, err := server.client.Post(server.url+InjectPath, "application/json", bytes.NewReader(body))
		if err != nil {
			first <- 0
			return
		}
		_ = response.Body.Close()
		first <- response.StatusCode
	}()
	<-began
	second, err := server.send(t, http.MethodPost, InjectPath, "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, second.StatusCode)
	require.Equal(t, "1", second.Header.Get("Retry-After"))
	require.Equal(t, types.UID("6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11"), second.review.UID)
	code, response := server.post(t, ValidatePath, body)
	require.Equal(t, http.StatusOK, code)
	require.True(t, response.Allowed, "Pods keep no object waiting")

	// Stopping accepts no new connection and waits for the running request.
	stopped := make(chan error, 1)
	go func() { stopped <- server.stop() }()
	require.Eventually(t, func() bool {
		connection, err := net.Dial("tcp", strings.TrimPrefix(server.url, "https://"))
		if err == nil {
			_ = connection.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Empty(t, stopped)
	close(finish)
	require.Equal(t, http.StatusOK, <-first)
	require.NoError(t, <-stopped)
}

// With a prefix, a path is served with it and, for a proxy that removes it, without.
func TestPathPrefix(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t), PathPrefix: "/fescue/v1"})
	body := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
	for path, want := range map[string]int{
		ValidatePath: http.StatusOK, "/fescue/v1" + ValidatePath: http.StatusOK, "/fescue" + ValidatePath: http.StatusNotFound,
	} {
		code, _ := server.post(t, path, body)
		require.Equal(t, want, code, path)
	}
}

// A client that sends its body slowly does not block others.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{MaxInFlight: 1, Kinds: kindtest.Shipped(t)})
	connection := server.dial(t)
	began := time.Now()
	_, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", ValidatePath)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	require.Less(t, time.Since(began), maxTimeout)
	require.NoError(t, connection.Close())
	code, _ := server.post(t, ValidatePath, reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, "")))
	require.Equal(t, http.StatusOK, code)
}

// A connection that the API server opens and does not use at once stays open: the one request that it sends on it
// just then would fail, and a Pod would have no sidecar.
func TestUnusedConnection(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	connection := server.dial(t)
	require.NoError(t, connection.SetReadDeadline(time.Now().Add(bodyTimeout+time.Second)))
	_, err := connection.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the server closes it")
	require.NoError(t, connection.SetReadDeadline(time.Time{}))
	body := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", ValidatePath, len(body), body)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.NoError(t, connection.Close())
}

// After Leave, the server answers as before and closes each connection after the answer.
func TestLeave(t *testing.T) {
	t.Parallel()
	certificate, trusted := newCertificate(t)
	server, err := New(Config{Kinds: kindtest.Shipped(t), Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate, nil }})
	require.NoError(t, err)
	running := run(t, trusted, server.Serve)
	reused := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if c.Reused {
			reused++
		}
	}})
	send := func() {
		body := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, running.url+ValidatePath, strings.NewReader(string(body)))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		response, err := running.client.Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	send()
	send()
	require.Equal(t, 1, reused)
	server.Leave()
	send() // on the existing connection
	require.Equal(t, 2, reused)
	send()
	send()
	require.Equal(t, 2, reused)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	clientCertificate, clientCAs := newClientCertificate(t)
	for name, test := range map[string]struct {
		config    Config
		client    func(*tls.Config)
		rejected  bool
		version   uint16
		wantHTTP2 bool
	}{
		"1.3 by default":               {version: tls.VersionTLS13},
		"1.2 is rejected":              {client: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, rejected: true},
		"1.2 if asked for":             {config: Config{MinTLSVersion: tls.VersionTLS12}, client: func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, version: tls.VersionTLS12},
		"HTTP/2 if asked for":          {config: Config{HTTP2: true}, version: tls.VersionTLS13, wantHTTP2: true},
		"no certificate of the client": {config: Config{ClientCAs: clientCAs}, rejected: true},
		"a certificate of the client":  {config: Config{ClientCAs: clientCAs}, client: func(c *tls.Config) { c.Certificates = []tls.Certificate{clientCertificate} }, version: tls.VersionTLS13},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.config.Kinds = kindtest.Shipped(t)
			server := serve(t, test.config)
			if test.client != nil {
				test.client(server.client.Transport.(*http.Transport).TLSClientConfig)
			}
			answer, err := server.send(t, http.MethodPost, ValidatePath, "application/json", strings.NewReader("{}"))
			if test.rejected {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.version, answer.TLS.Version)
			require.Equal(t, test.wantHTTP2, answer.ProtoMajor == 2)
		})
	}
}

// newClientCertificate returns a certificate for a client and the authority to trust.
func newClientCertificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	authority, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	trusted := x509.NewCertPool()
	trusted.AddCert(authority)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trusted
}
