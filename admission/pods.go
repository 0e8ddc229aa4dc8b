package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/api"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/jsontext"
)

// Pods injects into Pods what the objects of their namespace add. It watches those objects and
// evaluates them when they change, so a Pod costs no evaluation and no request.
type Pods struct {
	injector  *inject.Injector
	informers Informers
	skipped   func(object runtime.Object, pod, why string)
	security  *PodSecurity // nil if nothing is checked
	metrics   *injectionMetrics
	log       *slog.Logger
	kinds     []*injectingKind
	// isOtherVersion is that of PodsConfig.
	isOtherVersion func(*kind.Kind) bool

	mu          sync.RWMutex
	byNamespace map[string][]injectable
}

// Informers share caches; *informers.Informers implements it.
type Informers interface {
	Watch(informers.Selection) (*informers.Watch, error)
}

// PodsConfig configures Pods.
type PodsConfig struct {
	// Informers cache the objects of the kinds.
	Informers Informers
	// Kinds are those that are run, whether they inject or not.
	Kinds []*kind.Kind
	// OwnNamespace is where Fescue runs, whose Pods are left alone; it is empty outside of
	// a cluster.
	OwnNamespace string
	// Skipped is called with an object that a Pod asked for and did not get; nil means no
	// function. It must not block.
	Skipped func(object runtime.Object, pod, why string)
	// Security limits what may be injected into the Pods of a namespace; nil means no limit.
	Security *PodSecurity
	// IsOtherVersion reports whether the CRD of a kind belongs to another version of it, of which
	// answers warn; nil means never.
	IsOtherVersion func(*kind.Kind) bool
	// Metrics is the registry for the metrics; nil means none.
	Metrics prometheus.Registerer
	// Log receives objects that cannot be injected; nil means slog.Default.
	Log *slog.Logger
}

// NewPods wires the injection; Run and Follow start it. It fails if the metrics are registered
// already.
func NewPods(config PodsConfig) (*Pods, error) {
	p := &Pods{
		injector:  inject.NewInjector(config.OwnNamespace, config.Kinds),
		informers: config.Informers, skipped: config.Skipped, security: config.Security,
		isOtherVersion: config.IsOtherVersion, log: config.Log,
		metrics: newInjectionMetrics(config.Kinds), byNamespace: make(map[string][]injectable),
	}
	if config.Metrics != nil {
		if err := p.metrics.register(config.Metrics); err != nil {
			return nil, fmt.Errorf("injection metrics: %w", err)
		}
	}
	if p.log == nil {
		p.log = slog.Default()
	}
	if p.skipped == nil {
		p.skipped = func(runtime.Object, string, string) {}
	}
	for _, k := range config.Kinds {
		if k.Injects() {
			p.kinds = append(p.kinds, &injectingKind{kind: k, start: make(chan struct{})})
		}
	}
	return p, nil
}

// Inject returns the answer for one Pod. It fails until all objects are known, because otherwise
// an object that is not known yet would be reported as missing.
func (p *Pods) Inject(
	ctx context.Context, request *admissionv1.AdmissionRequest,
) (patch []byte, warnings []string, err error) {
	injector, err := p.ready()
	if err != nil {
		return nil, nil, err
	}
	p.mu.RLock()
	known := p.byNamespace[request.Namespace] // is replaced, never changed
	p.mu.RUnlock()
	candidates, err := p.candidates(ctx, request.Namespace, known)
	if err != nil {
		return nil, nil, err
	}
	result, err := injector.Inject(ctx, inject.Target{Text: request.Object.Raw, Namespace: request.Namespace},
		candidates)
	if errors.Is(err, jsontext.ErrTooDeep) { // its annotations cannot be read
		return nil, []string{"nothing is injected: the Pod " + err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if request.DryRun == nil || !*request.DryRun { // a dry run must have no side effects
		p.metrics.count(result.Outcomes)
		p.report(request, result, known)
	}
	warnings = result.Warnings()
	for _, k := range p.kinds {
		if slices.ContainsFunc(result.Outcomes,
			func(o inject.Outcome) bool { return o.Kind == k.kind.GroupVersionKind.GroupKind() }) {
			warnings = append(warnings, otherVersionWarnings(p.isOtherVersion, k.kind)...)
		}
	}
	return result.Patch, warnings, nil
}

// ready returns an injector for the kinds whose objects are known. It fails while a kind that can
// be watched is still being read.
func (p *Pods) ready() (*inject.Injector, error) {
	var unavailable []schema.GroupKind
	for _, k := range p.kinds {
		switch {
		case k.synced():
		case k.late.Load():
			unavailable = append(unavailable, k.kind.GroupVersionKind.GroupKind())
		default:
			return nil, fmt.Errorf("%s: %w", k.kind.Name(), errNotSynced)
		}
	}
	if len(unavailable) == 0 {
		return p.injector, nil
	}
	return p.injector.Without(unavailable...), nil
}

// candidates returns the injections of a namespace. Those that violate the level that the
// namespace enforces are marked as forbidden. It fails if the level is not known.
func (p *Pods) candidates(ctx context.Context, namespace string, known []injectable) ([]*inject.Injection, error) {
	candidates := make([]*inject.Injection, len(known))
	for i := range known {
		candidates[i] = known[i].injection
	}
	if p.security == nil || len(known) == 0 {
		return candidates, nil
	}
	level, _, err := p.security.enforced(ctx, namespace)
	if err != nil || level.Level == api.LevelPrivileged {
		return candidates, err
	}
	for i := range known {
		if candidates[i], err = known[i].at(level, p.security); err != nil {
			return nil, err
		}
	}
	return candidates, nil
}

// at returns what is injected where a level is enforced. The result is cached.
func (o injectable) at(level api.LevelVersion, security *PodSecurity) (*inject.Injection, error) {
	if cached, ok := o.byLevel.Load(level); ok {
		return cached.(*inject.Injection), nil
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

// ownContainers returns a part without its additions to containers of the Pod: those containers
// set what a level requires themselves.
func ownContainers(part *corev1.Pod) *corev1.Pod {
	own := part.DeepCopy()
	isAddition := func(c corev1.Container) bool { return c.Image == "" }
	own.Spec.InitContainers = slices.DeleteFunc(own.Spec.InitContainers, isAddition)
	own.Spec.Containers = slices.DeleteFunc(own.Spec.Containers, isAddition)
	return own
}

// report reports the objects that could not be injected.
func (p *Pods) report(request *admissionv1.AdmissionRequest, result *inject.Result, known []injectable) {
	for _, outcome := range result.Outcomes {
		if outcome.Done() {
			continue
		}
		i := slices.IndexFunc(known, func(o injectable) bool { return o.injection.Object() == outcome.Object })
		if i < 0 {
			continue // no object exists to report it on
		}
		p.skipped(known[i].regarding, podName(request), outcome.Message)
	}
}

// podName returns the name of the Pod of a request, or how it will begin.
func podName(request *admissionv1.AdmissionRequest) string {
	if request.Name != "" {
		return request.Name
	}
	pod, _ := jsontext.Parse(request.Object.Raw) // Inject has parsed it before
	defer pod.Release()
	metadata := pod.Member("metadata")
	if name := metadata.Member("name").String(); name != "" {
		return name
	}
	return metadata.Member("generateName").String() + "…"
}
