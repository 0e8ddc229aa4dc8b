package engine

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// InjectedObject names an object that injects, apart from its namespace, which is that of
// the Pod.
type InjectedObject struct {
	Kind schema.GroupKind
	Name string
}

// Injections knows how Pods ask for what objects add to them, and say what they have. The
// engine injects nothing: it reports which Pods have it.
type Injections struct {
	// Pods reads the metadata of Pods.
	Pods metadata.Interface
	// Annotation says on a Pod what was injected into it.
	Annotation string
	// Injected reads from annotations of a Pod which objects were injected into it, and
	// from which generation of each.
	Injected func(annotations map[string]string) map[InjectedObject]int64
	// Names reads the names of objects from the annotation by which Pods ask for a kind.
	Names func(annotation string) []string
	// Selector is for the Pods that get what a valid, defaulted object adds without naming
	// it; nil is for none. An error is the object's or the kind's: no wait mends it.
	Selector func(k *kind.Kind, object map[string]any) (labels.Selector, error)
}

// unended selects the Pods that have not come to their end: they need no sidecar any more,
// and the metadata alone does not say so.
const unended = "status.phase!=" + string(corev1.PodSucceeded) + ",status.phase!=" + string(corev1.PodFailed)

// injectionIndex finds Pods by the objects that they name, or that were injected into them.
const injectionIndex = "injection"

// podWatch is a cache of what Pods ask for and have; all kinds that inject share it.
type podWatch struct {
	*informers.Cache
	informers *informers.Informers
	known     *Injections
	// annotations are those by which Pods ask for objects of a kind.
	annotations map[schema.GroupKind]string
	kept        map[string]bool // the annotations that are looked at
	once        sync.Once
}

// newPodWatch wires a watch of Pods for the kinds that inject; it returns nil if none does.
func newPodWatch(known *Injections, kinds []*kind.Kind, shared *informers.Informers) (*podWatch, error) {
	p := &podWatch{informers: shared, known: known, annotations: make(map[schema.GroupKind]string)}
	for _, k := range kinds {
		if k.Injects() {
			p.annotations[k.GroupVersionKind.GroupKind()] = k.InjectAnnotation
		}
	}
	if known == nil || len(p.annotations) == 0 {
		return nil, nil
	}
	p.kept = map[string]bool{known.Annotation: true, corev1.MirrorPodAnnotationKey: true}
	for _, annotation := range p.annotations {
		p.kept[annotation] = true
	}
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	cached, err := informers.NewCache(resource, shared.Namespaces(), func(namespace string) (cache.SharedIndexInformer, error) {
		informer := metadatainformer.NewFilteredMetadataInformer(known.Pods, resource, namespace, 0,
			cache.Indexers{injectionIndex: p.indexByInjection, cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.FieldSelector = unended }).Informer()
		return informer, informer.SetTransform(p.strip)
	})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", resource, err)
	}
	p.Cache = cached
	return p, nil
}

// start fills the cache and keeps it filled: for the first kind that asks, which has the
// right to. A nil watch does nothing.
func (p *podWatch) start() {
	if p != nil {
		p.once.Do(func() { p.informers.Start(p.Cache) })
	}
}

// strip keeps what is looked at: a cluster has many Pods, and most are of no concern.
func (p *podWatch) strip(object any) (any, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone, of what was stripped before
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp, Labels: pod.Labels,
	}}
	for name, value := range pod.Annotations {
		if p.kept[name] {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	return kept, nil
}

func (p *podWatch) indexByInjection(object any) ([]string, error) {
	pod, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("cache of Pods holds a %T", object)
	}
	var keys []string
	for _, o := range p.concerned(pod) {
		keys = append(keys, injectionKey(pod.Namespace, o))
	}
	return keys, nil
}

func injectionKey(namespace string, object InjectedObject) string {
	return namespace + "/" + object.Kind.String() + "/" + object.Name
}

// concerned lists the objects that a Pod names, or that were injected into it, each once.
func (p *podWatch) concerned(pod *metav1.PartialObjectMetadata) []InjectedObject {
	objects := p.known.Injected(pod.Annotations)
	if objects == nil {
		objects = make(map[InjectedObject]int64)
	}
	for k, annotation := range p.annotations {
		for _, name := range p.known.Names(pod.Annotations[annotation]) {
			objects[InjectedObject{k, name}] = 0
		}
	}
	return slices.Collect(maps.Keys(objects))
}

// podsOf lists the cached Pods that an object could concern, each once; they must not be
// changed.
func (p *podWatch) podsOf(namespace string, object injecting) ([]*metav1.PartialObjectMetadata, error) {
	index, value := injectionIndex, injectionKey(namespace, object.InjectedObject)
	if object.selector != nil {
		index, value = cache.NamespaceIndex, namespace // any of them may match
	}
	found, err := p.ByIndex(namespace, index, value)
	if err != nil {
		return nil, err
	}
	pods := make([]*metav1.PartialObjectMetadata, 0, len(found))
	for _, object := range found {
		if pod, ok := object.(*metav1.PartialObjectMetadata); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// selections remembers which Pods the objects of a kind select: to find that out takes the
// CUE evaluator, and every Pod of the namespace has to be held against it.
type selections struct {
	mu         sync.Mutex
	namespaces map[string]map[string]selection // by namespace and name of the object
}

// selection is what one version of an object selects, or why that cannot be known.
type selection struct {
	version  string
	selector labels.Selector
	err      error
}

// of returns what an object selects, which ask is asked if the object is not the one of
// the last time. From then on, matching finds it.
func (s *selections) of(object *unstructured.Unstructured, ask func() (labels.Selector, error)) (labels.Selector, error) {
	namespace, name := object.GetNamespace(), object.GetName()
	version := string(object.GetUID()) + "/" + object.GetResourceVersion()
	s.mu.Lock()
	known, ok := s.namespaces[namespace][name]
	s.mu.Unlock()
	if ok && known.version == version {
		return known.selector, known.err
	}
	selector, err := ask()
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

// matching lists the names of the objects that select a Pod.
func (s *selections) matching(pod *metav1.PartialObjectMetadata) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.namespaces[pod.Namespace] {
		if known.selector != nil && known.selector.Matches(labels.Set(pod.Labels)) {
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
