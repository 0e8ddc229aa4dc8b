// Package operator is one running process: it connects to a cluster and wires the engine,
// admission, the election, and the metrics and health endpoints together.
//
// It knows all of them and decides nothing of what they do. It does not know the command line
// beyond its flags.
package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/fescue-dev/fescue/admission/certificate"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/operator/definitions"
	"github.com/fescue-dev/fescue/internal/operator/election"
	"github.com/fescue-dev/fescue/internal/operator/serving"
)

// operator is a connected process with its parts.
type operator struct {
	*Clients
	config *rest.Config
	// acting are clients for what only one process may do, or only for its shards.
	acting struct {
		typed   kubernetes.Interface
		dynamic dynamic.Interface
		writer  dynamic.Interface // whose answers have no managedFields
	}
	options *Options
	load    Load
	log     *slog.Logger
	events  events.EventRecorder

	// informers are the caches that the engine and admission share.
	informers *informers.Informers
	caching   context.Context        // ends the caches
	installer *definitions.Installer // nil without --install-crds
	// definitions are the CRDs of the kinds.
	definitions *definitions.Definitions
	// rights are those of the operator.
	rights   rights
	election election.Election
	engine   *engine.Engine
	webhooks *webhooks // nil if they are off
	proofs   *proofs
	unloaded *prometheus.GaugeVec
	// loaded is set when all kinds are loaded.
	loaded atomic.Bool
}

// Load loads the kinds to run. It calls loaded with those that are loaded while others are still
// being loaded, and returns when there are no others: how many failed to load, or an error that must end the process.
type Load func(ctx context.Context, loaded func([]*kind.Kind)) (broken int, err error)

// Run runs kinds on the cluster of completed options until ctx ends.
func Run(ctx context.Context, options *Options, load Load, prove Prove, log *slog.Logger) error {
	limitMemory(log)
	config, namespace, err := options.Config()
	if err != nil {
		return err
	}
	config.WarningHandlerWithContext = engine.Warnings{Log: log}
	clients, err := Connect(config)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.Typed.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	p := &operator{
		Clients: clients, config: config, options: options, load: load, proofs: newProofs(prove, log), log: log,
		events: broadcaster.NewRecorder(runtime.NewScheme(), "fescue"),
	}
	// The caches outlive ctx, because reconciles that finish after it still read them.
	caching, stopCaching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaching()
	p.caching, p.informers = caching, informers.New(caching, p.Caches, options.Namespaces)
	p.informers.Failed = countWatchFailures(log)
	p.rights.client = p.Typed.AuthorizationV1()
	if err := p.wire(ctx, namespace); err != nil {
		return err
	}
	return p.run(ctx)
}

// wire creates the parts. namespace is the default one of the cluster configuration.
func (p *operator) wire(ctx context.Context, namespace string) (err error) {
	names := election.Names{Leader: install.LeaseName, Member: install.MemberLease, Shard: install.ShardLease}
	if p.election, err = election.New(p.options.election, names, p.Typed, namespace, p.log); err != nil {
		return err
	}
	if err := p.connectActing(); err != nil {
		return err
	}
	p.wireDefinitions()
	metrics := engine.NewMetrics()
	p.unloaded = newUnloadedMetric()
	legacyregistry.RawMustRegister(metrics, p.unloaded, p.proofs.disputed,
		kindMetrics(func() []*kind.Kind { return p.engine.Kinds() }))
	p.engine, err = engine.New(engine.Config{
		Client: p.acting.dynamic, Writer: p.acting.writer, Informers: p.informers, Mapper: p.Mapper, Events: p.events,
		OnlyWarnings: !p.options.NormalEvents,
		Pods:         p.Metadata, Missing: p.missing,
		Workers: p.options.Workers, Shards: p.election.Shards(),
		Log: p.log, Metrics: metrics,
	})
	if err != nil {
		return err
	}
	p.webhooks, err = p.newWebhooks(ctx)
	return err
}

// connectActing creates the clients that write only while the election allows it.
func (p *operator) connectActing() error {
	config, err := p.election.Guard(p.config)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if p.acting.typed, err = newTyped(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if p.acting.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if p.acting.writer, err = newWriter(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// run serves and acts until ctx ends.
func (p *operator) run(ctx context.Context) error {
	stopServing, err := p.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()
	p.log.Info("running", "version", p.options.Version, "server", p.host)
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error {
		if err := p.loadKinds(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		return p.webhooks.run(ctx, p.election.Elected())
	})
	ended := make(chan error, 2)
	running.Go(func() error {
		err := p.election.Run(ctx, candidate{p.engine, p})
		if errors.Is(err, election.ErrLeaseLost) {
			ended <- err // at once, without waiting for the webhooks: another process may act by now
		}
		return err
	})
	running.Go(func() error { p.installer.RecheckOnceElected(ctx, p.engine); return nil })
	running.Go(func() error { releaseUnusedMemory(ctx); return nil })
	go func() { ended <- running.Wait() }()
	return <-ended
}

// loadKinds loads the kinds and starts each as soon as it is loaded. The webhooks are wired when all
// are: one that did not know a kind would reject its objects.
func (p *operator) loadKinds(ctx context.Context) error {
	var all []*kind.Kind
	var unable, failed error
	var broken int
	loading := make(chan error, 1)
	go func() {
		var err error
		broken, err = p.load(ctx, func(kinds []*kind.Kind) {
			all = append(all, kinds...)
			for _, k := range kind.WithoutDecorators(kinds) {
				failed = errors.Join(failed, p.definitions.Watch(p.caching, k))
			}
			if err := p.engine.Add(kinds...); err != nil {
				unable = errors.Join(unable, err)
				p.log.Error("kind cannot run", "error", err)
			}
		})
		loading <- err
	}()
	var err error
	select {
	case <-ctx.Done(): // the CUE evaluator cannot be interrupted
		return nil
	case err = <-loading:
	}
	if err = errors.Join(err, failed); err == nil && len(p.engine.Kinds()) == 0 {
		err = unable
	}
	if err == nil {
		err = p.webhooks.wire(ctx, p, kind.WithoutDecorators(all))
	}
	if err != nil {
		return err
	}
	// Loading takes three times what the kinds then need, and the next collection may be minutes away.
	debug.FreeOSMemory()
	p.loaded.Store(true)
	for _, k := range all {
		if k.Versions.Converts() {
			p.engine.Recheck(k.Name()) // its conversions are served from now on
		}
	}
	go p.reportUnloaded(ctx, kind.WithoutDecorators(all))
	go p.proveOthers(ctx, all)
	if broken > 0 {
		p.log.Warn("kinds are loaded, and some failed to load", "kinds", len(all), "failed", broken)
		return nil
	}
	p.log.Info("all kinds are loaded", "kinds", len(all))
	return nil
}

// allLoaded returns an error while kinds are still being loaded.
func (p *operator) allLoaded() error {
	if !p.loaded.Load() {
		return errors.New("kinds are still being loaded")
	}
	return nil
}

// candidate is the engine for the election: it takes nothing from other members before all kinds are
// loaded and, without shards, their caches filled.
type candidate struct {
	*engine.Engine
	operator *operator
}

// Synced implements election.Engine.
func (c candidate) Synced() error { return errors.Join(c.operator.allLoaded(), c.Engine.Synced()) }

// serve serves metrics and health until the returned function is called.
func (p *operator) serve(ctx context.Context) (stop func(), err error) {
	var certificateOf func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	if dir := p.options.serving.CertDir; dir != "" {
		files, err := certificate.NewFiles(dir, 0, nil, nil, p.log)
		if err != nil {
			return nil, fmt.Errorf("--metrics-cert-dir: %w", err)
		}
		go files.Run(ctx)
		certificateOf = files.GetCertificate
	}
	return serving.Start(serving.Config{
		Options: p.options.serving,
		Ready: slices.Concat(
			[]healthz.HealthChecker{healthz.NamedCheck("kinds", func(*http.Request) error { return p.allLoaded() })},
			p.webhooks.checks(),
			[]healthz.HealthChecker{healthz.NamedCheck("caches", func(*http.Request) error {
				return p.engine.SyncedExcept(func(k *kind.Kind) bool { return k.Versions.Converts() })
			})}),
		Notes: p.engine.Waiting,
		Live: []healthz.HealthChecker{
			healthz.NamedCheck("workers", func(*http.Request) error { return p.engine.Alive() }),
			healthz.NamedCheck("leader-election", p.election.Check),
		},
		Client: p.limited, GetCertificate: certificateOf, Log: p.log,
	})
}

// missing returns an error for a kind that cannot be run yet: its CRD or rights are missing.
func (p *operator) missing(ctx context.Context, k *kind.Kind) error {
	err := p.unproved(ctx, k)
	if k.Target != nil {
		if err == nil {
			err = p.checkRights(ctx, k)
		}
		return err
	}
	if err == nil {
		err = p.installer.Install(ctx, k)
	}
	if err == nil {
		err = errors.Join(p.missingDefinition(ctx, k), p.checkRights(ctx, k))
	}
	p.webhooks.follow(k, err)
	return err
}

// missingDefinition returns what is missing of the CRD of a kind.
func (p *operator) missingDefinition(ctx context.Context, k *kind.Kind) error {
	err := p.definitions.Missing(ctx, k)
	switch _, isAbsent := errors.AsType[engine.Absent](err); {
	case isAbsent && p.installer.Waits():
		return engine.Absent(
			fmt.Sprintf(
				"the CRD %s is missing or of another version: this process installs it when it becomes the leader",
				k.Name()))
	case isAbsent && p.installer.HasInstalled(k) && p.definitions.IsDeleted(k):
		return engine.Absent(
			fmt.Sprintf(
				"the CRD %s was deleted after this process had installed it: restart this process, or install it with 'fescue crd | kubectl apply --server-side -f -'",
				k.Name()))
	}
	return err
}
