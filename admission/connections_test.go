package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// dialled is a listener of connections from addresses.
type dialled struct {
	net.Listener
	next *dialledConn
}

func (l *dialled) Accept() (net.Conn, error) { return l.next, nil }

type dialledConn struct {
	net.Conn
	from     string
	isClosed bool
}

func (c *dialledConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1}
}

func (c *dialledConn) Close() error {
	c.isClosed = true
	return nil
}

// Of the connections beyond the limit, or beyond a quarter of it from one address, the one is closed that is the least
// useful.
func TestWhichConnectionIsClosed(t *testing.T) {
	t.Parallel()
	const attacker, apiserver = "10.0.0.1", "10.0.0.2"
	request := func(c *connection, isVerified bool) *http.Request {
		r := (&http.Request{}).WithContext(context.WithValue(t.Context(), connectionKey{}, c))
		r.TLS = &tls.ConnectionState{}
		if isVerified {
			r.TLS.VerifiedChains = append(r.TLS.VerifiedChains, nil)
		}
		return r
	}
	used := func(c *connection) { begin(request(c, false)).end(true) }
	rejected := func(c *connection) { begin(request(c, false)).end(false) }
	answering := func(c *connection) { begin(request(c, false)) }
	verified := func(c *connection) { begin(request(c, true)).end(true) }
	type opened struct {
		from string
		do   func(*connection)
	}
	nothing := func(*connection) {}
	many := func(n int, o opened) (all []opened) {
		for i := range n {
			if o.from == "" {
				all = append(all, opened{fmt.Sprintf("10.0.1.%d", i), o.do})
				continue
			}
			all = append(all, o)
		}
		return all
	}
	for name, test := range map[string]struct {
		opened []opened
		closed []int
	}{
		"up to the share": {many(4, opened{attacker, nothing}), nil},
		"beyond the share, the address's own": {
			append([]opened{{apiserver, nothing}}, many(6, opened{attacker, nothing})...), []int{1, 2},
		},
		"the least recently answered": {
			[]opened{{attacker, used}, {attacker, nothing}, {attacker, rejected}, {attacker, nothing}, {attacker, nothing}, {attacker, nothing}}, []int{0, 1},
		},
		"not while a request is answered": {
			append(many(4, opened{apiserver, answering}), opened{apiserver, nothing}, opened{apiserver, nothing}), []int{4},
		},
		"more than the share, if all are answered": {many(10, opened{apiserver, answering}), nil},
		"beyond the limit, the oldest": {
			append([]opened{{apiserver, answering}, {apiserver, nothing}}, many(16, opened{"", nothing})...), []int{1, 2},
		},
		"none with a certificate": {
			append([]opened{{apiserver, verified}}, many(17, opened{"", nothing})...), []int{1, 2},
		},
		"none with a certificate, also in its address": {
			append(many(6, opened{apiserver, verified}), opened{apiserver, nothing}, opened{apiserver, nothing}), []int{6},
		},
		"the new one, if all others are answered or verified": {
			append(append(many(8, opened{"", answering}), many(8, opened{"", verified})...), opened{apiserver, nothing}), []int{16},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := &dialled{}
			limited := newConnections(listener, 16)
			var all []*dialledConn
			var wrapped []*connection
			for _, o := range test.opened {
				listener.next = &dialledConn{from: o.from}
				all = append(all, listener.next)
				c, err := limited.Accept()
				require.NoError(t, err)
				wrapped = append(wrapped, c.(*connection))
				o.do(c.(*connection))
			}
			var closed []int
			for i, c := range all {
				if c.isClosed {
					closed = append(closed, i)
				}
			}
			require.Equal(t, test.closed, closed)
			for _, c := range wrapped {
				require.NoError(t, errors.Join(c.Close(), c.Close()))
			}
			require.Empty(t, limited.from)
			require.Zero(t, limited.byUse.Len())
		})
	}
}

// However many connections someone opens, a request that was received is answered.
func TestAnswersReachTheirClient(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 8
			began, finish := make(chan struct{}), make(chan struct{})
			server := serve(t, Config{HTTP2: http2, MaxConnections: limit, Kinds: kindtest.Shipped(t), Injector: injectorFunc(func(context.Context, *admissionv1.AdmissionRequest) ([]byte, []string, error) {
				close(began)
				<-finish
				return nil, nil, nil
			})})
			body := reviewOf(t, requestFor(t, kindtest.Named(t, kindtest.Shipped(t), "At"), validAt, ""))
			answered := make(chan error, 1)
			go func() {
				response, err := server.client.Post(server.url+InjectPath, "application/json", bytes.NewReader(body))
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					err = errors.Join(err, response.Body.Close())
				}
				answered <- err
			}()
			<-began
			for range 3 * limit {
				idle := server.dial(t)
				t.Cleanup(func() { _ = idle.Close() })
			}
			close(finish)
			require.NoError(t, <-answered)
		})
	}
}
