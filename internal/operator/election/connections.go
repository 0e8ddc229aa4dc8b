package election

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// connections is how many connections share the requests that change something at most, and full how
// many may be in flight on one before the next is used. Decision 46 has the measurements.
const (
	connections = 8
	full        = 16
)

// balanced sends requests over as few connections as their number allows.
//
// HTTP/2 puts all requests to a server on one connection. One goroutine of the API server serves that,
// frame by frame, and on a busy machine it waits for a processor each time. So what one connection
// carries is limited while the API server could do more, and it gets worse with each request in flight.
// But answers that arrive together on one connection are read together, which takes less CPU time.
type balanced struct{ over []*connection }

// connection is one of them. It is not connected before its first request.
type connection struct {
	http.RoundTripper
	inFlight atomic.Int64
}

// newBalanced returns a transport that has its own connections. The Dial of config must be set.
func newBalanced(config *rest.Config) (*balanced, error) {
	b := &balanced{}
	for range connections {
		transport, err := rest.TransportFor(config) // a dialer of one's own makes it another transport
		if err != nil {
			return nil, err
		}
		b.over = append(b.over, &connection{RoundTripper: transport})
	}
	return b, nil
}

// RoundTrip implements http.RoundTripper.
func (b *balanced) RoundTrip(r *http.Request) (*http.Response, error) {
	c := b.pick()
	c.inFlight.Add(1)
	defer c.inFlight.Add(-1)
	return c.RoundTrip(r)
}

// pick returns the first connection that has room or, if none has, the one with the fewest requests.
func (b *balanced) pick() *connection {
	least := b.over[0]
	for _, c := range b.over {
		if c.inFlight.Load() < full {
			return c
		}
		if c.inFlight.Load() < least.inFlight.Load() {
			least = c
		}
	}
	return least
}
