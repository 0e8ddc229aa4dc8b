package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/internal/enginetest"
)

// tracedController returns a controller for its spans alone.
func tracedController(tb testing.TB, provider trace.TracerProvider) *controller {
	tb.Helper()
	c := newController(enginetest.Shipped(tb, "At"), &Config{Workers: 1, Metrics: NewMetrics(), Log: slog.New(slog.DiscardHandler), Tracing: provider}, newShards(0), 0)
	tb.Cleanup(c.queue.ShutDown)
	return c
}

func TestSpansEndWithTheirResult(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	c := tracedController(t, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	boom := errors.New("boom")
	outside, unrelated := c.tracer.Start(t.Context(), "unrelated")
	ctx, reconcile := c.traceReconcile(outside, cache.ObjectName{Namespace: "n", Name: "a"})
	for _, err := range []error{nil, errWaiting, &rejectedError{boom}, boom} {
		_, write := c.traceWrite(ctx, "create", schema.GroupResource{Resource: "pods"}, cache.ObjectName{Namespace: "n", Name: "a-pod"})
		endWrite(write, err)
	}
	endReconcile(reconcile, resultRequeue.label(), boom)
	unrelated.End()

	type ended struct {
		result string
		status codes.Code
	}
	var all []ended
	for _, s := range recorder.Ended()[:5] {
		var result string
		for _, a := range s.Attributes() {
			if a.Key == "result" {
				result = a.Value.AsString()
			}
		}
		all = append(all, ended{result, s.Status().Code})
		require.Equal(t, reconcile.SpanContext().TraceID(), s.SpanContext().TraceID())
		require.NotEqual(t, unrelated.SpanContext().TraceID(), s.SpanContext().TraceID(), "a reconcile is a trace of its own")
	}
	require.Equal(t, []ended{
		{"done", codes.Unset}, {"waiting", codes.Unset}, {"rejected", codes.Error}, {"failed", codes.Error},
		{"requeue", codes.Unset},
	}, all)
}

// spans records those of a reconcile with one write.
func (c *controller) spans(ctx context.Context) {
	name := cache.ObjectName{Namespace: "n", Name: "a"}
	ctx, reconcile := c.traceReconcile(ctx, name)
	_, write := c.traceWrite(ctx, "create", schema.GroupResource{Resource: "pods"}, name)
	endWrite(write, nil)
	endReconcile(reconcile, resultSuccess.label(), nil)
}

func TestTracingThatIsOffAllocatesNothing(t *testing.T) {
	c := tracedController(t, nil)
	require.Zero(t, testing.AllocsPerRun(1000, func() { c.spans(context.Background()) }))
}

func BenchmarkTracing(b *testing.B) {
	for name, provider := range map[string]trace.TracerProvider{
		"off":         nil,
		"not sampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
		"sampled":     sdktrace.NewTracerProvider(),
	} {
		b.Run(name, func(b *testing.B) {
			c := tracedController(b, provider)
			b.ReportAllocs()
			for b.Loop() {
				c.spans(context.Background())
			}
		})
	}
}
