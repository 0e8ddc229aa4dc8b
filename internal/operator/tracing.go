package operator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/grpc/credentials"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
)

// flushTimeout bounds the wait for the collector to receive the last spans when the process stops.
const flushTimeout = 2 * time.Second

// tracingOptions are the flags about traces, named like the fields of TracingConfiguration in
// Kubernetes' own components.
type tracingOptions struct {
	endpoint string
	rate     int32
}

func (o *tracingOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.endpoint, "tracing-endpoint", "", "HOST:PORT of the OpenTelemetry collector that receives traces by OTLP over gRPC; tracing is off if neither this nor $OTEL_EXPORTER_OTLP_ENDPOINT is set")
	flags.Int32Var(&o.rate, "tracing-sampling-rate-per-million", 1_000_000, "number of reconciles per million that are traced; spans of a trace that the API server began follow its decision")
}

// environmentEndpoint returns the collector that the environment names, as specified in
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
func environmentEndpoint() string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// start returns the provider that records spans, and makes requests with config carry the span
// that they belong to. The provider is nil if tracing is off. The collector need not run yet.
// stop sends the remaining spans.
func (o *tracingOptions) start(ctx context.Context, config *rest.Config, version string, log *slog.Logger) (provider tracing.TracerProvider, stop func(), err error) {
	fromEnvironment := environmentEndpoint()
	if o.endpoint == "" && fromEnvironment == "" {
		return nil, func() {}, nil
	}
	configuration := &tracingv1.TracingConfiguration{SamplingRatePerMillion: &o.rate}
	if o.endpoint != "" {
		configuration.Endpoint = &o.endpoint
	}
	if errs := tracingv1.ValidateTracingConfiguration(configuration, nil, nil); len(errs) > 0 {
		flag := map[string]string{"endpoint": "--tracing-endpoint", "samplingRatePerMillion": "--tracing-sampling-rate-per-million"}[errs[0].Field]
		return nil, nil, fmt.Errorf("%s: %s", flag, errs[0].ErrorBody())
	}
	var exporting []otlptracegrpc.Option
	if o.endpoint == "" && strings.HasPrefix(fromEnvironment, "https:") && !hasCertificate(os.Environ()) {
		// NewProvider turns TLS off unless it is given credentials; these are the system's.
		exporting = append(exporting, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(nil)))
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are lost", "error", err) }))
	provider, err = tracing.NewProvider(ctx, configuration, exporting, []resource.Option{
		resource.WithAttributes(attribute.String("service.name", "fescue"), attribute.String("service.version", version)),
		resource.WithHost(), resource.WithFromEnv(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("traces: %w", err)
	}
	// Without a provider, the wrapper starts no spans and only passes on the context of existing
	// ones: requests outside a reconcile belong to no trace.
	config.Wrap(tracing.WrapperFor(tracing.NewNoopTracerProvider()))
	return provider, func() {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(flushing); err != nil {
			log.Warn("traces are lost", "error", err)
		}
	}, nil
}

// hasCertificate reports whether the environment names certificates for OTLP.
func hasCertificate(environment []string) bool {
	return slices.ContainsFunc(environment, func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "CERTIFICATE") && value != ""
	})
}
