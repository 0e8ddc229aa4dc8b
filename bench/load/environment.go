package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fescue-dev/fescue/bench/byhand/api"
	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// writers is the number of clients that create and change objects at the same time.
const writers = 16

// settings are what a run is asked for.
type settings struct {
	// operator is the name of the operator, program its file, and args what is added to its
	// arguments.
	operator, program string
	args              []string
	// scale multiplies the numbers of objects, and idle is how long idle objects are watched.
	scale float64
	idle  time.Duration
	// profiles is the folder for CPU profiles of the rows and heap profiles; there are none if it is empty.
	profiles string
}

// environment is what a scenario works with: a control plane, one operator, and clients of the
// administrator.
type environment struct {
	settings
	config     *rest.Config
	client     client.Client
	cache      cache.Cache
	dir        string // for the files of this run
	namespace  string
	kubeconfig string // of the operator
	process    *process
	webhook    string // URL of the webhook for Pods
	apiServer  pid
	audit      auditLog
	rows       []*row
}

// newEnvironment prepares a control plane, with its data in controlPlane, for an operator.
func newEnvironment(
	ctx context.Context, config *rest.Config, controlPlane, dir string, s settings,
) (*environment, error) {
	e := &environment{settings: s, config: rest.CopyConfig(config), dir: dir,
		audit: auditLog(filepath.Join(controlPlane, "audit.log"))}
	e.config.QPS = -1
	e.config.UserAgent = "bench-load"
	if _, err := e.audit.size(); err != nil {
		return nil, fmt.Errorf("the control plane has no audit log, start it with -audit-policy: %w", err)
	}
	var err error
	if e.apiServer, err = findAPIServer(controlPlane); err != nil {
		return nil, err
	}
	kinds, err := load.Shipped()
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(e.config)
	if err != nil {
		return nil, err
	}
	if err := testcluster.InstallCRDs(ctx, untyped, kinds, crds.Webhook{}); err != nil {
		return nil, err
	}
	if e.client, err = newClient(e.config); err != nil {
		return nil, err
	}
	if err := e.grant(ctx); err != nil {
		return nil, err
	}
	if e.namespace, err = e.newNamespace(ctx); err != nil {
		return nil, err
	}
	e.cache, err = cache.New(e.config, cache.Options{
		Scheme: e.client.Scheme(), DefaultTransform: cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{e.namespace: {}},
	})
	if err != nil {
		return nil, err
	}
	go func() { _ = e.cache.Start(ctx) }() // it ends with ctx
	return e, nil
}

// newClient returns a client that knows the three kinds.
func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// newNamespace creates a namespace in which Pods can be created.
func (e *environment) newNamespace(ctx context.Context) (string, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "bench-"}}
	if err := e.client.Create(ctx, namespace); err != nil {
		return "", err
	}
	return namespace.Name, until(ctx, func() (bool, error) {
		err := e.client.Get(ctx, client.ObjectKey{Namespace: namespace.Name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// awaitKinds waits until the operator has reconciled an object of each kind. An operator that has not
// after a minute never will: the installed CRDs may be those of another build.
func (e *environment) awaitKinds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute,
		errors.New("the operator has not reconciled an object of each kind within a minute: were its CRDs and the load program built from the same files?"))
	defer cancel()
	namespace, err := e.newNamespace(ctx)
	if err != nil {
		return err
	}
	at := newAt(namespace, "probe", time.Now().Add(1000*time.Hour))
	watcher := newWatcher(namespace, "probe", "")
	cluster := newCustomcluster(namespace, "probe", 0, "")
	for _, object := range []client.Object{at, watcher, cluster} {
		if err := e.client.Create(ctx, object); err != nil {
			return err
		}
	}
	return until(ctx, func() (bool, error) {
		if err := e.process.hasEnded(); err != nil {
			return false, err
		}
		var errs []error
		for _, object := range []client.Object{at, watcher, cluster} {
			errs = append(errs, e.client.Get(ctx, client.ObjectKeyFromObject(object), object))
		}
		done := at.Status.Phase != "" && watcher.Status.ConfigMapName != "" &&
			(cluster.Status.Selector != "" || e.operator == floor)
		return done, errors.Join(errs...)
	})
}

// scaled returns a number of objects for a number at scale 1: at least least.
func (e *environment) scaled(n, least int) int {
	return max(least, int(math.Round(float64(n)*e.scale)))
}

// each calls a function for 0 to n-1, a few at the same time, and returns the first error.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	group.Wait()
	return context.Cause(ctx)
}

// usage is what was used until a moment.
type usage struct {
	operator, apiServer float64 // seconds of CPU
	log                 int64   // size of the audit log
}

func (e *environment) usage() (u usage, err error) {
	var errs [3]error
	u.operator, errs[0] = e.process.cpu()
	u.apiServer, errs[1] = e.apiServer.cpu()
	u.log, errs[2] = e.audit.size()
	return u, errors.Join(errs[:]...)
}

// patience is the time limit of a row in which n objects change: 10 objects a second, and a minute.
func patience(n int) time.Duration {
	return time.Minute + time.Duration(n)*100*time.Millisecond
}

// measure adds a row: what was used while action ran, and until the operator sent no more requests.
// An action that does not end within limit is reported in the row, without an error.
func (e *environment) measure(
	ctx context.Context, name string, limit time.Duration, action func(context.Context) error,
) (*row, error) {
	if err := e.process.resetPeak(); err != nil {
		return nil, err
	}
	before, err := e.usage()
	if err != nil {
		return nil, err
	}
	profiled := e.profile(ctx, name)
	r := e.addRow(name)
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	err = action(limited)
	r.Values[seconds] = time.Since(began).Seconds()
	switch {
	case limited.Err() != nil && ctx.Err() == nil:
		r.Note = fmt.Sprintf("not within %.0f s", limit.Seconds())
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := e.settle(ctx); err != nil {
		return nil, err
	}
	if err := <-profiled; err != nil {
		return nil, err
	}
	return r, e.fill(r, before)
}

func (e *environment) addRow(name string) *row {
	r := &row{Name: name, Values: make(map[string]float64)}
	e.rows = append(e.rows, r)
	return r
}

// fill sets what was used since before.
func (e *environment) fill(r *row, before usage) error {
	after, err := e.usage()
	if err != nil {
		return err
	}
	if r.Requests, err = e.audit.since(before.log, e.user()); err != nil {
		return err
	}
	r.Values[operatorCPU] = after.operator - before.operator
	r.Values[apiServerCPU] = after.apiServer - before.apiServer
	r.Values[requestCount] = float64(r.Requests.total())
	r.Values[eventCount] = float64(r.Requests.events())
	var errs [2]error
	r.Values[peakMemory], errs[0] = e.process.peak()
	r.Values[ownMemory], errs[1] = e.process.own()
	return errors.Join(errs[:]...)
}

// settle waits until the operator has sent no request for a second, but at most 15 seconds.
func (e *environment) settle(ctx context.Context) error {
	const quiet, limit = time.Second, 15 * time.Second
	began, since := time.Now(), time.Now()
	size := int64(0)
	return until(ctx, func() (bool, error) {
		now, err := e.audit.size()
		if now != size {
			size, since = now, time.Now()
		}
		return time.Since(since) > quiet || time.Since(began) > limit, err
	})
}

// profile writes a CPU profile of the operator's next seconds, if the run is asked for profiles.
// What is returned yields the error, or nil.
func (e *environment) profile(ctx context.Context, name string) <-chan error {
	done := make(chan error, 1)
	if e.profiles == "" {
		done <- nil
		return done
	}
	go func() {
		text, err := get(ctx, e.process.metrics+"/debug/pprof/profile?seconds=15")
		if err == nil {
			err = e.keepProfile(name, text)
		}
		done <- err
	}()
	return done
}

func (e *environment) keepProfile(name string, profile []byte) error {
	return os.WriteFile(filepath.Join(e.profiles, e.operator+" "+name+".pprof"), profile, 0o600)
}

// liveHeap returns the size of the operator's live heap, in MiB, and writes its profile, if the run is asked for
// profiles.
func (e *environment) liveHeap(ctx context.Context, name string) (float64, error) {
	mib, profile, err := e.process.liveHeap(ctx)
	if err == nil && e.profiles != "" {
		err = e.keepProfile(name, profile)
	}
	return mib, err
}
