package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
)

// DefaultWorkers is how many objects of one kind are reconciled at a time. A reconcile waits for
// the API server most of its time. With as many, the queue stays short while 16 clients change
// objects as fast as they can (TestChangeBesideManyOthers).
const DefaultWorkers = 32

// stopTimeout bounds how long a stop waits for running reconciles. It is below the 30 s
// after which a kubelet kills a container.
const stopTimeout = 25 * time.Second

// ErrUnfinished reports that a stop did not wait longer for running reconciles.
var ErrUnfinished = errors.New("stopped before all running reconciles had finished")

// Config configures an engine.
type Config struct {
	// Kinds are run from the start, each with a queue of its own; Add adds others.
	Kinds []*kind.Kind
	// Client reads and writes objects. It should not limit its own rate: the API
	// server's priority and fairness does that better.
	Client dynamic.Interface
	// Writer is for writes of which no one reads the metadata.managedFields that they answer, so its
	// answers need none; nil means Client.
	Writer dynamic.Interface
	// Informers caches objects, of the namespaces that the engine works in, until after
	// Run has returned.
	Informers *informers.Informers
	// Mapper knows where the API server serves the types of children.
	Mapper meta.RESTMapper
	// Events records Events about objects, at most one for each reconcile. OnlyWarnings leaves out
	// those of type Normal.
	Events       events.EventRecorder
	OnlyWarnings bool
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
	// must be the same in all processes. Until Take is called for a part, nothing is written for its
	// objects and, if there are several, they are not cached. 0 means that this process may act on all
	// objects at once.
	Shards int
	// Metrics counts what the engine does; nil means that no one reads them.
	Metrics *Metrics
	// Log receives what the engine does; nil means slog.Default.
	Log *slog.Logger
}

// Engine runs kinds.
type Engine struct {
	config Config
	shards *shards
	// repeats and swaps are shared, because what leads back, and what exchanges names, may pass several kinds.
	repeats *repeats
	swaps   *plan.Swaps

	mu    sync.Mutex // of what follows, and of the states
	kinds map[*kind.Kind]*kindState
	order []*kind.Kind     // the kinds, in the order in which they were added
	start func(*kind.Kind) // runs a kind; nil while Run does not run
}

// New wires an engine and does no I/O. A kind that can never be run is an error.
func New(config Config) (*Engine, error) {
	if config.Writer == nil {
		config.Writer = config.Client
	}
	if config.Workers == 0 {
		config.Workers = DefaultWorkers
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Metrics == nil {
		config.Metrics = NewMetrics()
	}
	e := &Engine{config: config, shards: newShards(config.Shards), repeats: newRepeats(), swaps: plan.NewSwaps(),
		kinds: make(map[*kind.Kind]*kindState)}
	e.shards.report(config.Metrics.shards)
	return e, e.Add(config.Kinds...)
}

// Add adds kinds, also while the engine runs. Those that can never be run are left out, and the
// error joins the reasons. The kinds of one call share a cache of Pods.
func (e *Engine) Add(kinds ...*kind.Kind) error {
	var errs []error
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k *kind.Kind) bool {
		err := checkKind(k, e.config.Informers)
		if err != nil {
			errs = append(errs, fmt.Errorf("kind %s: %w", k.Title(), err))
		}
		return err != nil
	})
	pods, err := newPodWatch(e.config.Pods, kinds, e.config.Informers)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range kinds {
		state := &kindState{recheck: make(chan struct{}, 1), running: make(map[int]*controller)}
		if k.Injects() {
			state.pods = pods
		}
		e.kinds[k] = state
		e.order = append(e.order, k)
		if e.start != nil {
			e.start(k)
		}
	}
	return errors.Join(errs...)
}

// Kinds returns the kinds that were added and can be run.
func (e *Engine) Kinds() []*kind.Kind {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.order)
}

// state returns the state of a kind that was added.
func (e *Engine) state(k *kind.Kind) *kindState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kinds[k]
}

// Run watches and reconciles until ctx ends. It then lets running reconciles finish and
// returns nil, or ErrUnfinished if they did not in time.
func (e *Engine) Run(ctx context.Context) error {
	var running sync.WaitGroup
	e.mu.Lock()
	e.start = func(k *kind.Kind) { running.Go(func() { e.runKind(ctx, k) }) }
	for _, k := range e.order {
		e.start(k)
	}
	e.mu.Unlock()
	<-ctx.Done()
	e.mu.Lock()
	e.start = nil
	e.mu.Unlock()
	e.config.Log.Info("stopping: waiting for running reconciles to finish")
	finished := make(chan struct{})
	go func() { running.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("%w: %s", ErrUnfinished, e.unfinished(time.Now()))
	}
}

// unfinished lists the running reconciles, and how long each has been running.
func (e *Engine) unfinished(now time.Time) string {
	var all []string
	for _, c := range e.running() {
		c.records.running.Range(func(name, began any) bool {
			if began, ok := began.(time.Time); ok {
				all = append(all, fmt.Sprintf("%s %s for %s", c.kind.GroupVersionKind.Kind, name,
					now.Sub(began).Round(time.Second)))
			}
			return true
		})
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
