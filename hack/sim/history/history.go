// Package history plays histories of a cluster in memory: the whole engine, unchanged, against the model of an API server, with users,
// a kubelet and the garbage collector, while requests fail, answers are lost, watches break and the operator is killed. What must hold
// then is checked. Each history runs in a bubble of testing/synctest, so that its time is virtual.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine"
	"github.com/fescue-dev/fescue/engine/simulate/workloads"
	"github.com/fescue-dev/fescue/hack/sim/apiserver"
	"github.com/fescue-dev/fescue/internal/informers"
)

const namespace = "default"

var pods = apiserver.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", HasStatus: true}

// Options say what a history is made of.
type Options struct {
	// Seed decides what users, the kubelet and the faults do. With the runtime of hack/sim/overlay, the order of everything follows
	// from that of simrt.
	Seed uint64
	// Kind is what users create, and Make returns the spec of an object of it.
	Kind *kind.Kind
	Make func(random *rand.Rand, now time.Time) map[string]any
	// Objects is how many users create.
	Objects int
	// Disturbed is how long faults happen, and Calm how long none do after that: long enough for all that waits to be tried again.
	Disturbed, Calm time.Duration
	Faults          apiserver.Faults
	// Kills is how often the operator is killed and started again.
	Kills int
}

// Result is what a history came to.
type Result struct {
	// Changes are all writes, in their order.
	Changes []apiserver.Change
	// Violations are what must not be.
	Violations []string
	// Objects are those that were created.
	Objects int
}

// Play plays a history in the bubble that it is called in.
func Play(o Options) (r Result, err error) {
	manifest, err := crds.Object(o.Kind, true)
	if err != nil {
		return r, err
	}
	crd := new(apiextensionsv1.CustomResourceDefinition)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, crd); err != nil {
		return r, err
	}
	store, err := apiserver.NewStore(time.Now, apiserver.Custom(crd, &crd.Spec.Versions[0]), pods)
	if err != nil {
		return r, err
	}
	h := &history{Options: o, server: apiserver.NewServer(store), random: &source{random: rand.New(rand.NewPCG(o.Seed, 1))}, began: time.Now()}
	o.Faults.Random = h.random.IntN
	h.server.Disturb(o.Faults)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { h.users(ctx) })
	others.Go(func() { h.repeat(ctx, time.Second, h.kubelet) })
	others.Go(func() { h.repeat(ctx, time.Second, func(s *apiserver.Store) { s.Collect() }) })
	for range o.Kills {
		if err := h.operate(time.Duration(h.random.IntN(int(o.Disturbed)/max(1, o.Kills))), true); err != nil {
			return r, err
		}
	}
	if left := time.Until(h.began.Add(o.Disturbed)); left > 0 {
		if err := h.operate(left, true); err != nil {
			return r, err
		}
	}
	h.server.Disturb(apiserver.Faults{})
	if err := h.operate(o.Calm, false); err != nil {
		return r, err
	}
	settled := h.version()
	if err := h.operate(time.Minute, false); err != nil {
		return r, err
	}
	if h.version() > settled {
		r.Violations = append(r.Violations, "a fresh operator writes although nothing has changed")
	}
	stop()
	others.Wait()
	h.server.Do(func(s *apiserver.Store) { r.Changes = s.Changes() })
	r.Objects = int(h.created.Load())
	r.Violations = append(r.Violations, violations(o, r.Changes)...)
	return r, nil
}

// history is one that is being played.
type history struct {
	Options
	server  *apiserver.Server
	random  *source
	began   time.Time
	created atomic.Int64
}

// source is a source of random numbers for several goroutines.
type source struct {
	mu     sync.Mutex
	random *rand.Rand
}

func (s *source) IntN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// own returns a source for one goroutine.
func (s *source) own() *rand.Rand {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rand.New(rand.NewPCG(s.random.Uint64(), 2))
}

func (h *history) version() (version int) {
	h.server.Do(func(s *apiserver.Store) { version = s.Version() })
	return version
}

// repeat does something to the store from time to time.
func (h *history) repeat(ctx context.Context, every time.Duration, do func(*apiserver.Store)) {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(h.random.IntN(int(every))))
		h.server.Do(do)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// users create objects and delete some of them, until the disturbances end.
func (h *history) users(ctx context.Context) {
	random := h.random.own()
	resource := h.Kind.GroupVersionResource()
	for i := range h.Objects {
		sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(h.Objects+1))))
		h.server.Do(func(s *apiserver.Store) {
			_, err := s.Create(resource, namespace, &unstructured.Unstructured{Object: h.Kind.Default(map[string]any{
				"apiVersion": h.Kind.GroupVersionKind.GroupVersion().String(), "kind": h.Kind.GroupVersionKind.Kind,
				"metadata": map[string]any{"name": fmt.Sprint("a", i)}, "spec": h.Make(random, time.Now()),
			})}, "user")
			if err == nil {
				h.created.Add(1)
			}
		})
		if random.IntN(4) == 0 {
			name := fmt.Sprint("a", random.IntN(i+1))
			sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(h.Objects+1))))
			h.server.Do(func(s *apiserver.Store) {
				_ = s.Delete(resource, types.NamespacedName{Namespace: namespace, Name: name})
			})
		}
	}
}

// kubelet has some Pods start, and others end.
func (h *history) kubelet(s *apiserver.Store) {
	for _, pod := range s.List(pods.GroupVersionResource) {
		changed := pod.DeepCopy()
		status := workloads.Status(pod, time.Now())
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase == string(corev1.PodRunning) {
			status, _ = workloads.End(pod, h.random.IntN(3) > 0, time.Now())["status"].(map[string]any)
		}
		if status == nil || h.random.IntN(2) == 0 {
			continue
		}
		changed.Object["status"] = status
		_, _ = s.UpdateStatus(pods.GroupVersionResource, changed, "kubelet")
	}
}

// operate runs an operator for a time. One that is killed sends and receives nothing any more from then on.
func (h *history) operate(d time.Duration, kill bool) error {
	process := &process{server: h.server}
	config := &rest.Config{Host: "http://model", Transport: process, QPS: -1, UserAgent: "fescue"}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	caches, err := informers.NewClient(config)
	if err != nil {
		return err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, meta.RESTScopeNamespace)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, err := engine.New(engine.Config{
		Kinds: []*kind.Kind{h.Kind}, Client: client, Informers: informers.New(ctx, caches, nil), Mapper: mapper,
		Log: slog.New(slog.DiscardHandler), Events: noEvents{}, Workers: 4,
	})
	if err != nil {
		return err
	}
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	time.Sleep(d)
	process.dead.Store(kill)
	stop()
	if err := <-ended; err != nil && !kill && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the operator: %w", err)
	}
	return nil
}

// process is the connection of an operator to the server.
type process struct {
	server *apiserver.Server
	dead   atomic.Bool
}

var errKilled = errors.New("the operator was killed")

// RoundTrip implements http.RoundTripper.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errKilled
	}
	response, err := p.server.RoundTrip(r)
	if p.dead.Load() && err == nil {
		_ = response.Body.Close()
		return nil, errKilled
	}
	return response, err
}

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// violations returns what must not be in the writes of a history.
func violations(o Options, changes []apiserver.Change) (found []string) {
	made := make(map[string]int) // Pods by the UID of their owner
	last := make(map[string]*unstructured.Unstructured)
	for _, c := range changes {
		object := c.After
		if object == nil {
			delete(last, idOf(c.Before))
			continue
		}
		last[idOf(object)] = object
		if object.GetKind() == pods.Kind && c.Before == nil {
			for _, owner := range object.GetOwnerReferences() {
				if made[string(owner.UID)]++; made[string(owner.UID)] > 1 {
					found = append(found, fmt.Sprintf("%s is made again for %s", idOf(object), owner.Name))
				}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		switch object := last[id]; {
		case object.GetDeletionTimestamp() != nil:
			found = append(found, id+" is still being deleted")
		case object.GetKind() == pods.Kind:
			for _, owner := range object.GetOwnerReferences() {
				if last[o.Kind.GroupVersionKind.Kind+"/"+owner.Name] == nil {
					found = append(found, id+" has no owner")
				}
			}
		default:
			if phase, _, _ := unstructured.NestedString(object.Object, "status", "phase"); !o.Kind.Phases[phase].Terminal {
				found = append(found, fmt.Sprintf("%s is %q at the end", id, phase))
			}
		}
	}
	return found
}

func idOf(object *unstructured.Unstructured) string { return object.GetKind() + "/" + object.GetName() }
