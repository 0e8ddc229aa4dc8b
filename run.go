package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/informers"
)

// connectTimeout bounds the first request, so that a wrong address is reported while
// someone still looks.
const connectTimeout = 10 * time.Second

type runOptions struct {
	kubeconfig, context string
	namespaces          []string
	kinds               kindOptions
	workers             int
	installCRDs         bool
	logFormat, logLevel string
	webhooks            webhookOptions
	election            electionOptions
	listen              listenOptions
	tracing             tracingOptions
}

func newRunCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the kinds on a cluster",
		Long: `Run the kinds on a cluster until SIGTERM or an interrupt.

The cluster is the one of --kubeconfig, of $KUBECONFIG, of ~/.kube/config, or the
one that Fescue runs in, the first that is there.`,
		Example: "  fescue run --install-crds --kinds ./my-kinds",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return run(c, &o) },
	}
	o.kinds.addFlags(c)
	flags := c.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "path of the kubeconfig file")
	flags.StringVar(&o.context, "context", "", "name of the kubeconfig context to use")
	flags.StringSliceVarP(&o.namespaces, "namespace", "n", nil, "namespaces to work in (repeatable or separated by commas); all if not given")
	flags.IntVar(&o.workers, "workers", engine.DefaultWorkers, "how many objects of one kind are worked on at a time")
	flags.BoolVar(&o.installCRDs, "install-crds", false, "install or upgrade the CRDs of the kinds first")
	o.webhooks.addFlags(flags)
	o.election.addFlags(flags)
	o.listen.addFlags(flags)
	o.tracing.addFlags(flags)
	flags.StringVar(&o.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return c
}

// run connects, checks what would keep the kinds from working, and runs them.
func run(c *cobra.Command, o *runOptions) error {
	if o.workers < 1 {
		return fmt.Errorf("--workers: invalid value %d: must be at least 1", o.workers)
	}
	if err := errors.Join(o.webhooks.complete(), o.election.complete(), o.listen.complete()); err != nil {
		return err
	}
	log, err := newLogger(c.ErrOrStderr(), o.logFormat, o.logLevel)
	if err != nil {
		return err
	}
	loaded, err := o.kinds.load()
	if err != nil {
		return err
	}
	if loaded.bad != nil { // one bad kind does not stop the others
		printErrors(c.ErrOrStderr(), loaded.bad)
	}
	kinds := loaded.all
	config, namespace, err := clusterConfig(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	ctx := c.Context()
	tracer, stopTracing, err := o.tracing.start(ctx, config, log)
	if err != nil {
		return err
	}
	clients, err := connect(config)
	if err != nil {
		return err
	}
	clients.tracer = tracer
	var installer *crdInstaller
	if o.installCRDs {
		installer = installCRDs(ctx, clients, kinds)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	err = o.operate(ctx, clients, installer, kinds, namespace, broadcaster.NewRecorder(runtime.NewScheme(), "fescue"), log)
	if !errors.Is(err, errLeaseLost) { // then nothing may hold up our end
		stopTracing()
	}
	return err
}

// operate runs the kinds, and beside them what is served, until ctx ends.
func (o *runOptions) operate(ctx context.Context, clients *clients, installer *crdInstaller, kinds []*kind.Kind, namespace string, recorder events.EventRecorder, log *slog.Logger) error {
	election, shards, err := newElection(o.election, clients.typed, namespace, log)
	if err != nil {
		return err
	}
	metrics := engine.NewMetrics()
	legacyregistry.RawMustRegister(metrics, kindMetrics(kinds))
	// Caches outlive ctx: what finishes after it still reads them.
	caching, stopCaching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaching()
	shared := informers.New(caching, clients.dynamic, o.namespaces)
	var hooks *webhooks
	e, err := engine.New(engine.Config{
		Kinds: kinds, Client: clients.dynamic, Informers: shared, Mapper: clients.mapper, Events: recorder,
		Pods:    clients.metadata,
		Workers: o.workers, Log: log, Metrics: metrics, Tracing: clients.tracer, Shards: shards,
		Missing: func(ctx context.Context, k *kind.Kind) error {
			err := installer.missing(ctx, k)
			if err == nil {
				err = missing(ctx, clients, k, o.namespaces)
			}
			hooks.follow(k, err)
			return err
		},
	})
	if err != nil {
		return err
	}
	hooks, err = newWebhooks(ctx, &o.webhooks, clients, kinds, o.namespaces, recorder, log)
	if err != nil {
		return err
	}
	stopServing, err := serve(ctx, o.listen, clients.limited, e, election, hooks, log)
	if err != nil {
		return err
	}
	defer stopServing()
	log.Info("running", "version", version, "server", clients.host, "kinds", len(kinds))
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return hooks.run(ctx, election.elected()) })
	ended := make(chan error, 2)
	running.Go(func() error {
		err := election.run(ctx, e)
		if errors.Is(err, errLeaseLost) {
			ended <- err // not after the answers of webhooks: another acts, and our passes still write
		}
		return err
	})
	go func() { ended <- running.Wait() }()
	return <-ended
}

// clusterConfig finds the cluster as kubectl does, or the one that Fescue runs in, and
// the namespace that is meant when none is named.
func clusterConfig(kubeconfig, contextName string) (config *rest.Config, namespace string, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName})
	config, err = loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", errors.New("no cluster is configured: set --kubeconfig or $KUBECONFIG, or run in a cluster")
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w; check --kubeconfig, $KUBECONFIG and --context", err)
	}
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("kubeconfig: %w; check --kubeconfig, $KUBECONFIG and --context", err)
	}
	config.UserAgent = "fescue/" + version
	// client-go would allow 5 requests a second; the API server's own priority and
	// fairness is what limits us.
	config.QPS = -1
	return config, namespace, nil
}

type clients struct {
	host     string
	typed    kubernetes.Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	mapper   meta.RESTMapper
	// limited is for what strangers can ask of us: its requests wait for each other, so that
	// they cannot crowd out the others.
	limited kubernetes.Interface
	tracer  trace.TracerProvider // nil if nothing is traced
}

// connect makes the clients and asks the API server for its version, to report one
// that cannot be reached.
func connect(config *rest.Config) (*clients, error) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	slow := rest.CopyConfig(config)
	slow.QPS, slow.Burst = rest.DefaultQPS, rest.DefaultBurst
	limited, err := kubernetes.NewForConfig(slow)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	first := rest.CopyConfig(config)
	first.Timeout = connectTimeout
	probe, err := kubernetes.NewForConfig(first)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	if _, err := probe.Discovery().ServerVersion(); err != nil {
		if apierrors.IsUnauthorized(err) {
			return nil, fmt.Errorf("the API server %s does not accept the credentials: %w; check --kubeconfig and --context", config.Host, err)
		}
		return nil, fmt.Errorf("the API server %s cannot be reached: %w; check --kubeconfig and --context", config.Host, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))
	return &clients{host: config.Host, typed: typed, dynamic: untyped, metadata: partial, mapper: mapper, limited: limited}, nil
}
