package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
)

// unended selects the Pods that have not ended. Ended ones need no sidecar any more, and the
// metadata alone does not show that.
const unended = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)

// injectionIndex finds Pods by the objects that they name or that were injected into them.
const injectionIndex = "injection"

// podWatch is a cache of what Pods request and have; all kinds that inject share it.
type podWatch struct {
	*informers.Cache
	informers *informers.Informers
	kinds     []*kind.Kind    // those that inject
	kept      map[string]bool // the annotations that are read
	once      sync.Once
}

// newPodWatch wires a watch of Pods for the kinds that inject; it returns nil if none does,
// or if there is no client.
func newPodWatch(client metadata.Interface, kinds []*kind.Kind, shared *informers.Informers) (*podWatch, error) {
	p := &podWatch{informers: shared}
	for _, k := range kinds {
		if k.Injects() {
			p.kinds = append(p.kinds, k)
		}
	}
	if client == nil || len(p.kinds) == 0 {
		return nil, nil
	}
	p.kept = map[string]bool{inject.StatusAnnotation: true, corev1.MirrorPodAnnotationKey: true}
	for _, k := range p.kinds {
		p.kept[k.InjectAnnotation] = true
	}
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	cached, err := informers.NewCache(resource, shared.Namespaces(),
		func(namespace string) (cache.SharedIndexInformer, error) {
			informer := shared.NewInformer(resource, informers.Source{
				List: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
					options.FieldSelector = unended
					return client.Resource(resource).Namespace(namespace).List(ctx, options)
				},
				Watch: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					options.FieldSelector = unended
					return client.Resource(resource).Namespace(namespace).Watch(ctx, options)
				},
				Client: client,
			}, &metav1.PartialObjectMetadata{},
				cache.Indexers{injectionIndex: p.indexByInjection, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			return informer, informer.SetTransform(p.strip)
		})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	p.Cache = cached
	return p, nil
}

// start fills the cache and keeps it filled. The first kind that may run starts it: nothing
// that it needs is missing, rights included. A nil watch does nothing.
func (p *podWatch) start() {
	if p != nil {
		p.once.Do(func() { p.informers.Start(p.Cache) })
	}
}

// watchedPod is what is kept of a Pod. A cluster has many, and the same in a metav1.PartialObjectMetadata would
// take more than twice the memory.
type watchedPod struct {
	inject.Pod
	namespace, resourceVersion string
	uid                        types.UID
}

// GetObjectMeta implements metav1.ObjectMetaAccessor with what caches need to know.
func (p *watchedPod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.Name, UID: p.uid, ResourceVersion: p.resourceVersion}
}

// label is one label of a Pod.
type label struct{ name, value string }

// podLabels are the labels of a Pod, sorted by name. A list of few takes half the memory of a map.
type podLabels []label

// Lookup implements labels.Labels.
func (l podLabels) Lookup(name string) (value string, exists bool) {
	i := slices.IndexFunc(l, func(l label) bool { return l.name == name })
	if i < 0 {
		return "", false
	}
	return l[i].value, true
}

// Has implements labels.Labels.
func (l podLabels) Has(name string) bool {
	_, exists := l.Lookup(name)
	return exists
}

// Get implements labels.Labels.
func (l podLabels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// strip keeps what is read of a Pod. Pods share few namespaces and names of labels.
func (p *podWatch) strip(object any) (any, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone of what was stripped before
	}
	all := make(podLabels, 0, len(pod.Labels))
	for name, value := range pod.Labels {
		all = append(all, label{unique.Make(name).Value(), value})
	}
	slices.SortFunc(all, func(a, b label) int { return strings.Compare(a.name, b.name) })
	kept := &watchedPod{
		Pod:       inject.Pod{Name: pod.Name, Labels: all, IsBeingDeleted: pod.DeletionTimestamp != nil},
		namespace: unique.Make(pod.Namespace).Value(), resourceVersion: pod.ResourceVersion, uid: pod.UID,
	}
	for name, value := range pod.Annotations {
		if !p.kept[name] {
			continue
		}
		if kept.Annotations == nil {
			kept.Annotations = make(map[string]string)
		}
		kept.Annotations[name] = value
	}
	return kept, nil
}

func (p *podWatch) indexByInjection(object any) ([]string, error) {
	pod, ok := object.(*watchedPod)
	if !ok {
		return nil, fmt.Errorf("cache of Pods holds a %T", object)
	}
	var keys []string
	for _, o := range p.concerned(pod) {
		keys = append(keys, injectionKey(pod.namespace, o))
	}
	return keys, nil
}

func injectionKey(namespace string, object inject.Object) string {
	return namespace + "/" + object.String()
}

// concerned returns the objects that a Pod names or that were injected into it, each once.
func (p *podWatch) concerned(pod *watchedPod) []inject.Object {
	objects := inject.InjectedInto(pod.Annotations)
	for _, k := range p.kinds {
		for name := range inject.Names(pod.Annotations[k.InjectAnnotation]) {
			objects[inject.Object{Kind: k.GroupVersionKind.GroupKind(), Name: name}] = 0
		}
	}
	return slices.Collect(maps.Keys(objects))
}

// podsOf returns the cached Pods that an object could concern, each once; they must not be
// changed.
func (p *podWatch) podsOf(namespace string, object inject.Offer) ([]*inject.Pod, error) {
	index, value := injectionIndex, injectionKey(namespace, object.Object)
	if object.Selector != nil {
		index, value = cache.NamespaceIndex, namespace // any of them may match
	}
	found, err := p.ByIndex(namespace, index, value)
	if err != nil {
		return nil, err
	}
	pods := make([]*inject.Pod, 0, len(found))
	for _, object := range found {
		if pod, ok := object.(*watchedPod); ok {
			pods = append(pods, &pod.Pod)
		}
	}
	return pods, nil
}

// uptakeOf counts Pods of the object's namespace.
func uptakeOf(object inject.Offer, pods []*inject.Pod) (u plan.Uptake) {
	u.Current, u.Outdated, u.Missing = object.Count(pods)
	return u
}

// sameUptake reports whether two states of a Pod count the same for every object. Most
// changes of a Pod are of its status.
func sameUptake(a, b *watchedPod) bool {
	return a.uid == b.uid && a.IsBeingDeleted == b.IsBeingDeleted &&
		maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Labels.(podLabels), b.Labels.(podLabels))
}

// selections remembers which Pods the objects of a kind select: finding that out takes an
// evaluation, and every Pod of the namespace has to be compared with it.
type selections struct {
	mu         sync.Mutex
	namespaces map[string]map[string]selection // by namespace and name of the object
}

// selection is what one version of an object selects, or the reason why that is unknown.
type selection struct {
	version  string
	selector labels.Selector
	err      error
}

// of returns what an object selects. It evaluates that only if the object has changed since
// the last time. From then on, matching finds the object.
func (s *selections) of(
	object *unstructured.Unstructured, evaluate func() (labels.Selector, error),
) (labels.Selector, error) {
	namespace, name := object.GetNamespace(), object.GetName()
	version := string(object.GetUID()) + "/" + object.GetResourceVersion()
	s.mu.Lock()
	known, ok := s.namespaces[namespace][name]
	s.mu.Unlock()
	if ok && known.version == version {
		return known.selector, known.err
	}
	selector, err := evaluate()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces == nil {
		s.namespaces = make(map[string]map[string]selection)
	}
	if s.namespaces[namespace] == nil {
		s.namespaces[namespace] = make(map[string]selection)
	}
	s.namespaces[namespace][name] = selection{version, selector, err}
	return selector, err
}

// matching returns the names of the objects that select a Pod.
func (s *selections) matching(pod *watchedPod) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.namespaces[pod.namespace] {
		if known.selector != nil && known.selector.Matches(pod.Labels) {
			names = append(names, name)
		}
	}
	return names
}

// forget drops an object that is gone.
func (s *selections) forget(object cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces[object.Namespace], object.Name)
	if len(s.namespaces[object.Namespace]) == 0 {
		delete(s.namespaces, object.Namespace)
	}
}
