package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// DefaultWorkers is how many objects of one kind are reconciled at a time. A reconcile
// waits for the API server most of its time, so a few suffice for many objects.
const DefaultWorkers = 4

// stopTimeout bounds how long a stop waits for running reconciles. It is below the 30 s
// after which a kubelet kills a container.
const stopTimeout = 25 * time.Second

// Config configures an engine.
type Config struct {
	// Kinds are run, each with a queue of its own.
	Kinds []*kind.Kind
	// Client reads and writes objects. It should not limit its own rate: the API
	// server's priority and fairness does that better.
	Client dynamic.Interface
	// Informers caches objects, of the namespaces that the engine works in, until after
	// Run has returned.
	Informers *informers.Informers
	// Mapper knows where the API server serves the types of children.
	Mapper meta.RESTMapper
	// Events records Events about objects.
	Events events.EventRecorder
	// Workers is the number of workers per kind; 0 means DefaultWorkers.
	Workers int
	// Pods reads the metadata of Pods; without it, kinds that inject do not report which
	// Pods have what they add.
	Pods metadata.Interface
	// Missing returns what the engine cannot know and a kind needs to run: rights or the CRD
	// that are missing. It is called until it returns nil, and after Recheck: a kind that runs
	// stops if it returns an Absent. A nil Missing means that nothing is missing.
	Missing func(context.Context, *kind.Kind) error
	// Shards is the number of parts into which the objects of all kinds are divided by UID; it
	// must be the same in all processes. Until Take is called for a part, nothing is
	// written for its objects. 0 means that this process may act on all objects at once.
	Shards int
	// Metrics counts what the engine does; nil means that no one reads them.
	Metrics *Metrics
	// Tracing records a span of each reconcile and of each of its writes; nil means none.
	Tracing trace.TracerProvider
	// Log receives what the engine does; nil means slog.Default.
	Log *slog.Logger
}

// Engine runs kinds.
type Engine struct {
	config Config
	shards *shards
	pods   *podWatch // nil if no kind injects

	mu    sync.Mutex // of the states
	kinds map[*kind.Kind]*kindState
}

// New wires an engine and does no I/O. A kind that can never be run is logged and left
// out; if none is left, that is an error.
func New(config Config) (*Engine, error) {
	if config.Workers == 0 {
		config.Workers = DefaultWorkers
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	var errs []error
	config.Kinds = slices.DeleteFunc(slices.Clone(config.Kinds), func(k *kind.Kind) bool {
		err := checkKind(k, config.Informers)
		if err != nil {
			errs = append(errs, fmt.Errorf("kind %s: %w", k.GroupVersionKind.Kind, err))
		}
		return err != nil
	})
	if len(config.Kinds) == 0 {
		return nil, cmp.Or(errors.Join(errs...), errors.New("there are no kinds to run"))
	}
	for _, err := range errs {
		config.Log.Error("kind cannot run", "error", err)
	}
	e := &Engine{config: config, shards: newShards(config.Shards), kinds: make(map[*kind.Kind]*kindState)}
	for _, k := range config.Kinds {
		e.kinds[k] = &kindState{recheck: make(chan struct{}, 1)}
	}
	e.shards.report(config.Metrics.shards)
	var err error
	e.pods, err = newPodWatch(config.Pods, config.Kinds, config.Informers)
	return e, err
}

// Run watches and reconciles until ctx ends. It then lets running reconciles finish and
// returns nil, or an error if they did not in time.
func (e *Engine) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, k := range e.config.Kinds {
		running.Go(func() { e.runKind(ctx, k) })
	}
	<-ctx.Done()
	e.config.Log.Info("stopping: waiting for running reconciles to finish")
	finished := make(chan struct{})
	go func() { running.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("stopped before all running reconciles had finished: %s", e.unfinished(time.Now()))
	}
}
