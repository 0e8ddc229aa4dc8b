package engine

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
)

// typesBackoff is how often discovery is queried for types of children that are not served
// yet: soon at first, when CRDs are being installed together with their kinds, and rarely
// later. Nothing is queried once all are served.
var typesBackoff = wait.Backoff{Duration: time.Second, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 30 * time.Second}

// fillTimeout bounds how long one type that is newly served keeps the others waiting:
// listing it may be forbidden.
const fillTimeout = 20 * time.Second

// ownerIndex finds children by plan.OwnerKeys.
const ownerIndex = "owner"

func indexByOwner(object any) ([]string, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("cache holds a %T", object)
	}
	var keys []string
	for _, key := range children.OwnerKeys(u) {
		keys = append(keys, string(key))
	}
	return keys, nil
}

// byOwner returns the cached children of a key: in the namespace of their owner, or anywhere.
func byOwner(w *informers.Watch, namespace string, isAnywhere bool, key children.OwnerKey) ([]any, error) {
	if isAnywhere {
		return w.ByIndexAnywhere(ownerIndex, string(key))
	}
	return w.ByIndex(namespace, ownerIndex, string(key))
}

// ownerName returns the name of the object that a child names as its owner, with its namespace if that is not the
// child's.
func (t *childTypes) ownerName(child metav1.Object, owner string) cache.ObjectName {
	return cache.ObjectName(children.OwnerAt(t.kind, child, owner))
}

// ownedBy returns the cached children of an object, which must not be changed, sorted by
// name.
func (t *childTypes) ownedBy(
	owner *unstructured.Unstructured, w *informers.Watch,
) ([]*unstructured.Unstructured, error) {
	var existing []*unstructured.Unstructured
	reaches := children.Reaches(t.kind, owner)
	for _, key := range children.KeysOf(t.kind, owner) {
		found, err := byOwner(w, owner.GetNamespace(), reaches, key)
		if err != nil {
			return nil, err
		}
		for _, object := range found {
			if u, ok := object.(*unstructured.Unstructured); ok && children.MayKeep(t.kind, owner, u) {
				existing = append(existing, u)
			}
		}
	}
	slices.SortFunc(existing, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetName(), b.GetName()), strings.Compare(a.GetNamespace(), b.GetNamespace()))
	})
	return slices.CompactFunc(existing, func(a, b *unstructured.Unstructured) bool { return a.GetUID() == b.GetUID() }),
		nil
}

// childTypes are the types of a kind's children, and the watches of those that are served.
type childTypes struct {
	kind *kind.Kind

	mu sync.Mutex
	// types and children are replaced and not changed: each reconcile reads them.
	types    map[schema.GroupVersionKind]plan.ChildType
	children map[schema.GroupVersionResource]*informers.Watch
	awaited  map[schema.GroupVersionKind]bool // the types that may be served later
	bySet    map[string]*informers.Watch
	// owners are the objects whose sets have strays of these labels, in order; keys is the reverse. Most have
	// one entry, so they are slices.
	owners map[strayKey][]cache.ObjectName
	keys   map[cache.ObjectName][]strayKey
}

// strayKey names the objects that could be strays of one set.
type strayKey struct{ set, namespace, labels string }

func newChildTypes(k *kind.Kind) *childTypes {
	t := &childTypes{
		kind:     k,
		types:    make(map[schema.GroupVersionKind]plan.ChildType),
		awaited:  make(map[schema.GroupVersionKind]bool),
		children: make(map[schema.GroupVersionResource]*informers.Watch),
		bySet:    make(map[string]*informers.Watch),
		owners:   make(map[strayKey][]cache.ObjectName),
		keys:     make(map[cache.ObjectName][]strayKey),
	}
	for _, gvk := range k.Owns {
		t.set(gvk, plan.ChildType{Err: plan.ErrNotServed}, true)
	}
	return t
}

func (t *childTypes) set(gvk schema.GroupVersionKind, found plan.ChildType, awaited bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.types, t.awaited[gvk] = with(t.types, gvk, found), awaited
}

// with returns a copy of a map with another entry.
func with[K comparable, V any](entries map[K]V, key K, value V) map[K]V {
	entries = maps.Clone(entries)
	entries[key] = value
	return entries
}

// known returns the types known now, and the watches of children. Nothing changes the maps.
func (t *childTypes) known() (map[schema.GroupVersionKind]plan.ChildType,
	map[schema.GroupVersionResource]*informers.Watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.types, t.children
}

// view returns what the caches know of the children of an object.
func (t *childTypes) view(owner *unstructured.Unstructured) (*plan.View, error) {
	types, watches := t.known()
	v := &plan.View{Types: types}
	for resource, w := range watches {
		owned, err := t.ownedBy(owner, w)
		if err != nil {
			return nil, err
		}
		for _, child := range owned {
			v.Children = append(v.Children, children.Of(resource, child))
		}
	}
	return v, nil
}

// hasSeen reports whether the cache of children is at least as new as a resource version.
func (t *childTypes) hasSeen(resource schema.GroupVersionResource, namespace, version string) bool {
	t.mu.Lock()
	w := t.children[resource]
	t.mu.Unlock()
	return w == nil || !older(w.ResourceVersion(namespace), version)
}

// hasLeft reports whether the cache of children does not have an object, or knows that it is being deleted. The caches
// of strays may have it, without the label of a child.
func (t *childTypes) hasLeft(resource schema.GroupVersionResource, name cache.ObjectName, uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.children[resource]
	return w == nil || !holds(w, name, uid)
}

// hasLost reports whether all caches of a resource, including those of strays, know that a
// deleted object is gone or being deleted.
func (t *childTypes) hasLost(resource schema.GroupVersionResource, name cache.ObjectName, uid types.UID) bool {
	if !t.hasLeft(resource, name, uid) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.bySet {
		if w.Resource() == resource && holds(w, name, uid) {
			return false
		}
	}
	return true
}

func holds(w *informers.Watch, name cache.ObjectName, uid types.UID) bool {
	live := w.Get(name)
	return live != nil && live.GetUID() == uid && live.GetDeletionTimestamp() == nil
}

// missing returns the types that are not served.
func (t *childTypes) missing() []schema.GroupVersionKind {
	t.mu.Lock()
	defer t.mu.Unlock()
	var missing []schema.GroupVersionKind
	for gvk, awaited := range t.awaited {
		if awaited {
			missing = append(missing, gvk)
		}
	}
	return missing
}

// resolve finds where a type of children is served, and whether it may be later. An error is
// one of discovery.
func (c *controller) resolve(gvk schema.GroupVersionKind) (found plan.ChildType, awaited bool, err error) {
	mapping, err := c.config.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		return plan.ChildType{Err: plan.ErrNotServed}, true, nil
	}
	if err != nil {
		return plan.ChildType{}, true, err
	}
	isNamespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace
	if !isNamespaced && c.kind.Scope == apiextensionsv1.NamespaceScoped && !slices.Contains(c.kind.OwnsOfCluster, gvk) {
		return plan.ChildType{Err: errors.New(
			"it is cluster-scoped, which was not known when the kind was loaded: --types adds its CRD")}, false, nil
	}
	return plan.ChildType{Resource: mapping.Resource, IsNamespaced: isNamespaced}, false, nil
}

// watchServed watches the types of children that are served by now. It reports whether
// there are new ones; one that fails does not prevent finding the others.
func (c *controller) watchServed(ctx context.Context) (found bool, err error) {
	var errs []error
	for _, gvk := range c.types.missing() {
		served, awaited, err := c.resolve(gvk)
		if err != nil {
			errs = append(errs, fmt.Errorf("children of type %s: %w", kind.TypeName(gvk), err))
			continue
		}
		if served.Err == nil {
			if err := c.watchChildren(ctx, gvk, served.Resource); err != nil {
				errs = append(errs, fmt.Errorf("children of type %s: %w", kind.TypeName(gvk), err))
				served, awaited = plan.ChildType{Err: fmt.Errorf("its objects cannot be watched: %w", err)}, true
			}
		}
		c.types.set(gvk, served, awaited)
		found = found || !awaited
	}
	return found, errors.Join(errs...)
}

// watchChildren watches a type of children, and returns when the caches are filled. What a try
// that failed has filled is kept for the next one.
func (c *controller) watchChildren(
	ctx context.Context, gvk schema.GroupVersionKind, resource schema.GroupVersionResource,
) error {
	if !c.types.isWatched(resource) {
		w, err := c.fill(
			ctx,
			informers.Selection{Resource: resource, Labels: children.ManagedSelector, Share: c.shareOfChildren(),
				Keep: keptOfChildren(gvk, c.kinds())},
			c.intake.ofChildren(resource),
		)
		if err != nil {
			return err
		}
		c.types.mu.Lock()
		c.types.children = with(c.types.children, resource, w)
		c.types.mu.Unlock()
	}
	for set, facts := range c.kind.Sets {
		if facts.Type != gvk || len(facts.StrayLabels) == 0 || c.types.watchesStrays(set) {
			continue
		}
		w, err := c.fill(ctx, informers.Selection{Resource: resource, Labels: children.StraySelector(facts.StrayLabels),
			Keep: keptOfStrays}, c.intake.ofStrays(set, facts.StrayLabels))
		if err != nil {
			return err
		}
		c.types.mu.Lock()
		c.types.bySet[set] = w
		c.types.mu.Unlock()
	}
	return nil
}

func (t *childTypes) isWatched(resource schema.GroupVersionResource) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.children[resource] != nil
}

func (t *childTypes) watchesStrays(set string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bySet[set] != nil
}

// awaitTypes queries discovery for the types of children and reads that are not served until all are, and
// requeues all objects when one is.
func (c *controller) awaitTypes(ctx context.Context) {
	if missing := c.missingTypes(); len(missing) > 0 {
		c.log.Warn("types of children or reads are not served by the cluster; waiting for them", "types", missing)
	}
	backoff := typesBackoff
	for len(c.missingTypes()) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		meta.MaybeResetRESTMapper(c.config.Mapper)
		filling, cancel := context.WithTimeout(ctx, fillTimeout)
		found, err := c.watchServed(filling)
		foundReads, errReads := c.watchLookups(filling)
		cancel()
		found, err = found || foundReads, errors.Join(err, errReads)
		if err != nil {
			c.log.Warn("discovery of the types of children failed; retrying", "error", err)
		}
		if found {
			c.log.Info("types of children or reads are now served", "missing", c.missingTypes())
			c.enqueueAll()
		}
	}
}

// missingTypes returns the types of children and of reads that are not served.
func (c *controller) missingTypes() []schema.GroupVersionKind {
	missing := c.types.missing()
	for _, target := range c.lookups.missing() {
		if !slices.Contains(missing, target.Type) {
			missing = append(missing, target.Type)
		}
	}
	return missing
}

// find returns the cached strays that a set asks for. From then on, their events queue the owner of the set.
func (t *childTypes) find(owner cache.ObjectName, asked plan.Strays) plan.Strays {
	values := strayValues(t.kind.Sets[asked.Set].StrayLabels, asked.Labels)
	if w := t.expectStrays(owner, strayKey{asked.Set, asked.Namespace, values}); w != nil {
		asked.Objects = plan.WithLabels(w.InNamespace(asked.Namespace), asked.Labels)
	}
	return asked
}

// expectStrays makes events of the objects that could be strays of a set queue its owner, and
// returns the watch that they come from; it is nil until there is one.
func (t *childTypes) expectStrays(owner cache.ObjectName, key strayKey) *informers.Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.keys[owner], key) {
		return t.bySet[key.set]
	}
	t.keys[owner] = slices.DeleteFunc(t.keys[owner], func(former strayKey) bool {
		isFormer := former.set == key.set // for labels that the template had before
		if isFormer {
			t.dropStrays(owner, former)
		}
		return isFormer
	})
	t.keys[owner] = append(t.keys[owner], key)
	if at, found := slices.BinarySearchFunc(t.owners[key], owner, compareNames); !found {
		t.owners[key] = slices.Insert(t.owners[key], at, owner)
	}
	return t.bySet[key.set]
}

// strayValues returns the values of labels in the order of their names.
func strayValues(names []string, values map[string]string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(values[name])
		b.WriteByte(',') // which no label value has
	}
	return b.String()
}

// ownersOf returns the objects of whose set an object with these labels could be a stray.
func (t *childTypes) ownersOf(key strayKey) []cache.ObjectName {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.owners[key])
}

// forgetStrays ends that strays queue an object that is gone or that another process acts on.
func (t *childTypes) forgetStrays(name cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range t.keys[name] {
		t.dropStrays(name, key)
	}
	delete(t.keys, name)
}

// dropStrays ends that events of objects with these labels queue an object. The caller holds the lock.
func (t *childTypes) dropStrays(owner cache.ObjectName, key strayKey) {
	if at, found := slices.BinarySearchFunc(t.owners[key], owner, compareNames); found {
		t.owners[key] = slices.Delete(t.owners[key], at, at+1)
	}
	if len(t.owners[key]) == 0 {
		delete(t.owners, key)
	}
}

func compareNames(a, b cache.ObjectName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
