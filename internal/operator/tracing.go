package main

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

// flushTimeout bounds how long a stop waits for the collector to take the last spans.
const flushTimeout = 2 * time.Second

// tracingOptions are the flags about traces, which are named like the fields of
// TracingConfiguration of Kubernetes' own components.
type tracingOptions struct {
	endpoint string
	rate     int32
}

func (o *tracingOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.endpoint, "tracing-endpoint", "", "HOST:PORT of the OpenTelemetry collector that traces are sent to, by OTLP over gRPC; none if neither this nor $OTEL_EXPORTER_OTLP_ENDPOINT is given")
	flags.Int32Var(&o.rate, "tracing-sampling-rate-per-million", 1_000_000, "how many of a million passes are traced; what belongs to a trace of the API server follows that one")
}

// environmentEndpoint is where the environment has traces sent to, as
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/ says.
func environmentEndpoint() string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// start makes what spans are recorded with, and has the requests made with config say to
// which span they belong. It returns nil if traces are off. The collector need not be there
// yet. stop sends what is left.
func (o *tracingOptions) start(ctx context.Context, config *rest.Config, log *slog.Logger) (provider tracing.TracerProvider, stop func(), err error) {
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
	// Without a provider of its own the wrapper makes no spans, and passes on the context
	// of those that there are: requests outside of a pass belong to no trace.
	config.Wrap(tracing.WrapperFor(tracing.NewNoopTracerProvider()))
	return provider, func() {
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(flushing); err != nil {
			log.Warn("traces are lost", "error", err)
		}
	}, nil
}

// hasCertificate tells whether the environment says which certificates to use for OTLP.
func hasCertificate(environment []string) bool {
	return slices.ContainsFunc(environment, func(variable string) bool {
		name, value, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "CERTIFICATE") && value != ""
	})
}
