package engine

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// tracerName names in spans the code that records them.
const tracerName = "github.com/fescue-dev/fescue/engine"

// The results of a write, in spans.
const (
	writeDone     = "done"
	writeRejected = "rejected" // by the API server, or because the name belongs to another object
	writeWaiting  = "waiting"  // for an object to be gone
	writeFailed   = "failed"
)

// traceReconcile begins the span of one reconcile; its writes are part of it.
func (c *controller) traceReconcile(ctx context.Context, name cache.ObjectName) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, trace.SpanFromContext(ctx) // one that does nothing
	}
	return c.tracer.Start(ctx, "reconcile "+c.metrics.name, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("controller", c.metrics.name),
		attribute.String("namespace", name.Namespace),
		attribute.String("name", name.Name),
	))
}

// traceWrite begins the span of one write of a reconcile: the requests that it takes, and
// what is decided between them.
func (c *controller) traceWrite(ctx context.Context, verb string, resource schema.GroupResource, name cache.ObjectName) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return c.tracer.Start(ctx, verb+" "+resource.String(), trace.WithAttributes(
		attribute.String("verb", verb),
		attribute.String("resource", resource.String()),
		attribute.String("namespace", name.Namespace),
		attribute.String("name", name.Name),
	))
}

// endReconcile ends the span of a reconcile with its result as the metrics have it. A requeue
// because the object has changed meanwhile is not an error.
func endReconcile(span trace.Span, result string, err error) {
	if !span.IsRecording() {
		return
	}
	if result == string(resultRequeue) {
		err = nil
	}
	endSpan(span, result, err)
}

// endWrite ends the span of a write. Waiting is not an error.
func endWrite(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	_, isRejected := errors.AsType[*rejectedError](err)
	switch {
	case err == nil:
		endSpan(span, writeDone, nil)
	case errors.Is(err, errWaiting):
		endSpan(span, writeWaiting, nil)
	case isRejected:
		endSpan(span, writeRejected, err)
	default:
		endSpan(span, writeFailed, err)
	}
}

func endSpan(span trace.Span, result string, err error) {
	span.SetAttributes(attribute.String("result", result))
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
