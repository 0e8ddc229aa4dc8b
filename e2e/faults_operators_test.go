package e2e

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// faultyOperator is one of the two operators of TestRandomFaults.
type faultyOperator struct {
	*process
	all         []*process
	listen      string // for webhooks
	frozen      atomic.Bool
	connections sync.Map // from the balancer
}

// startOperators starts two operators, of which one acts, or both with a shard each, and what stands between them and the
// API server.
func (r *round) startOperators() {
	for i := range r.operators {
		r.operators[i].listen = testcluster.FreePort(r.t, "127.0.0.1")
		r.startOperator(i)
	}
	relayWebhooks(r.t, r.url, r.balance)
	for i := range r.operators {
		r.operators[i].awaitReady()
	}
	r.awaitRegistration()
}

func (r *round) startOperator(i int) {
	o := &r.operators[i]
	o.process = r.launch(append(slices.Clone(r.flags), "--webhook-listen", o.listen)...)
	o.all = append(o.all, o.process)
	o.frozen.Store(false)
}

// balance forwards a connection of the API server to an operator that runs, as a Service does.
func (r *round) balance(from net.Conn) {
	defer func() { _ = from.Close() }()
	for i := range r.operators {
		o := &r.operators[i]
		to, err := net.Dial("tcp", o.listen)
		if err != nil {
			continue
		}
		defer func() { _ = to.Close() }()
		o.connections.Store(to, nil)
		if o.frozen.Load() {
			continue
		}
		relay(from, to)
		return
	}
}

// disturb freezes operators and has them continue, starts those that have ended, and arranges that one is killed.
func (r *round) disturb() {
	for i := range r.operators {
		o := &r.operators[i]
		switch {
		case o.hasEnded():
			if r.random.IntN(10) == 0 {
				r.seen.did("operator started", "%d, after %s", i, o.cmd.ProcessState)
				r.startOperator(i)
			}
		case o.frozen.Load():
			if r.random.IntN(50) == 0 {
				r.thaw(i)
			}
		case r.random.IntN(100) == 0:
			r.seen.did("operator frozen", "%d", i)
			o.frozen.Store(true)
			_ = o.cmd.Process.Signal(syscall.SIGSTOP)
			o.connections.Range(func(connection, _ any) bool { _ = connection.(net.Conn).Close(); return true })
		case r.random.IntN(50) == 0:
			r.doomed.Store(o.process)
		}
	}
	if r.random.IntN(120) == 0 {
		r.seen.did("all connections cut", "")
		r.proxy.cut()
		r.proxy.mend(r.t)
	}
}

func (r *round) thaw(i int) {
	r.seen.did("operator continued", "%d", i)
	r.operators[i].frozen.Store(false)
	_ = r.operators[i].cmd.Process.Signal(syscall.SIGCONT)
}

// misbehave has the proxy reject requests, lose them or their answers, delay and end watches, and kill an operator after a
// write whose answer it does not get.
func (r *round) misbehave() {
	failing := func(request *http.Request) int {
		what := request.Method + " " + request.URL.Path
		if r.happens("request lost", 0.02, what) {
			panic(http.ErrAbortHandler)
		}
		if !r.happens("request rejected", 0.04, what) {
			return 0
		}
		codes := []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
		if request.Method != http.MethodGet && request.Method != http.MethodPost { // it would say that another object has the name
			codes = append(codes, http.StatusConflict)
		}
		return codes[rand.IntN(len(codes))]
	}
	answered := func(response *http.Response) {
		if response.Request.URL.Query().Get("watch") != "" {
			response.Body = &slowWatch{response.Body, r}
		} else if r.happens("answer lost", 0.03, response.Request.Method+" "+response.Request.URL.Path) {
			panic(http.ErrAbortHandler)
		}
	}
	written := func(int64) {
		if o := r.doomed.Swap(nil); o != nil {
			r.seen.did("operator killed after a write", "")
			_ = o.cmd.Process.Kill()
		}
	}
	r.proxy.failing.Store(&failing)
	r.proxy.answered.Store(&answered)
	r.proxy.afterWrite.Store(&written)
}

// happens reports whether a fault happens that does so with a probability.
func (r *round) happens(fault string, probability float64, to string) bool {
	if !r.isFaulty.Load() || rand.Float64() >= probability {
		return false
	}
	r.seen.did(fault, "%s", to)
	return true
}

// slowWatch is the body of a watch that lags, and ends early.
type slowWatch struct {
	io.ReadCloser
	r *round
}

func (w *slowWatch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if w.r.happens("watch ended", 0.01, "") {
		return 0, io.ErrUnexpectedEOF
	}
	if w.r.happens("watch delayed", 0.1, "") {
		<-time.After(rand.N(time.Second))
	}
	return n, err
}

// repair ends the faults.
func (r *round) repair() {
	r.isFaulty.Store(false)
	r.doomed.Store(nil)
	for i := range r.operators {
		if r.operators[i].frozen.Load() {
			r.thaw(i)
		}
	}
}

// until waits until something holds, and starts operators that have ended, as those do that have lost their Leases.
func (r *round) until(holds func() bool) bool {
	return testcluster.WaitUntil(func() bool {
		for i := range r.operators {
			if r.operators[i].hasEnded() {
				r.startOperator(i)
			}
		}
		return holds()
	})
}
