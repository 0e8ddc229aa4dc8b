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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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

// Options say what a history is made of.
type Options struct {
	// Seed decides what users, the kubelet and the faults do. With the runtime of hack/sim/overlay, the order of everything follows
	// from that of simrt.
	Seed uint64
	// Kinds are what the operator runs and users create. Make returns an object of one of them; nil is one that its schema makes.
	Kinds []*kind.Kind
	Make  func(random *rand.Rand, k *kind.Kind, now time.Time) map[string]any
	// Objects is how many users create.
	Objects int
	// Once means that a child is never made again for an owner that exists, and Ends that each object is in a terminal phase in the end.
	Once, Ends bool
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
	served, err := servedFor(o.Kinds)
	if err != nil {
		return r, err
	}
	store, err := apiserver.NewStore(time.Now, served...)
	if err != nil {
		return r, err
	}
	if o.Make == nil {
		o.Make = sampled
	}
	h := &history{Options: o, served: served, server: apiserver.NewServer(store), random: &source{random: rand.New(rand.NewPCG(o.Seed, 1))}, began: time.Now()}
	o.Faults.Random = h.random.IntN
	h.server.Disturb(o.Faults)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { h.users(ctx) })
	others.Go(func() { h.repeat(ctx, time.Second, h.workloads) })
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
	settled := h.writes.Load()
	if err := h.operate(time.Minute, false); err != nil {
		return r, err
	}
	if writes := h.writes.Load() - settled; writes > 0 {
		r.Violations = append(r.Violations, fmt.Sprintf("a fresh operator sends %d writes although nothing has changed", writes))
	}
	stop()
	others.Wait()
	h.server.Do(func(s *apiserver.Store) { r.Changes = s.Changes() })
	r.Objects = h.created
	r.Violations = slices.Concat(r.Violations, h.outdated, violations(o, r.Changes))
	return r, nil
}

// servedFor returns the resources that kinds need: their own, and those of what they own and read.
func servedFor(kinds []*kind.Kind) (served []apiserver.Resource, err error) {
	types := sets.New(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	for _, k := range kinds {
		manifest, err := crds.Object(k, true)
		if err != nil {
			return nil, err
		}
		crd := new(apiextensionsv1.CustomResourceDefinition)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, crd); err != nil {
			return nil, err
		}
		resource, err := apiserver.Custom(crd)
		if err != nil {
			return nil, err
		}
		served = append(served, resource)
		types.Insert(k.Owns...)
		for _, l := range k.Lookups {
			types.Insert(l.Type)
		}
	}
	for _, k := range kinds {
		types.Delete(k.GroupVersionKind)
	}
	of := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
	for _, gvk := range slices.SortedFunc(maps.Keys(types), of) {
		served = append(served, apiserver.BuiltIn(gvk))
	}
	return served, nil
}

// sampled returns an object that the schema of a kind makes.
func sampled(random *rand.Rand, k *kind.Kind, _ time.Time) map[string]any {
	sample := k.Sampler()
	for {
		object := sample(random)
		delete(object, "status")
		metadata, _ := object["metadata"].(map[string]any)
		object["metadata"] = map[string]any{"name": "a", "labels": metadata["labels"], "annotations": metadata["annotations"]}
		if object = k.Default(object); len(k.Problems(object)) == 0 {
			return object
		}
	}
}

// history is one that is being played.
type history struct {
	Options
	served  []apiserver.Resource
	server  *apiserver.Server
	random  *source
	began   time.Time
	created int          // by users
	writes  atomic.Int64 // of operators
	// outdated are the writes of operators that were based on a state older than the same operator's last write.
	outdated []string
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

// users create objects, delete some of them, and delete what these own, until the disturbances end.
func (h *history) users(ctx context.Context) {
	random := h.random.own()
	pause := func() { sleep(ctx, time.Duration(random.IntN(int(h.Disturbed)/(2*h.Objects+1)))) }
	for i := range h.Objects {
		pause()
		k := h.Kinds[random.IntN(len(h.Kinds))]
		resource := k.GroupVersionResource()
		object := &unstructured.Unstructured{Object: h.Make(random, k, time.Now())}
		object.SetName(fmt.Sprint("a", i))
		h.server.Do(func(s *apiserver.Store) {
			if _, err := s.Create(resource, namespaceFor(k), object, "user"); err == nil {
				h.created++
			}
		})
		pause()
		name := types.NamespacedName{Namespace: namespaceFor(k), Name: fmt.Sprint("a", random.IntN(i+1))}
		switch random.IntN(4) {
		case 0:
			h.server.Do(func(s *apiserver.Store) { _ = s.Delete(resource, name) })
		case 1:
			h.server.Do(func(s *apiserver.Store) { h.damage(s, random) })
		case 2:
			other := h.Make(random, k, time.Now())
			h.server.Do(func(s *apiserver.Store) { h.edit(s, k, name, other) })
		}
	}
}

func namespaceFor(k *kind.Kind) string {
	if k.Scope == apiextensionsv1.ClusterScoped {
		return ""
	}
	return namespace
}

// edit gives an object the spec of another, unless its schema forbids that change.
func (h *history) edit(s *apiserver.Store, k *kind.Kind, name types.NamespacedName, other map[string]any) {
	live := s.Get(k.GroupVersionResource(), name)
	if live == nil {
		return
	}
	changed := live.DeepCopy()
	changed.Object["spec"] = other["spec"]
	if len(k.Check(k.NewBudget(), changed.Object).ValidateUpdate(k.Check(k.NewBudget(), live.Object))) == 0 {
		_, _ = s.Update(k.GroupVersionResource(), changed, "user")
	}
}

// damage deletes something that an object owns, unless that is made once.
func (h *history) damage(s *apiserver.Store, random *rand.Rand) {
	if h.Once {
		return
	}
	r := h.served[random.IntN(len(h.served))]
	for _, object := range s.List(r.GroupVersionResource) {
		if len(object.GetOwnerReferences()) > 0 && random.IntN(2) == 0 {
			_ = s.Delete(r.GroupVersionResource, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
			return
		}
	}
}

// workloads has some objects get the status that Kubernetes gives them, and some Pods and Jobs end.
func (h *history) workloads(s *apiserver.Store) {
	for _, r := range h.served {
		if r.CRD != nil || !r.HasStatus {
			continue
		}
		for _, object := range s.List(r.GroupVersionResource) {
			if h.random.IntN(2) == 0 {
				continue
			}
			status := workloads.Status(object, time.Now())
			if status == nil && object.Object["status"] != nil && mayEnd(object) {
				status, _ = workloads.End(object, h.random.IntN(3) > 0, time.Now())["status"].(map[string]any)
			}
			if status == nil {
				continue
			}
			changed := object.DeepCopy()
			changed.Object["status"] = status
			_, _ = s.UpdateStatus(r.GroupVersionResource, changed, "kubernetes")
		}
	}
}

// mayEnd reports whether a Pod or a Job may end: Pods that are restarted for ever do not, nor what has ended.
func mayEnd(object *unstructured.Unstructured) bool {
	policy, _, _ := unstructured.NestedString(object.Object, "spec", "restartPolicy")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	isComplete := slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == string(batchv1.JobComplete) || condition["type"] == string(batchv1.JobFailed)
	})
	switch object.GetKind() {
	case "Pod":
		return policy != "" && policy != string(corev1.RestartPolicyAlways) && phase == string(corev1.PodRunning)
	case "Job":
		return !isComplete
	}
	return false
}

// operate runs an operator for a time. One that is killed sends and receives nothing any more from then on.
func (h *history) operate(d time.Duration, kill bool) error {
	process := newProcess(h)
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
	for _, r := range h.served {
		mapper.AddSpecific(r.GroupVersion().WithKind(r.Kind), r.GroupVersionResource, r.GroupVersionResource, scopeOf(r))
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, err := engine.New(engine.Config{
		Kinds: h.Kinds, Client: client, Informers: informers.New(ctx, caches, nil), Mapper: mapper,
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
	h.outdated = append(h.outdated, process.outdated...)
	return nil
}

func scopeOf(r apiserver.Resource) meta.RESTScope {
	if r.IsClusterScoped {
		return meta.RESTScopeRoot
	}
	return meta.RESTScopeNamespace
}

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// violations returns what must not be in the writes of a history.
func violations(o Options, changes []apiserver.Change) (found []string) {
	made := make(map[string]bool) // children by their owner
	last := make(map[string]*unstructured.Unstructured)
	for _, c := range changes {
		object := c.After
		if object == nil {
			delete(last, idOf(c.Before))
			continue
		}
		last[idOf(object)] = object
		for _, owner := range object.GetOwnerReferences() {
			id := idOf(object) + " of " + string(owner.UID)
			of := ownerIn(last, object, owner)
			if o.Once && c.Before == nil && made[id] && of != nil && of.GetUID() == owner.UID { // one that is gone may be known to be so later
				found = append(found, fmt.Sprintf("%s is made again for %s", idOf(object), owner.Name))
			}
			made[id] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		object := last[id]
		mayStay := slices.ContainsFunc(o.Kinds, func(k *kind.Kind) bool { // for a Job that fails
			return k.GroupVersionKind == object.GroupVersionKind() && k.OnDelete != ""
		})
		if object.GetDeletionTimestamp() != nil && !mayStay {
			found = append(found, id+" is still being deleted")
		}
		for _, owner := range object.GetOwnerReferences() {
			if ownerIn(last, object, owner) == nil {
				found = append(found, id+" has no owner")
			}
		}
		phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		for _, k := range o.Kinds {
			if o.Ends && k.GroupVersionKind == object.GroupVersionKind() && !k.Phases[phase].Terminal {
				found = append(found, fmt.Sprintf("%s is %q at the end", id, phase))
			}
		}
	}
	return found
}

// ownerIn returns the owner of an object, which has its namespace or none, by its name.
func ownerIn(all map[string]*unstructured.Unstructured, object *unstructured.Unstructured, reference metav1.OwnerReference) *unstructured.Unstructured {
	if owner := all[reference.Kind+"/"+object.GetNamespace()+"/"+reference.Name]; owner != nil {
		return owner
	}
	return all[reference.Kind+"//"+reference.Name]
}

func idOf(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
}
