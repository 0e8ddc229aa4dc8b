package admission

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/tracing"
)

// traced records a span for each request of a webhook. If the API server's own tracing is on, it
// sends the parent span.
func (s *Server) traced(path string, handler http.Handler) http.Handler {
	if s.config.Tracing == nil {
		return handler
	}
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trace.SpanFromContext(r.Context()).SetName("review " + path) // it would be "POST" for all
		handler.ServeHTTP(w, r)
	})
	return tracing.WithTracing(named, s.config.Tracing, "")
}

// traceRequest records in the span what is reviewed.
func traceRequest(ctx context.Context, request *admissionv1.AdmissionRequest) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Resource}
	if request.SubResource != "" {
		resource.Resource += "/" + request.SubResource
	}
	span.SetAttributes(
		attribute.String("operation", string(request.Operation)),
		attribute.String("resource", resource.String()),
		attribute.String("namespace", request.Namespace),
		attribute.String("name", request.Name),
		attribute.String("uid", string(request.UID)),
	)
}

// traceConversion records in the span what is converted.
func traceConversion(ctx context.Context, request *conversionRequest) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(
			attribute.String("desiredAPIVersion", request.apiVersion),
			attribute.Int("objects", len(request.objects)),
			attribute.String("uid", string(request.uid)),
		)
	}
}

// traceOutcome records the answer in the span.
func traceOutcome(ctx context.Context, o outcome) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(attribute.String("outcome", string(o)))
	}
}

// traceError records in the span why the request failed.
func traceError(ctx context.Context, err error) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}
