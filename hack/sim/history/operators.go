package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/operator/election"
)

// operateAll runs so many operators for a time, each of which may be killed and started again.
func (h *history) operateAll(count int, d time.Duration, kills int, kill bool) error {
	until := time.Now().Add(d)
	var running errgroup.Group
	for range count {
		running.Go(func() error {
			for i := 0; time.Now().Before(until); i++ {
				d := time.Until(until)
				if i < kills {
					d = min(d, time.Duration(h.random.IntN(int(h.Disturbed)/kills)))
				}
				if err := h.operate(d, kill); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return running.Wait()
}

// operate runs an operator for a time, or until it has lost its Leases. One that is killed sends and receives nothing
// any more from then on.
func (h *history) operate(d time.Duration, kill bool) error {
	process := newProcess(h)
	config := &rest.Config{Host: "http://model", Transport: process, QPS: -1, UserAgent: process.name}
	elected, err := h.election(config, kill)
	if err != nil {
		return err
	}
	acting, err := elected.Guard(config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	kinds := h.Kinds
	if h.Builds && kill && (h.Stays || h.random.IntN(2) == 0) {
		h.tell("%s is of a former build", process.name)
		kinds = h.former
	}
	e, pods, err := h.engine(ctx, kinds, config, acting, elected)
	if err != nil {
		return err
	}
	webhooks, err := h.webhooks.serve(ctx, pods)
	if err != nil {
		return err
	}
	h.tell("%s starts", process.name)
	defer h.running(e)()
	ended := make(chan error, 1)
	go func() { ended <- elected.Run(ctx, e) }()
	select {
	case err = <-ended:
		h.tell("%s ends: %v", process.name, err)
		process.dead.Store(true)
		h.webhooks.leave(webhooks)
	case <-time.After(d):
		h.tell("%s is stopped", process.name)
		process.dead.Store(kill)
		h.webhooks.leave(webhooks)
		stop()
		err = <-ended
	}
	// a request that arrives late may keep a reconcile longer than a stop waits; the process ends nevertheless
	isUnfinished := errors.Is(err, engine.ErrUnfinished) && h.Stall > 0
	if isUnfinished {
		process.dead.Store(true)
	}
	isOver := isUnfinished || errors.Is(err, context.Canceled) ||
		errors.Is(err, election.ErrLeaseLost) && h.Stays // it is started again
	if err != nil && !kill && !isOver {
		return fmt.Errorf("the operator: %w", err)
	}
	return nil
}

// engine returns that of an operator for kinds, and what injects into Pods. It reads by config, and writes by acting.
func (h *history) engine(
	ctx context.Context, kinds []*kind.Kind, config, acting *rest.Config, elected election.Election,
) (*engine.Engine, *admission.Pods, error) {
	client, err := dynamic.NewForConfig(acting)
	if err != nil {
		return nil, nil, err
	}
	caches, err := informers.NewClient(config)
	if err != nil {
		return nil, nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, r := range h.Served {
		mapper.AddSpecific(r.GroupVersion().WithKind(r.Kind), r.GroupVersionResource, r.GroupVersionResource,
			scopeOf(r))
	}
	caching := informers.New(ctx, caches, nil)
	installs := newInstallation(client, elected.Identity(), elected.Elected(), caching)
	missing := h.absent
	if h.Installs {
		missing = installs.missing
	}
	pods, missing, err := h.webhooks.injector(caching, kinds, missing)
	if err != nil {
		return nil, nil, err
	}
	metadataOfPods, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(engine.Config{
		Client: client, Informers: caching, Mapper: mapper, Pods: metadataOfPods,
		Log: slog.New(errorLog{h}), Events: events{&h.notes}, Workers: h.Workers, Shards: elected.Shards(),
		Missing: missing,
	})
	if err != nil {
		return nil, nil, err
	}
	if h.Installs {
		if err := installs.follow(ctx, e, kinds); err != nil {
			return nil, nil, err
		}
	}
	return e, pods, e.Add(kinds...)
}

// absent returns why a kind cannot run: its CRD is not there.
func (h *history) absent(_ context.Context, k *kind.Kind) (err error) {
	h.server.Do("", func(s *apiserver.Store) {
		if k.Target == nil && !s.Serves(h.resourceOf(k)) {
			err = engine.Absent("the CRD is gone")
		}
	})
	return err
}

// running notes that an engine runs, until what it returns is called.
func (h *history) running(e *engine.Engine) (ended func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engines = append(h.engines, e)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.engines = slices.DeleteFunc(h.engines, func(other *engine.Engine) bool { return other == e })
	}
}

// recheck tells the operators some time later that the CRD of a kind has come or gone.
func (h *history) recheck(k *kind.Kind) {
	time.Sleep(time.Duration(h.random.IntN(int(3 * time.Second))))
	h.mu.Lock()
	engines := slices.Clone(h.engines)
	h.mu.Unlock()
	for _, e := range engines {
		e.Recheck(k.Name())
	}
}

// errorLog is the log of an operator, of which nothing is read but that it has a bug.
type errorLog struct{ h *history }

func (errorLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l errorLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	if strings.Contains(text, "bug in Fescue") {
		l.h.note(text)
	}
	return nil
}

func (l errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l errorLog) WithGroup(string) slog.Handler { return l }

// election is that of an operator, with the durations that it has by default or, when nothing is disturbed, ten times
// as long: renewals would take half of the time of a history.
func (h *history) election(config *rest.Config, isDisturbed bool) (election.Election, error) {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON // the model knows no protobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	unit := time.Second
	if !isDisturbed && !h.Builds {
		unit *= 10
	}
	o := election.Options{Elect: h.Operators > 0, Shards: max(1, h.Shards), LeaseDuration: 15 * unit,
		RenewDeadline: 10 * unit, RetryPeriod: 2 * unit}
	names := election.Names{Leader: install.LeaseName, Member: install.MemberLease, Shard: install.ShardLease}
	return election.New(o, names, client, leases, slog.New(slog.DiscardHandler))
}

func scopeOf(r apiserver.Resource) meta.RESTScope {
	if r.IsClusterScoped {
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}
