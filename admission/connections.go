package admission

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// DefaultMaxConnections is room for three API servers that send DefaultMaxInFlight requests over
// HTTP/1.1, one on each connection. A connection takes about 50 KiB.
const DefaultMaxConnections = 1024

// sources is how many source addresses share the connections equally if they all want more. Three API
// servers and a quarter for everyone else.
const sources = 4

// connections is a listener that closes a connection for each one beyond a limit, or beyond the share of its source
// address: the one on which no request was answered for the longest time. It closes none on which a request is being
// answered, and none of a client with a verified certificate, but rather the new one. netutil.LimitListener lets new
// connections wait instead, so anyone who holds enough of them would keep the API server out.
type connections struct {
	net.Listener
	limit int

	mu    sync.Mutex
	byUse list.List // of *connection, the most recently used last
	// from is how many connections each source address has.
	from map[string]int
}

func newConnections(listener net.Listener, limit int) *connections {
	return &connections{Listener: listener, limit: limit, from: make(map[string]int)}
}

// connection is one that a listener has accepted.
type connection struct {
	net.Conn
	in     *connections
	place  *list.Element // nil once it is closed
	source string
	// isVerified is whether the client has a verified certificate, and answering how many requests are being answered.
	isVerified bool
	answering  int
}

// Accept waits for the next connection.
func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	source, _, _ := net.SplitHostPort(accepted.RemoteAddr().String())
	c := &connection{Conn: accepted, in: l, source: source}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.place = l.byUse.PushBack(c)
	l.from[source]++
	var least *connection
	if l.from[source] > max(1, l.limit/sources) {
		// While there is room, it may have more on which requests are being answered.
		least = l.leastUseful(func(other *connection) bool { return other.source == source && other != c })
	}
	if least == nil && l.byUse.Len() > l.limit {
		least = l.leastUseful(func(*connection) bool { return true }) // this one at worst
	}
	if least != nil {
		least.remove()
		_ = least.Conn.Close()
	}
	return c, nil
}

// leastUseful returns which of some connections to close; nil if there is none.
func (l *connections) leastUseful(of func(*connection) bool) *connection {
	for e := l.byUse.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*connection); c.answering == 0 && !c.isVerified && of(c) {
			return c
		}
	}
	return nil
}

// remove forgets a connection that is being closed. It may be called again.
func (c *connection) remove() {
	if c.place == nil {
		return
	}
	c.in.byUse.Remove(c.place)
	c.place = nil
	if c.in.from[c.source]--; c.in.from[c.source] == 0 {
		delete(c.in.from, c.source)
	}
}

// Close closes the connection.
func (c *connection) Close() error {
	c.in.mu.Lock()
	c.remove()
	c.in.mu.Unlock()
	return c.Conn.Close()
}

// connectionKey is the key of a request's *connection in its context.
type connectionKey struct{}

// withConnection adds a connection to the context of its requests.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connectionKey{}, over.NetConn())
	}
	return ctx
}

// begin records that a request was received as a whole and is being answered. It returns the connection, which is nil
// in tests.
func begin(r *http.Request) *connection {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.answering++
	c.isVerified = r.TLS != nil && len(r.TLS.VerifiedChains) > 0
	return c
}

// end records that a request was answered, and whether the answer makes the connection one that is used.
func (c *connection) end(isUse bool) {
	if c == nil {
		return
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.answering--
	if isUse && c.place != nil {
		c.in.byUse.MoveToBack(c.place)
	}
}
