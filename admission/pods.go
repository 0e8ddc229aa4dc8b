package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/pod-security-admission/api"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
)

// Pods injects into Pods what the objects of their namespace add. It follows those objects
// and asks their kinds when they change, so that a Pod costs no evaluation and no request.
type Pods struct {
	injector *inject.Injector
	refused  func(object runtime.Object, pod, why string)
	security *PodSecurity // nil if nothing is checked
	metrics  *injectionMetrics
	log      *slog.Logger
	follow   []*followed

	mu          sync.RWMutex
	byNamespace map[string][]injectable
}

// followed is a kind that injects, with its objects.
type followed struct {
	kind   *kind.Kind
	caches []objectCache
	// start is closed once nothing keeps the kind from being followed.
	start chan struct{}
	once  sync.Once
	// late says that something was missing for the kind; it is then not waited for.
	late atomic.Bool
}

// objectCache has the objects of a kind, of one namespace or of all.
type objectCache struct {
	informer cache.SharedIndexInformer
	filled   cache.ResourceEventHandlerRegistration
}

// filled tells whether all objects are known.
func (f *followed) filled() bool {
	for _, c := range f.caches {
		if !c.filled.HasSynced() {
			return false
		}
	}
	return true
}

// injectable is an object with what it adds to Pods.
type injectable struct {
	injection *inject.Injection
	// regarding names the object in an Event.
	regarding *unstructured.Unstructured
	// byLevel has by Pod Security level what is injected where that is enforced.
	byLevel *sync.Map
}

// PodsConfig is what Pods are injected with.
type PodsConfig struct {
	// Client follows the objects of the kinds.
	Client dynamic.Interface
	// Kinds are those that are run; the ones that inject nothing are passed over.
	Kinds []*kind.Kind
	// Namespaces limits which objects are followed; none means all.
	Namespaces []string
	// OwnNamespace is where Fescue runs, whose Pods are left alone; it is empty outside of
	// a cluster.
	OwnNamespace string
	// Refused is told of an object that a Pod asked for and could not get; nil means nobody.
	// It must not wait for anything.
	Refused func(object runtime.Object, pod, why string)
	// Security says what may not be injected into the Pods of a namespace; nil means nothing.
	Security *PodSecurity
	// Metrics is where the metrics are registered; nil means nowhere.
	Metrics prometheus.Registerer
	// Log receives objects that nothing can be injected of; nil means slog.Default.
	Log *slog.Logger
}

// NewPods wires the informers; Run and Follow start them. It is an error if the metrics are
// registered already.
func NewPods(config PodsConfig) (*Pods, error) {
	p := &Pods{
		injector: inject.NewInjector(config.OwnNamespace, config.Kinds),
		refused:  config.Refused, security: config.Security, log: config.Log, byNamespace: make(map[string][]injectable),
		metrics: newInjectionMetrics(config.Kinds),
	}
	if config.Metrics != nil {
		if err := p.metrics.register(config.Metrics); err != nil {
			return nil, fmt.Errorf("metrics of injections: %w", err)
		}
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	if p.refused == nil {
		p.refused = func(runtime.Object, string, string) {}
	}
	namespaces := config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, k := range config.Kinds {
		if !k.Injects() {
			continue
		}
		f := &followed{kind: k, start: make(chan struct{})}
		for _, namespace := range namespaces {
			informer := dynamicinformer.NewFilteredDynamicInformer(config.Client, k.GroupVersionResource(), namespace, 0, cache.Indexers{}, nil).Informer()
			filled, err := informer.AddEventHandler(p.handler(k))
			if err != nil {
				return nil, fmt.Errorf("follow %s: %w", k.GroupVersionResource(), err)
			}
			f.caches = append(f.caches, objectCache{informer, filled})
		}
		p.follow = append(p.follow, f)
	}
	return p, nil
}

// Follow is told what keeps a kind from being run, such as a CRD that is not installed; nil is
// nothing. Only then are its objects followed. Until then Pods are injected without them.
func (p *Pods) Follow(k *kind.Kind, missing error) {
	for _, f := range p.follow {
		switch {
		case f.kind != k:
		case missing != nil:
			f.late.Store(true)
		default:
			f.once.Do(func() { close(f.start) })
		}
	}
}

// Run follows the objects of the kinds that Follow names, until ctx ends.
func (p *Pods) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, f := range p.follow {
		running.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-f.start:
			}
			for _, c := range f.caches {
				running.Go(func() { c.informer.RunWithContext(ctx) })
			}
		})
	}
	running.Wait()
}

// errNotFilled says that it is not known yet what there is to inject.
var errNotFilled = errors.New("the objects that inject are still being read")

// Ready is nil once all objects are known, but for those of kinds that something is missing
// for: one kind must not hold up the others.
func (p *Pods) Ready() error {
	_, err := p.known()
	return err
}

// known is the injector for the kinds whose objects are known. It is an error if that is yet
// to come for one that nothing is missing for.
func (p *Pods) known() (*inject.Injector, error) {
	var unavailable []schema.GroupKind
	for _, f := range p.follow {
		switch {
		case f.filled():
		case f.late.Load():
			unavailable = append(unavailable, f.kind.GroupVersionKind.GroupKind())
		default:
			return nil, fmt.Errorf("%s: %w", f.kind.GroupVersionResource().GroupResource(), errNotFilled)
		}
	}
	if len(unavailable) == 0 {
		return p.injector, nil
	}
	return p.injector.Without(unavailable...), nil
}

// Inject is the answer for one Pod. Until all objects are known it is an error: a Pod
// must not be told that there is no such object.
func (p *Pods) Inject(ctx context.Context, request *admissionv1.AdmissionRequest) (patch []byte, warnings []string, err error) {
	injector, err := p.known()
	if err != nil {
		return nil, nil, err
	}
	p.mu.RLock()
	there := p.byNamespace[request.Namespace] // is replaced, never changed
	p.mu.RUnlock()
	candidates, err := p.candidates(ctx, request.Namespace, there)
	if err != nil {
		return nil, nil, err
	}
	result, err := injector.Inject(request.Object.Raw, request.Namespace, candidates)
	if err != nil {
		return nil, nil, err
	}
	if request.DryRun == nil || !*request.DryRun { // which must have no side effects
		p.metrics.count(result.Outcomes)
		p.report(request, result, there)
	}
	return result.Patch, result.Warnings(), nil
}

// candidates are the injections of a namespace, those that exceed what it enforces without what
// they add. It is an error if that is not known.
func (p *Pods) candidates(ctx context.Context, namespace string, there []injectable) ([]*inject.Injection, error) {
	candidates := make([]*inject.Injection, len(there))
	for i := range there {
		candidates[i] = there[i].injection
	}
	if p.security == nil || len(there) == 0 {
		return candidates, nil
	}
	level, _, err := p.security.enforced(ctx, namespace)
	if err != nil || level.Level == api.LevelPrivileged {
		return candidates, err
	}
	for i := range there {
		if candidates[i], err = there[i].at(level, p.security); err != nil {
			return nil, err
		}
	}
	return candidates, nil
}

// ownContainers is a part without what it adds to containers of the Pod, which say themselves
// what a level asks for.
func ownContainers(part *corev1.Pod) *corev1.Pod {
	own := part.DeepCopy()
	isAddition := func(c corev1.Container) bool { return c.Image == "" }
	own.Spec.InitContainers = slices.DeleteFunc(own.Spec.InitContainers, isAddition)
	own.Spec.Containers = slices.DeleteFunc(own.Spec.Containers, isAddition)
	return own
}

// at is what is injected where a level is enforced. It is worked out once.
func (o injectable) at(level api.LevelVersion, security *PodSecurity) (*inject.Injection, error) {
	if known, ok := o.byLevel.Load(level); ok {
		return known.(*inject.Injection), nil
	}
	part, err := o.injection.Part()
	if err != nil {
		return nil, err
	}
	injection := o.injection
	if violation := security.violation(level, ownContainers(part)); violation != "" {
		injection = injection.Forbidden(violation)
	}
	o.byLevel.Store(level, injection)
	return injection, nil
}

// report tells of the objects that could not be injected.
func (p *Pods) report(request *admissionv1.AdmissionRequest, result *inject.Result, there []injectable) {
	for _, outcome := range result.Outcomes {
		if outcome.Done() {
			continue
		}
		i := slices.IndexFunc(there, func(o injectable) bool { return o.injection.Object() == outcome.Object })
		if i < 0 {
			continue // there is none to tell it of
		}
		p.refused(there[i].regarding, podName(request), outcome.Message)
	}
}

// podName is the name of the Pod of a request, or how it will begin.
func podName(request *admissionv1.AdmissionRequest) string {
	if request.Name != "" {
		return request.Name
	}
	pod := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil || pod.Name == "" {
		return pod.GenerateName + "…"
	}
	return pod.Name
}

func (p *Pods) handler(k *kind.Kind) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.changed(k, object) },
		UpdateFunc: func(_, object any) { p.changed(k, object) },
		DeleteFunc: func(object any) {
			if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if u, ok := object.(*unstructured.Unstructured); ok {
				p.set(k, u, nil)
			}
		},
	}
}

// changed makes ready what an object adds. One that is not valid adds nothing.
func (p *Pods) changed(k *kind.Kind, object any) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	injection, err := injectionOf(k, u)
	if err != nil {
		p.log.Warn("nothing is injected of an object", "kind", k.GroupVersionKind.Kind, "object", cache.MetaObjectToName(u).String(), "error", err)
	}
	p.set(k, u, injection)
}

// injectionOf is what an object adds; nil is nothing.
func injectionOf(k *kind.Kind, u *unstructured.Unstructured) (*inject.Injection, error) {
	if u.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	defaulted, errs := k.DefaultAndValidateStored(u.Object)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return inject.Of(k, defaulted)
}

// set replaces what an object adds; nil is nothing.
func (p *Pods) set(k *kind.Kind, u *unstructured.Unstructured, injection *inject.Injection) {
	object := inject.Object{Kind: k.GroupVersionKind.GroupKind(), Name: u.GetName()}
	p.mu.Lock()
	defer p.mu.Unlock()
	there := slices.DeleteFunc(slices.Clone(p.byNamespace[u.GetNamespace()]), func(o injectable) bool { return o.injection.Object() == object })
	if injection != nil {
		regarding := &unstructured.Unstructured{}
		regarding.SetGroupVersionKind(k.GroupVersionKind)
		regarding.SetNamespace(u.GetNamespace())
		regarding.SetName(u.GetName())
		regarding.SetUID(u.GetUID())
		there = append(there, injectable{injection, regarding, &sync.Map{}})
	}
	if len(there) == 0 {
		delete(p.byNamespace, u.GetNamespace())
		return
	}
	p.byNamespace[u.GetNamespace()] = there
}
