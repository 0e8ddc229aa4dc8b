package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/events"

	"github.com/fescue-dev/fescue/cue/kind"
)

// DefaultWorkers is how many objects of one kind are worked on at a time. A pass
// waits for the API server most of its time, so a few suffice for many objects.
const DefaultWorkers = 4

// stopTimeout bounds how long a stop waits for running passes. It is below the 30 s
// after which a kubelet kills a container.
const stopTimeout = 25 * time.Second

// Config is what an engine works with.
type Config struct {
	// Kinds are run each with a queue of its own.
	Kinds []*kind.Kind
	// Client reads and writes objects. It should not limit its own rate: the API
	// server's priority and fairness does that better.
	Client dynamic.Interface
	// Mapper finds where the API server serves the types of children.
	Mapper meta.RESTMapper
	// Events records Events about objects.
	Events events.EventRecorder
	// Namespaces limits the engine to these; none means all.
	Namespaces []string
	// Workers is the number of workers per kind; 0 means DefaultWorkers.
	Workers int
	// Log receives what the engine does; nil means slog.Default.
	Log *slog.Logger
}

// Engine runs kinds.
type Engine struct {
	config      Config
	watches     *watches
	controllers []*controller
}

// New wires an engine. It asks the mapper for the types of the kinds' children and
// does no other I/O. A kind with a type that is not served is logged and left out; it is
// an error if no kind is left.
func New(config Config) (*Engine, error) {
	if config.Workers == 0 {
		config.Workers = DefaultWorkers
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	e := &Engine{config: config, watches: newWatches(config.Client, config.Namespaces)}
	var errs []error
	for _, k := range config.Kinds {
		c, err := newController(k, &e.config)
		if err != nil {
			errs = append(errs, fmt.Errorf("kind %s: %w", k.GroupVersionKind.Kind, err))
			continue
		}
		e.controllers = append(e.controllers, c)
	}
	if len(e.controllers) == 0 {
		return nil, errors.Join(errs...)
	}
	for _, err := range errs {
		config.Log.Error("kind is not run", "error", err)
	}
	return e, nil
}

// Run watches and works until ctx ends. It then lets running passes finish and
// returns nil, or an error if they did not in time.
func (e *Engine) Run(ctx context.Context) error {
	// Caches outlive ctx: the passes that finish after it still read them.
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWatching()

	var running sync.WaitGroup
	for _, c := range e.controllers {
		running.Go(func() { c.run(ctx, watching, e.watches) })
	}
	<-ctx.Done()
	e.config.Log.Info("stopping: waiting for running passes to finish")
	finished := make(chan struct{})
	go func() { running.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-time.After(stopTimeout):
		return errors.New("stopped before all running passes had finished")
	}
}
