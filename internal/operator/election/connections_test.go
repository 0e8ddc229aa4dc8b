package election

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// Requests that change something use as many connections as their number demands, and none that is used by
// reads and watches.
func TestConnections(t *testing.T) {
	t.Parallel()
	arrived, answer := make(chan bool), make(chan bool)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			arrived <- true
			<-answer
		}
		_, _ = io.WriteString(w, r.RemoteAddr)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	config, err := alone{}.Guard(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	send := func(method string) (address string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		return response.Proto + " " + string(text), err
	}
	reads, err := send(http.MethodGet)
	require.NoError(t, err)
	require.Contains(t, reads, "HTTP/2.0 ")
	// writes returns how many of n requests that are in flight together each connection has.
	writes := func(n int) map[string]int {
		type result struct {
			address string
			err     error
		}
		results := make(chan result)
		for range n {
			go func() {
				address, err := send(http.MethodPatch)
				results <- result{address, err}
			}()
			<-arrived
		}
		by := make(map[string]int)
		for range n {
			answer <- true
		}
		for range n {
			r := <-results
			require.NoError(t, r.err)
			by[r.address]++
		}
		return by
	}
	require.Equal(t, []int{full}, slices.Collect(maps.Values(writes(full))))
	require.ElementsMatch(t, []int{full, 1}, slices.Collect(maps.Values(writes(full+1))))
	all := writes(connections * (full + 1))
	require.Len(t, all, connections)
	for address, requests := range all {
		require.Equal(t, full+1, requests)
		require.NotEqual(t, reads, address)
	}
}
