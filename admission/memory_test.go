package admission

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// Bodies that are announced, or sent in part, take no more memory than their budget and what was
// received, and other requests are answered meanwhile. Not parallel: it measures the heap.
func TestMemoryOfUnfinishedBodies(t *testing.T) {
	for name, test := range map[string]struct {
		http2              bool
		requests, received int
		growth             uint64 // in bytes, of server and clients together
	}{
		"announced":             {requests: 450, received: 1, growth: 64 << 20},
		"announced over HTTP/2": {http2: true, requests: 450, received: 1, growth: 64 << 20},
		"all but the end":       {requests: 40, received: maxBodyBytes - 1, growth: bodyBudget + 96<<20},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, Config{Kinds: kindtest.Shipped(t), HTTP2: test.http2})
			before := heap()
			require.NoError(t, attack(t.Context(), server, test.requests, test.received))
			review := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
			for range 50 {
				code, answer := server.post(t, ValidatePath, review)
				require.Equal(t, http.StatusOK, code)
				require.True(t, answer.Allowed)
			}
			after := heap()
			require.Less(t, max(after, before)-before, test.growth)
		})
	}
}

// heap returns the size of all live objects in bytes.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// attack begins requests that announce a body of maxBodyBytes each and send the first bytes, one
// after the other, so that a slow machine sends each in time. It returns when each has sent its
// first bytes or was rejected, and fails if all were rejected. The requests end with ctx.
func attack(ctx context.Context, on *running, requests, bytesEach int) error {
	transport := on.client.Transport.(*http.Transport).Clone()
	context.AfterFunc(ctx, transport.CloseIdleConnections)
	piece := bytes.Repeat([]byte(" "), 64<<10)
	rejected := 0
	for range requests {
		body, w := io.Pipe()
		go func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, on.url+ValidatePath, body)
			if err == nil {
				request.ContentLength = maxBodyBytes
				request.Header.Set("Content-Type", "application/json")
				var response *http.Response
				if response, err = transport.RoundTrip(request); err == nil {
					_ = response.Body.Close()
				}
			}
			_ = body.CloseWithError(errors.New("the request has ended"))
		}()
		for left := bytesEach; left > 0; {
			n, err := w.Write(piece[:min(left, len(piece))])
			if left -= n; err != nil {
				rejected++
				break
			}
		}
	}
	if rejected == requests {
		return errors.New("all were rejected")
	}
	return nil
}

// A client that opens connections without using them does not keep others out.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	const limit = 20
	server := serve(t, Config{Kinds: kindtest.Shipped(t), MaxConnections: limit})
	review := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
	trusted := server.client.Transport.(*http.Transport).TLSClientConfig
	var idle []net.Conn
	for i := range 3 * limit {
		connection, err := tls.Dial("tcp", strings.TrimPrefix(server.url, "https://"), trusted)
		require.NoError(t, err)
		idle = append(idle, connection)
		if i%3 == 0 {
			code, _ := server.post(t, ValidatePath, review) // on one connection, which stays
			require.Equal(t, http.StatusOK, code)
		}
	}
	answered := func(connection net.Conn) bool {
		_, _ = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", ValidatePath, len(review), review)
		answer, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil && answer.StatusCode == http.StatusOK
	}
	left := len(idle) - (limit/sources - 1) // the client has one of its own
	for i, connection := range idle {
		require.Equal(t, i >= left, answered(connection), "connection %d of %d", i, len(idle))
	}
	for _, connection := range idle {
		_ = connection.Close()
	}
}

// A review with very many values is rejected before it is decoded, because maps of them take fifty
// times the memory of their text.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	server := serve(t, Config{Kinds: kindtest.Shipped(t)})
	body := `{"request":{"uid":"u","object":{"spec":[` + strings.Repeat(`{"":0},`, maxValues/2) + `0]}}}`
	code, answer := server.post(t, ValidatePath, []byte(body))
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.EqualValues(t, "u", answer.UID)
	require.Equal(t, "request body: has 200006 values: must have at most 200000", answer.Result.Message)
}
