package election

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// guard sends requests that change something only while a process holds its Leases.
//
// A process can be stopped at any instruction, by SIGSTOP or with its node, and continue after
// another one has taken its Leases. So guard checks when a request begins, and again in the last
// step that the process itself takes, when it hands bytes to the kernel: requests that waited in
// the process for a connection, or that the HTTP client repeats, are checked there. A request that
// the kernel has accepted cannot be called back. Decision 21 lists what bounds it.
type guard struct {
	// left returns how long the Leases may still be relied on.
	left func() time.Duration
	// lost is done when they may not be relied on any more.
	lost context.Context
	// reads and writes send requests, over connections of their own.
	reads, writes http.RoundTripper
}

// guarded returns a configuration for clients that send requests which change something only while
// left is positive and lost is not done. All other requests are sent as with config.
func guarded(lost context.Context, config *rest.Config, left func() time.Duration) (*rest.Config, error) {
	g := guard{left: left, lost: lost}
	writing := rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		// The durations are those of client-go's own dialer.
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	writing.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &guardedConn{connection, left}, nil
	}
	var err error
	if g.writes, err = newBalanced(writing); err != nil {
		return nil, err
	}
	reading := rest.CopyConfig(config)
	reading.Wrap(func(reads http.RoundTripper) http.RoundTripper {
		g := g
		g.reads = reads
		return &g
	})
	return reading, nil
}

// RoundTrip implements http.RoundTripper. A request that is under way when the Leases are lost is
// canceled.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return g.reads.RoundTrip(r)
	}
	if g.left() <= 0 {
		if r.Body != nil {
			_ = r.Body.Close() // as the interface demands
		}
		return nil, fmt.Errorf("%w: nothing is written", ErrLeaseLost)
	}
	// The answer's body is read with this context, so it ends with that of the request and not here.
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(g.lost, func() { cancel(ErrLeaseLost) })
	defer stop()
	return g.writes.RoundTrip(r.WithContext(ctx))
}

// guardedConn is a connection that is closed instead of written to once the Leases are lost.
type guardedConn struct {
	net.Conn
	left func() time.Duration
}

func (c *guardedConn) Write(b []byte) (int, error) {
	if c.left() <= 0 {
		_ = c.Close()
		return 0, ErrLeaseLost
	}
	return c.Conn.Write(b)
}
