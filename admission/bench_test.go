package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// clients is the number of concurrent clients.
const clients = 64

// BenchmarkWebhook calls a server over TLS on 64 connections and, in turns, another one that only
// finds the UID in a review and allows it: the floor. ratio is the share of the floor's requests
// per second that is reached; cpu-ratio is the same in CPU time, which a busy machine disturbs
// less.
func BenchmarkWebhook(b *testing.B) {
	kinds := kindtest.Shipped(b)
	rights := NewRights(&reviewer{allowed: map[string][]string{"ada": {"configmaps", "pods"}}}, noTypes(), kinds)
	pods, _ := runPods(b, nil, typicalWatcher(b))
	server := serve(b, Config{Kinds: kinds, Rights: rights, Injector: pods})
	floor := serveFloor(b)
	b.Run("Pod"+InjectPath, func(b *testing.B) {
		againstFloor(b, server, floor, InjectPath, reviewOf(b, typicalPod(b)))
	})
	for name, body := range benchmarkBodies(b, kinds) {
		for _, path := range []string{DefaultPath, ValidatePath} {
			b.Run(name+path, func(b *testing.B) { againstFloor(b, server, floor, path, body) })
		}
	}
}

// benchmarkBodies are reviews as the API server writes them.
func benchmarkBodies(b *testing.B, kinds []*kind.Kind) map[string][]byte {
	const managedFields = `"uid":"6b4a7bd4-1f0c-4d0c-8b0e-2f1d9c7f4b11","generation":1,"creationTimestamp":"2030-01-01T00:00:00Z","managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"cnat.fescue.dev/v1alpha1","time":"2030-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:command":{},"f:schedule":{}}}}]`
	at := `{"apiVersion":"cnat.fescue.dev/v1alpha1","kind":"At","metadata":{"name":"a","namespace":"default",` + managedFields + `},"spec":{"schedule":"2030-01-01T00:00:00Z","command":"echo hello","image":"busybox:1.37"}}`
	return map[string][]byte{"At": reviewOf(b, requestFor(b, kindtest.Named(b, kinds, "At"), at, ""))}
}

// serveFloor starts a webhook that allows everything.
func serveFloor(b *testing.B) *running {
	certificate, trusted := newCertificate(b)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, rest, _ := bytes.Cut(body, []byte(`"uid":"`))
		uid, _, found := bytes.Cut(rest, []byte(`"`))
		if err != nil || !found {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"` + string(uid) + `","allowed":true}}`))
	})
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*certificate}}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server.Protocols = protocols
	return run(b, trusted, func(ctx context.Context, listener net.Listener) error {
		context.AfterFunc(ctx, func() { _ = server.Close() })
		return server.ServeTLS(listener, "", "")
	})
}

// againstFloor sends b.N requests to each of two servers, in turns of a batch, so that both
// see the same machine.
func againstFloor(b *testing.B, server, floor *running, path string, body []byte) {
	const batch = 2000
	var ours, floors cost
	(&cost{}).send(b, server, path, body, clients) // connects
	(&cost{}).send(b, floor, path, body, clients)
	b.ResetTimer()
	for left := b.N; left > 0; left -= batch {
		n := min(left, batch)
		floors.send(b, floor, path, body, n)
		ours.send(b, server, path, body, n)
	}
	b.StopTimer()
	b.ReportMetric(ours.perSecond(), "requests/s")
	b.ReportMetric(floors.perSecond(), "floor-requests/s")
	b.ReportMetric(ours.perSecond()/floors.perSecond(), "ratio")
	b.ReportMetric(floors.cpu.Seconds()/ours.cpu.Seconds(), "cpu-ratio")
	b.ReportMetric(ours.percentile(0.50), "p50-ms")
	b.ReportMetric(ours.percentile(0.99), "p99-ms")
	b.ReportMetric(floors.percentile(0.50), "floor-p50-ms")
	b.ReportMetric(floors.percentile(0.99), "floor-p99-ms")
}

// cost is the cost of sending requests.
type cost struct {
	took  time.Duration
	cpu   time.Duration   // of client and server together
	times []time.Duration // of each request
}

// send sends n requests from all clients together.
func (l *cost) send(b *testing.B, to *running, path string, body []byte, n int) {
	times := make([]time.Duration, n)
	var next, failed atomic.Int64
	var sending sync.WaitGroup
	began, before := time.Now(), cpuTime(b)
	for range clients {
		sending.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				start := time.Now()
				response, err := to.client.Post(to.url+path, "application/json", bytes.NewReader(body))
				if err != nil || response.StatusCode != http.StatusOK {
					failed.Add(1)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
				times[i] = time.Since(start)
			}
		})
	}
	sending.Wait()
	l.took += time.Since(began)
	l.cpu += cpuTime(b) - before
	l.times = append(l.times, times...)
	require.Zero(b, failed.Load())
}

func (l *cost) perSecond() float64 { return float64(len(l.times)) / l.took.Seconds() }

// cpuTime returns the CPU time that this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// percentile returns a percentile of the times in milliseconds.
func (l *cost) percentile(p float64) float64 {
	slices.Sort(l.times)
	return float64(l.times[int(p*float64(len(l.times)-1))]) / float64(time.Millisecond)
}

// BenchmarkHandle measures one request without the network.
func BenchmarkHandle(b *testing.B) {
	kinds := kindtest.Shipped(b)
	server, err := New(Config{Kinds: kinds, Rights: NewRights(&reviewer{allowed: map[string][]string{"ada": {"configmaps", "pods"}}}, noTypes(), kinds)})
	require.NoError(b, err)
	for name, body := range benchmarkBodies(b, kinds) {
		b.Run(name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := decodeReview(body); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/validate", func(b *testing.B) {
			request, _, err := decodeReview(body)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if response, err := server.objects.validate(b.Context(), request); err != nil || !response.Allowed {
					b.Fatal(err, response)
				}
			}
		})
	}
}
