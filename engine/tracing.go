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

// tracerName says in spans which code made them.
const tracerName = "github.com/fescue-dev/fescue/engine"

// The results of a write, in spans.
const (
	writeDone    = "done"
	writeRefused = "refused" // by the API server, or because the name belongs to someone else
	writeWaiting = "waiting" // for an object to be gone
	writeFailed  = "failed"
)

// tracePass begins the span of one pass; its writes are part of it.
func (c *controller) tracePass(ctx context.Context, name cache.ObjectName) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, trace.SpanFromContext(ctx) // one that does nothing
	}
	return c.tracer.Start(ctx, "reconcile "+c.metrics.name, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("controller", c.metrics.name),
		attribute.String("namespace", name.Namespace),
		attribute.String("name", name.Name),
	))
}

// traceWrite begins the span of one write of a pass: the requests that it takes, and what
// was decided between them.
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

// endPass ends the span of a pass with its result as the metrics have it. One that is made
// again because someone was quicker is no error.
func endPass(span trace.Span, result string, err error) {
	if !span.IsRecording() {
		return
	}
	if result == resultRequeue {
		err = nil
	}
	endSpan(span, result, err)
}

// endWrite ends the span of a write. What is only to be waited for is no error.
func endWrite(span trace.Span, err error) {
	if !span.IsRecording() {
		return
	}
	_, isRefused := errors.AsType[*refusedError](err)
	switch {
	case err == nil:
		endSpan(span, writeDone, nil)
	case errors.Is(err, errWaiting):
		endSpan(span, writeWaiting, nil)
	case isRefused:
		endSpan(span, writeRefused, err)
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
