package admission

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// DefaultMaxConnections is room for three API servers that send DefaultMaxInFlight requests over
// HTTP/1.1, one on each connection. A connection takes about 50 KiB.
const DefaultMaxConnections = 1024

// connections is a listener that closes a connection for each one beyond a limit: the one on which
// no request was answered for the longest time. netutil.LimitListener lets new connections wait
// instead, so anyone who holds enough of them would keep the API server out.
type connections struct {
	net.Listener
	limit int

	mu    sync.Mutex
	byUse list.List // of *connection, the most recently used last
}

// connection is one that a listener has accepted.
type connection struct {
	net.Conn
	in    *connections
	place *list.Element
}

// Accept waits for the next connection.
func (l *connections) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, in: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.place = l.byUse.PushBack(c)
	if l.byUse.Len() > l.limit {
		_ = l.byUse.Remove(l.byUse.Front()).(*connection).Conn.Close()
	}
	return c, nil
}

// Close closes the connection.
func (c *connection) Close() error {
	c.in.mu.Lock()
	c.in.byUse.Remove(c.place)
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

// used records that a request was answered on the connection of its context.
func used(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		c.in.byUse.MoveToBack(c.place)
	}
}
