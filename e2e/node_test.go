package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/internal/testcluster"
)

// TestNodeScripts installs Fescue from its own image on a node that runs containers, and
// does what its users do.
func TestNodeScripts(t *testing.T) {
	if os.Getenv("DEVCLUSTER_NODE") != "real" {
		t.Skip("needs a real node: make test-node")
	}
	runScripts(t, "node")
}

// load is what users do while something happens to Fescue: dry runs of creating an At go
// through admission, and some Ats are really made.
type load struct {
	ats   dynamic.ResourceInterface
	retry bool // an At is tried again until it is made

	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	dryRuns  int
	made     []string
	failures []string
}

// loadCommand makes the command "load start [retry]" or "load stop" of scripts. It goes on
// until there was enough of it to show something. When it is stopped, all Ats that were made
// have to get done, and unless failures were to be tried again there may have been none.
func loadCommand(config *rest.Config) func(ts *testscript.TestScript, neg bool, args []string) {
	var current *load
	return func(ts *testscript.TestScript, neg bool, args []string) {
		switch command := strings.Join(args, " "); {
		case neg:
			ts.Fatalf("load cannot be negated")
		case command == "start", command == "start retry":
			client, err := dynamic.NewForConfig(config)
			ts.Check(err)
			current = &load{ats: client.Resource(ats).Namespace(ts.Getenv("NAMESPACE")), retry: len(args) == 2}
			current.start()
			ts.Defer(current.stop)
		case command == "stop":
			enough := testcluster.WaitUntil(current.enough)
			current.stop()
			current.running.Wait()
			ts.Logf("%d dry runs, %d Ats, %d failures", current.dryRuns, len(current.made), len(current.failures))
			if !enough {
				ts.Fatalf("these are too few to show anything: %s", strings.Join(current.failures, "\n"))
			}
			ts.Check(current.check())
		default:
			ts.Fatalf("usage: load start [retry] | stop")
		}
	}
}

func (l *load) start() {
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	const users = 4
	for range users {
		l.running.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) { _ = l.try(ctx, "dry-run", []string{metav1.DryRunAll}) }, 20*time.Millisecond)
		})
	}
	// Each of these is a container.
	l.running.Go(func() { wait.UntilWithContext(ctx, l.make, 2*time.Second) })
}

// make creates an At that runs.
func (l *load) make(ctx context.Context) {
	name := "load-" + strings.ToLower(rand.Text())
	err := l.try(ctx, name, nil)
	for err != nil && l.retry && ctx.Err() == nil {
		err = l.try(ctx, name, nil) // which may reach another replica
	}
}

// try creates an At, and notes a failure.
func (l *load) try(ctx context.Context, name string, dryRun []string) error {
	at := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ats.GroupVersion().String(), "kind": "At", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"schedule": longAgo, "command": "true"},
	}}
	began := time.Now()
	_, err := l.ats.Create(ctx, at, metav1.CreateOptions{DryRun: dryRun})
	if ctx.Err() != nil {
		return nil // it is over
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Sprintf("%s %s after %s: %v", began.Format(time.StampMilli), name, time.Since(began), err))
	} else if len(dryRun) == 0 {
		l.made = append(l.made, name)
	} else {
		l.dryRuns++
	}
	return err
}

// enough tells whether what users did shows something.
func (l *load) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dryRuns >= 50 && len(l.made) >= 3
}

func (l *load) check() error {
	if !l.retry && len(l.failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(l.failures, "\n"))
	}
	if !testcluster.WaitUntil(func() bool {
		list, err := l.ats.List(context.Background(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return phaseOf(&o) != "DONE" })
	}) {
		return fmt.Errorf("of the Ats %q not all are done", l.made)
	}
	return nil
}
