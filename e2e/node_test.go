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

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// TestNodeScripts installs Fescue from its own image on a node that runs containers, and uses it.
func TestNodeScripts(t *testing.T) {
	if os.Getenv("DEVCLUSTER_NODE") != "real" {
		t.Skip("needs a real node: make test-node")
	}
	runScripts(t, "node")
}

// traffic acts as users while something happens to Fescue: it submits dry runs of new
// Ats, and creates some.
type traffic struct {
	ats   dynamic.ResourceInterface
	retry bool // until an At is created

	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	dryRuns  int
	created  []string
	failures []string
}

// loadCommand returns the command "load start [retry]" or "load stop" of scripts. A stop waits
// until there was enough load to show something. Then all created Ats have to reach DONE, and
// without retry nothing may have failed.
func loadCommand(config *rest.Config) func(ts *testscript.TestScript, neg bool, args []string) {
	var current *traffic
	return func(ts *testscript.TestScript, neg bool, args []string) {
		switch command := strings.Join(args, " "); {
		case neg:
			ts.Fatalf("load cannot be negated")
		case command == "start", command == "start retry":
			client, err := dynamic.NewForConfig(config)
			ts.Check(err)
			current = &traffic{ats: client.Resource(ats).Namespace(ts.Getenv("NAMESPACE")), retry: len(args) == 2}
			current.start()
			ts.Defer(current.stop)
		case command == "stop":
			enough := testcluster.WaitUntil(current.enough)
			current.stop()
			current.running.Wait()
			ts.Logf("%d dry runs, %d Ats, %d failures", current.dryRuns, len(current.created), len(current.failures))
			if !enough {
				ts.Fatalf("too few to show anything: %s", strings.Join(current.failures, "\n"))
			}
			ts.Check(current.check())
		default:
			ts.Fatalf("usage: load start [retry] | stop")
		}
	}
}

func (l *traffic) start() {
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	const users = 4
	for range users {
		l.running.Go(func() {
			wait.UntilWithContext(ctx, func(ctx context.Context) { _ = l.try(ctx, "dry-run", []string{metav1.DryRunAll}) }, 20*time.Millisecond)
		})
	}
	// Each of these is a container.
	l.running.Go(func() { wait.UntilWithContext(ctx, l.create, 2*time.Second) })
}

// create creates an At that runs.
func (l *traffic) create(ctx context.Context) {
	name := "load-" + strings.ToLower(rand.Text())
	err := l.try(ctx, name, nil)
	for err != nil && l.retry && ctx.Err() == nil {
		err = l.try(ctx, name, nil) // which may reach another replica
	}
}

// try creates an At, and records a failure.
func (l *traffic) try(ctx context.Context, name string, dryRun []string) error {
	at := newObject(ats, "At", name, map[string]any{"schedule": longAgo, "command": "true"})
	began := time.Now()
	_, err := l.ats.Create(ctx, at, metav1.CreateOptions{DryRun: dryRun})
	if ctx.Err() != nil {
		return nil // stopped
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Sprintf("%s %s after %s: %v", began.Format(time.StampMilli), name, time.Since(began), err))
	} else if len(dryRun) == 0 {
		l.created = append(l.created, name)
	} else {
		l.dryRuns++
	}
	return err
}

// enough reports whether there was enough load to show something.
func (l *traffic) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dryRuns >= 50 && len(l.created) >= 3
}

// check returns an error if something failed, or if an At does not reach DONE.
func (l *traffic) check() error {
	if !l.retry && len(l.failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(l.failures, "\n"))
	}
	if !testcluster.WaitUntil(func() bool {
		list, err := l.ats.List(context.Background(), metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(list.Items, func(o unstructured.Unstructured) bool { return phaseOf(&o) != "DONE" })
	}) {
		return fmt.Errorf("not all Ats reach DONE: %q", l.created)
	}
	return nil
}
