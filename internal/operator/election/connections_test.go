package election

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// Requests that change something share a few connections, which reads and watches do not use.
func TestConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config, err := alone{}.Guard(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	send := func(method string) (address string) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		require.Equal(t, 2, response.ProtoMajor)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return string(text)
	}
	reads, writes := make(map[string]int), make(map[string]int)
	for range 3 * connections {
		reads[send(http.MethodGet)]++
		writes[send(http.MethodPatch)]++
	}
	require.Len(t, reads, 1)
	require.Len(t, writes, connections)
	for address, requests := range writes {
		require.Equal(t, 3, requests)
		require.NotContains(t, reads, address)
	}
}
