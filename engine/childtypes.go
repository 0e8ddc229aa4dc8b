package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// lookForTypes is how often discovery is asked for types of children that are not served
// yet: soon at first, when CRDs are being installed together with their kinds, and seldom
// later. Nothing is asked once all are served.
var lookForTypes = wait.Backoff{Duration: time.Second, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 30 * time.Second}

// childType is where the API server serves a type of children, or why it is not used;
// later says that it may be yet.
type childType struct {
	resource schema.GroupVersionResource
	err      error
	later    bool
}

// fillTimeout bounds how long one type that has come to be served keeps the others
// waiting: its list may be forbidden.
const fillTimeout = 20 * time.Second

// managedSelector selects the children of all kinds.
const managedSelector = labelManagedBy + "=" + managedBy

// ownerIndex finds children by the object that they are kept for: by its UID and, if
// they have no controller, by its name.
const ownerIndex = "owner"

func indexByOwner(object any) ([]string, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cache holds a %T", object)
	}
	var keys []string
	add := func(key string) {
		if key != "" && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if holder := metav1.GetControllerOfNoCopy(u); holder != nil {
		add(string(holder.UID))
	} else if u.GetLabels()[labelManagedBy] == managedBy {
		add(u.GetAnnotations()[annotationOwner])
	}
	add(u.GetLabels()[labelOwnerUID])
	return keys, nil
}

// ownedBy returns the cached children of an object, which must not be changed, sorted
// by name. ownerName is how annotationOwner names it.
func ownedBy(w *informers.Watch, owner *unstructured.Unstructured, ownerName string) ([]*unstructured.Unstructured, error) {
	var children []*unstructured.Unstructured
	for _, key := range []string{string(owner.GetUID()), ownerName} {
		found, err := w.ByIndex(owner.GetNamespace(), ownerIndex, key)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if u, ok := object.(*unstructured.Unstructured); ok && u.GetNamespace() == owner.GetNamespace() {
				children = append(children, u)
			}
		}
	}
	slices.SortFunc(children, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return slices.CompactFunc(children, func(a, b *unstructured.Unstructured) bool { return a.GetUID() == b.GetUID() }), nil
}

// childTypes are the types of a kind's children, and the watches of those that are served.
type childTypes struct {
	mu       sync.Mutex
	types    map[schema.GroupVersionKind]childType
	children map[schema.GroupVersionResource]*informers.Watch
	bySet    map[string]*informers.Watch
	// owners are the objects whose sets have strays of these labels, and keys the same
	// the other way round.
	owners map[strayKey]map[cache.ObjectName]bool
	keys   map[cache.ObjectName]map[strayKey]bool
}

// strayKey names the objects that could be strays of one set.
type strayKey struct{ set, namespace, labels string }

func newChildTypes(k *kind.Kind) *childTypes {
	t := &childTypes{
		types:    make(map[schema.GroupVersionKind]childType),
		children: make(map[schema.GroupVersionResource]*informers.Watch),
		bySet:    make(map[string]*informers.Watch),
		owners:   make(map[strayKey]map[cache.ObjectName]bool),
		keys:     make(map[cache.ObjectName]map[strayKey]bool),
	}
	for _, gvk := range k.Owns {
		t.types[gvk] = childType{err: errNotServed, later: true}
	}
	return t
}

// known is a copy of what is known of the types now.
func (t *childTypes) known() map[schema.GroupVersionKind]childType {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.types)
}

// watches is a copy of the watches of children.
func (t *childTypes) watches() map[schema.GroupVersionResource]*informers.Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.children)
}

// watchesOf are the watches of a resource, also those for strays.
func (t *childTypes) watchesOf(resource schema.GroupVersionResource) []*informers.Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*informers.Watch
	if w := t.children[resource]; w != nil {
		found = append(found, w)
	}
	for _, w := range t.bySet {
		if w.Resource() == resource {
			found = append(found, w)
		}
	}
	return found
}

// missing lists the types that are not served.
func (t *childTypes) missing() []schema.GroupVersionKind {
	var missing []schema.GroupVersionKind
	for gvk, served := range t.known() {
		if served.later {
			missing = append(missing, gvk)
		}
	}
	return missing
}

// resolve finds where a type of children is served. An error is one of asking.
func (c *controller) resolve(gvk schema.GroupVersionKind) (childType, error) {
	mapping, err := c.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return childType{err: errNotServed, later: true}, nil
	}
	if err != nil {
		return childType{}, err
	}
	if namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; namespaced != (c.kind.Scope == apiextensionsv1.NamespaceScoped) {
		return childType{err: errors.New("objects and their children must both live in a namespace, or neither")}, nil
	}
	return childType{resource: mapping.Resource}, nil
}

// watchServed finds the types of children that are not served yet, and watches them. It tells
// whether it has found any; one that fails keeps no other from being found.
func (c *controller) watchServed(ctx context.Context) (found bool, err error) {
	var errs []error
	for _, gvk := range c.types.missing() {
		served, err := c.resolve(gvk)
		if err != nil {
			errs = append(errs, fmt.Errorf("children of type %s: %w", gvk, err))
			continue
		}
		if served.err == nil {
			if err := c.watchChildren(ctx, gvk, served.resource); err != nil {
				errs = append(errs, fmt.Errorf("children of type %s: %w", gvk, err))
				served = childType{err: fmt.Errorf("its objects cannot be followed: %w", err), later: true}
			}
		}
		c.types.mu.Lock()
		c.types.types[gvk] = served
		c.types.mu.Unlock()
		found = found || !served.later
	}
	return found, errors.Join(errs...)
}

// watchChildren watches a type of children, and returns when the caches are filled.
func (c *controller) watchChildren(ctx context.Context, gvk schema.GroupVersionKind, resource schema.GroupVersionResource) error {
	w, err := c.fill(ctx, informers.Selection{Resource: resource, Labels: managedSelector}, c.childHandler())
	if err != nil {
		return err
	}
	c.types.mu.Lock()
	c.types.children[resource] = w
	c.types.mu.Unlock()
	for set, facts := range c.kind.Sets {
		if facts.Type != gvk || len(facts.StrayLabels) == 0 {
			continue
		}
		w, err := c.fill(ctx, informers.Selection{Resource: resource, Labels: straySelector(facts.StrayLabels)}, c.strayHandler(set, facts.StrayLabels))
		if err != nil {
			return err
		}
		c.types.mu.Lock()
		c.types.bySet[set] = w
		c.types.mu.Unlock()
	}
	return nil
}

// awaitTypes looks for the types of children that are not served until all are, and has
// the objects worked on again that may want them.
func (c *controller) awaitTypes(ctx context.Context) {
	if missing := c.types.missing(); len(missing) > 0 {
		c.log.Warn("types of children are not served by the cluster; they are looked for", "types", missing)
	}
	backoff := lookForTypes
	for len(c.types.missing()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		meta.MaybeResetRESTMapper(c.config.Mapper)
		filling, cancel := context.WithTimeout(ctx, fillTimeout)
		found, err := c.watchServed(filling)
		cancel()
		if err != nil {
			c.log.Warn("looking for the types of children failed; it is tried again", "error", err)
		}
		if found {
			c.log.Info("types of children have come to be served", "missing", c.types.missing())
			c.objects.Each(c.enqueue)
		}
	}
}

// straySelector selects what has all of a set's labels and is not of any kind of ours.
func straySelector(names []string) string {
	return strings.Join(names, ",") + "," + labelManagedBy + "!=" + managedBy
}

// strays lists the cached objects that carry the labels of a set's template, and has their
// events queue the object from then on.
func (t *childTypes) strays(k *kind.Kind, owner *unstructured.Unstructured, set string, template map[string]string) []*unstructured.Unstructured {
	w := t.expectStrays(cache.MetaObjectToName(owner), set, strayValues(k.Sets[set].StrayLabels, template))
	if w == nil {
		return nil
	}
	return withLabels(w.InNamespace(owner.GetNamespace()), template)
}

// withLabels are those of the objects that carry all these labels.
func withLabels(objects []*unstructured.Unstructured, wanted map[string]string) []*unstructured.Unstructured {
	selector := labels.SelectorFromSet(wanted)
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	return found
}

// expectStrays has events of objects with these labels queue the owner of a set, and
// returns the watch that they come from; it is nil while there is none.
func (t *childTypes) expectStrays(owner cache.ObjectName, set, labels string) *informers.Watch {
	key := strayKey{set, owner.Namespace, labels}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owners[key] == nil {
		t.owners[key] = make(map[cache.ObjectName]bool)
	}
	if t.keys[owner] == nil {
		t.keys[owner] = make(map[strayKey]bool)
	}
	for former := range t.keys[owner] { // of labels that the template had before
		if former.set == set && former != key {
			delete(t.owners[former], owner)
			delete(t.keys[owner], former)
		}
	}
	t.owners[key][owner], t.keys[owner][key] = true, true
	return t.bySet[set]
}

// strayValues are the values of labels in the order of their names.
func strayValues(names []string, values map[string]string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(values[name])
		b.WriteByte(',') // which no label value has
	}
	return b.String()
}

// strayHandler queues the objects whose set an object could be a stray of.
func (c *controller) strayHandler(set string, names []string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { c.enqueueStray(set, names, object) },
		UpdateFunc: func(_, object any) {
			c.enqueueStray(set, names, object)
		},
	}
}

func (c *controller) enqueueStray(set string, names []string, object any) {
	stray, ok := object.(*unstructured.Unstructured)
	if !ok || metav1.GetControllerOfNoCopy(stray) != nil || stray.GetDeletionTimestamp() != nil {
		return
	}
	c.types.mu.Lock()
	owners := slices.Collect(maps.Keys(c.types.owners[strayKey{set, stray.GetNamespace(), strayValues(names, stray.GetLabels())}]))
	c.types.mu.Unlock()
	for _, owner := range owners {
		c.queue.Add(owner)
	}
}

// forgetOwner drops what is known of the strays of an object that is gone.
func (t *childTypes) forgetOwner(name cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.keys[name] {
		delete(t.owners[key], name)
		if len(t.owners[key]) == 0 {
			delete(t.owners, key)
		}
	}
	delete(t.keys, name)
}
