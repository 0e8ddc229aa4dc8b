package bench

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/fescue-dev/fescue/bench/byhand/api"
	"github.com/fescue-dev/fescue/bench/byhand/controller"
)

// peerServer returns the same webhook on controller-runtime, with a filled cache of Watchers.
func peerServer(b *testing.B, config *rest.Config) func(*running) error {
	ctrllog.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	require.NoError(b, clientgoscheme.AddToScheme(scheme))
	require.NoError(b, api.AddToScheme(scheme))
	watchers, err := cache.New(config, cache.Options{Scheme: scheme})
	require.NoError(b, err)
	go func() { _ = watchers.Start(b.Context()) }()
	handler, err := admission.StandaloneWebhook(
		&admission.Webhook{Handler: &controller.Injector{Reader: watchers, Decoder: admission.NewDecoder(scheme), Annotation: viaPeer}},
		admission.StandaloneOptions{MetricsPath: "/inject"})
	require.NoError(b, err)
	return func(r *running) error {
		// The scaffold of kubebuilder disables HTTP/2 too.
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		server := &http.Server{Handler: handler, TLSConfig: r.tls, Protocols: protocols, ReadHeaderTimeout: timeout}
		context.AfterFunc(r.ctx, func() { _ = server.Close() })
		return server.ServeTLS(r.listener, "", "")
	}
}
