// Command byhand is an operator for the kinds that Fescue ships, written by hand with
// controller-runtime. `make bench` compares Fescue with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/fescue-dev/fescue/bench/byhand/api"
	"github.com/fescue-dev/fescue/bench/byhand/controller"
)

// options are the values of the flags.
type options struct {
	workers                      int
	events, conditions           bool
	namespace                    string
	metrics, health, certificate string
	webhookPort                  int
}

func main() {
	var o options
	flag.IntVar(&o.workers, "workers", 10, "number of objects of one kind that are reconciled at the same time")
	flag.BoolVar(&o.events, "events", true, "record Events")
	flag.BoolVar(&o.conditions, "conditions", true, "set status.conditions and status.observedGeneration")
	flag.StringVar(&o.namespace, "namespace", "", "namespace to work in; all by default")
	flag.StringVar(&o.metrics, "metrics-bind-address", "0", "address that serves /metrics and /debug/pprof; none if 0")
	flag.StringVar(&o.health, "health-probe-bind-address", "0", "address that serves /healthz and /readyz; none if 0")
	flag.StringVar(&o.certificate, "webhook-cert-dir", "",
		"folder with tls.crt and tls.key for the webhook; without it there is no webhook")
	flag.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the webhook")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler(), &o); err != nil {
		fmt.Fprintln(os.Stderr, "byhand:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	reporting := controller.Reporting{Conditions: o.conditions}
	if o.events {
		reporting.Recorder = mgr.GetEventRecorder("by-hand")
	}
	ats := &controller.AtReconciler{Client: mgr.GetClient(), Reporting: reporting}
	if err := ats.SetupWithManager(mgr); err != nil {
		return err
	}
	watchers := &controller.WatcherReconciler{Client: mgr.GetClient(), Reporting: reporting}
	if err := watchers.SetupWithManager(mgr); err != nil {
		return err
	}
	customclusters := &controller.CustomclusterReconciler{Client: mgr.GetClient(), Reporting: reporting}
	if err := customclusters.SetupWithManager(ctx, mgr); err != nil {
		return err
	}
	if o.certificate != "" {
		mgr.GetWebhookServer().Register("/inject", &webhook.Admission{Handler: &controller.Injector{
			Reader: mgr.GetClient(), Decoder: admission.NewDecoder(mgr.GetScheme()),
			Annotation: "watch.fescue.dev/inject",
		}})
	}
	if err := mgr.AddReadyzCheck("caches", synced(mgr)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// synced returns a check that succeeds when the caches have been filled.
func synced(mgr ctrl.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return request.Context().Err()
		}
		return nil
	}
}

func newManager(o *options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cluster, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	cluster.UserAgent = "byhand"
	cluster.QPS = -1
	caches := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Label: labels.SelectorFromSet(
				labels.Set{"app.kubernetes.io/managed-by": controller.ManagedBy})},
		},
	}
	if o.namespace != "" {
		caches.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.NewManager(cluster, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  caches,
		Client:                 client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: new(true)}},
		Controller:             config.Controller{MaxConcurrentReconciles: o.workers},
		Metrics:                metricsserver.Options{BindAddress: o.metrics, ExtraHandlers: profiles()},
		HealthProbeBindAddress: o.health,
		WebhookServer:          webhook.NewServer(webhook.Options{CertDir: o.certificate, Port: o.webhookPort}),
	})
}

// profiles returns the handlers below /debug/pprof that net/http/pprof registers.
func profiles() map[string]http.Handler {
	handlers := map[string]http.Handler{"/debug/pprof/profile": http.HandlerFunc(pprof.Profile)}
	for name := range strings.FieldsSeq("heap goroutine allocs") {
		handlers["/debug/pprof/"+name] = pprof.Handler(name)
	}
	return handlers
}
