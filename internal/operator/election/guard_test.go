package election

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// guardedServer is a server, and a client of it that is guarded by a Lease.
type guardedServer struct {
	client  *http.Client
	url     string
	left    atomic.Int64
	lose    context.CancelCauseFunc
	arrived chan *http.Request // requests whose body was read
}

func newGuardedServer(t *testing.T, http2 bool) *guardedServer {
	t.Helper()
	s := &guardedServer{arrived: make(chan *http.Request, 9)}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := http.NewResponseController(w)
		_ = answer.EnableFullDuplex() // HTTP/2 always is
		_ = answer.Flush()
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			s.arrived <- r
		}
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	lost, lose := context.WithCancelCause(t.Context())
	s.url, s.lose = server.URL, lose
	s.left.Store(int64(time.Hour))
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	guardedConfig, err := guarded(lost, config, func() time.Duration { return time.Duration(s.left.Load()) })
	require.NoError(t, err)
	s.client, err = rest.HTTPClientFor(guardedConfig)
	require.NoError(t, err)
	return s
}

func (s *guardedServer) send(t *testing.T, method string, body io.Reader) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url, body)
	require.NoError(t, err)
	return s.client.Do(request)
}

// Once the Leases may not be relied on, nothing that changes something leaves the process.
func TestGuard(t *testing.T) {
	t.Parallel()
	s := newGuardedServer(t, true)
	send := func(method string) error {
		response, err := s.send(t, method, strings.NewReader("{}"))
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			require.NoError(t, response.Body.Close())
		}
		return err
	}
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		require.NoError(t, send(method))
		require.Equal(t, method, (<-s.arrived).Method)
	}
	s.left.Store(0)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		require.ErrorIs(t, send(method), ErrLeaseLost)
	}
	require.NoError(t, send(http.MethodGet), "reading is harmless")
	require.Equal(t, http.MethodGet, (<-s.arrived).Method)
	require.Empty(t, s.arrived)
}

// A request that has begun does not continue: neither one that still has something to send when the
// process notices, nor one that waits for its answer.
func TestGuardStopsWhatHasBegun(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newGuardedServer(t, http2)
			reading, writing := io.Pipe()
			response, err := s.send(t, http.MethodPost, reading)
			require.NoError(t, err)
			defer func() { _ = response.Body.Close() }()
			s.left.Store(0)
			_, _ = writing.Write([]byte("{}"))
			require.NoError(t, writing.Close())
			_, err = io.Copy(io.Discard, response.Body)
			require.Error(t, err)
			require.Empty(t, s.arrived)
		})
	}
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		t.Cleanup(hanging.Close)
		lost, lose := context.WithCancelCause(t.Context())
		config, err := guarded(lost, &rest.Config{Host: hanging.URL}, func() time.Duration { return time.Hour })
		require.NoError(t, err)
		client, err := rest.HTTPClientFor(config)
		require.NoError(t, err)
		time.AfterFunc(10*time.Millisecond, func() { lose(ErrLeaseLost) })
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hanging.URL, nil)
		require.NoError(t, err)
		_, err = client.Do(request) //nolint:bodyclose // there is no answer
		require.ErrorIs(t, err, ErrLeaseLost)
	})
}
