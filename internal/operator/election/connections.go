package election

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// connections is how many connections share the requests that change something. docs/performance.md
// has the measurement; more than eight make no difference with 32 workers.
const connections = 8

// balanced sends requests over several connections in turns.
//
// HTTP/2 puts all requests to a server on one connection. One goroutine of the API server serves that,
// frame by frame, and on a busy machine it waits for a processor each time. So what one connection
// carries is limited while the API server could do more, and it gets worse with each request in flight.
type balanced struct {
	over []http.RoundTripper
	turn atomic.Uint64
}

// newBalanced returns a transport that has its own connections. The Dial of config must be set.
func newBalanced(config *rest.Config) (*balanced, error) {
	b := &balanced{over: make([]http.RoundTripper, connections)}
	for i := range b.over {
		var err error
		if b.over[i], err = rest.TransportFor(config); err != nil { // a dialer of one's own makes it another transport
			return nil, err
		}
	}
	return b, nil
}

// RoundTrip implements http.RoundTripper.
func (b *balanced) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.over[b.turn.Add(1)%connections].RoundTrip(r)
}
