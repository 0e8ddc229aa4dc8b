package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/parts"
)

// lookups are the watches of what a kind reads apart from its children, and which objects read what.
type lookups struct {
	kind *kind.Kind

	mu      sync.Mutex
	watches map[kind.LookupTarget]lookupWatch
	// readers are the objects that read something at a place, with what they read; keys is the
	// reverse.
	readers map[lookupPlace]map[cache.ObjectName][]kind.Lookup
	keys    map[cache.ObjectName][]lookupPlace
}

// lookupWatch is the watch of a target, or why there is none.
type lookupWatch struct {
	watch        *informers.Watch
	isNamespaced bool
	err          error
	awaited      bool // it may be served later
}

// lookupPlace is where something is read. The name is empty for a selection, and the namespace for all
// namespaces and for types that have none.
type lookupPlace struct {
	gvk             schema.GroupVersionKind
	namespace, name string
}

func newLookups(k *kind.Kind) *lookups {
	l := &lookups{
		kind: k, watches: make(map[kind.LookupTarget]lookupWatch),
		readers: make(map[lookupPlace]map[cache.ObjectName][]kind.Lookup),
		keys:    make(map[cache.ObjectName][]lookupPlace),
	}
	for _, target := range k.Lookups.Targets() {
		l.watches[target] = lookupWatch{err: plan.ErrNotServed, awaited: true}
	}
	return l
}

// missing returns what is not watched yet.
func (l *lookups) missing() (missing []kind.LookupTarget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, target := range l.kind.Lookups.Targets() {
		if l.watches[target].awaited {
			missing = append(missing, target)
		}
	}
	return missing
}

// watchOf returns the watch that has what a lookup names. The caller holds the lock.
func (l *lookups) watchOf(wanted kind.Lookup) lookupWatch {
	if w, ok := l.watches[kind.LookupTarget{Type: wanted.Type}]; ok {
		return w
	}
	w, ok := l.watches[kind.LookupTarget{Type: wanted.Type, ObjectName: wanted.ObjectName}]
	if !ok { // the kind is checked for this when it is loaded
		w.err = errors.New("it is not watched")
	}
	return w
}

// expect makes events of what an object reads queue it, and those of nothing else. It is called before
// anything is looked up, so that no change is missed in between.
func (l *lookups) expect(reader cache.ObjectName, wanted []kind.Lookup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(reader)
	for _, w := range wanted {
		if len(w.Absent) > 0 {
			continue
		}
		place := lookupPlace{w.Type, w.In(reader.Namespace, l.watchOf(w).isNamespaced), w.ObjectName}
		if l.readers[place] == nil {
			l.readers[place] = make(map[cache.ObjectName][]kind.Lookup)
		}
		l.readers[place][reader] = append(l.readers[place][reader], w)
		l.keys[reader] = append(l.keys[reader], place)
	}
}

// forget drops what an object reads.
func (l *lookups) forget(reader cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(reader)
}

func (l *lookups) drop(reader cache.ObjectName) {
	for _, place := range l.keys[reader] {
		delete(l.readers[place], reader)
		if len(l.readers[place]) == 0 {
			delete(l.readers, place)
		}
	}
	delete(l.keys, reader)
}

// find returns what exists of a lookup of an object, or why it cannot be known.
func (l *lookups) find(reader cache.ObjectName, namespaces []string) plan.Finder {
	return func(wanted kind.Lookup) ([]*unstructured.Unstructured, error) {
		l.mu.Lock()
		w := l.watchOf(wanted)
		l.mu.Unlock()
		namespace := wanted.In(reader.Namespace, w.isNamespaced)
		isWatched := slices.Contains(namespaces, namespace) || slices.Contains(namespaces, metav1.NamespaceAll)
		switch {
		case w.err != nil:
			return nil, fmt.Errorf("%s cannot be read: %w", wanted.Type.Kind, w.err)
		case w.isNamespaced && !isWatched && namespace == metav1.NamespaceAll:
			return nil, errors.New("the operator is limited to some namespaces, and does not read in all")
		case w.isNamespaced && !isWatched:
			return nil, fmt.Errorf("the operator does not read in the namespace %q", namespace)
		case wanted.Selector == nil:
			if object := w.watch.Get(cache.ObjectName{Namespace: namespace, Name: wanted.ObjectName}); object != nil {
				return []*unstructured.Unstructured{object}, nil
			}
			return nil, nil
		case namespace == metav1.NamespaceAll:
			return plan.Selected(wanted, w.watch.List()), nil
		}
		return plan.Selected(wanted, w.watch.InNamespace(namespace)), nil
	}
}

// readersOf returns the objects that an event of an object concerns: those that read it by its name, and
// those that select it or did. before and after are nil if it did not exist, or no longer exists.
func (l *lookups) readersOf(
	gvk schema.GroupVersionKind, before, after *unstructured.Unstructured,
) (byName, selecting []cache.ObjectName) {
	object := after
	if object == nil {
		object = before
	}
	isSame := before != nil && after != nil && l.readsSame(gvk, before, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isSame {
		byName = slices.Collect(maps.Keys(l.readers[lookupPlace{gvk, object.GetNamespace(), object.GetName()}]))
	}
	for _, namespace := range slices.Compact([]string{object.GetNamespace(), metav1.NamespaceAll}) {
		for reader, wanted := range l.readers[lookupPlace{gvk: gvk, namespace: namespace}] {
			if slices.ContainsFunc(wanted, func(w kind.Lookup) bool {
				did, does := selects(w.Selector, before), selects(w.Selector, after)
				return did != does || does && !isSame
			}) {
				selecting = append(selecting, reader)
			}
		}
	}
	return byName, selecting
}

func selects(selector labels.Selector, object *unstructured.Unstructured) bool {
	return object != nil && selector.Matches(labels.Set(object.GetLabels()))
}

// readsSame reports whether the kind reads nothing that differs between two states of an object.
func (l *lookups) readsSame(gvk schema.GroupVersionKind, before, after *unstructured.Unstructured) bool {
	return !slices.ContainsFunc(l.kind.Lookups, func(facts kind.LookupFacts) bool {
		return facts.Type == gvk && (facts.Name == "" ||
			!reflect.DeepEqual(l.kind.ReadOfChild(facts.Name, before.Object),
				l.kind.ReadOfChild(facts.Name, after.Object)))
	})
}

// keptOfLookups returns what kinds read of objects of a type apart from their children.
func keptOfLookups(gvk schema.GroupVersionKind, kinds []*kind.Kind) *parts.Set {
	keep := parts.Of([]string{"metadata", "labels"})
	for _, k := range kinds {
		keep = keep.Union(k.Lookups.Read(gvk, k.Reads.Observed))
	}
	return keep
}

// watchLookups watches what the kind reads apart from its children, as far as it is served by now. It
// reports whether there is something new; what fails does not prevent finding the rest.
func (c *controller) watchLookups(ctx context.Context) (found bool, err error) {
	var errs []error
	for _, target := range c.lookups.missing() {
		w, err := c.watchLookup(ctx, target)
		if err != nil {
			errs = append(errs, fmt.Errorf("reads of type %s: %w", kind.TypeName(target.Type), err))
			w = lookupWatch{err: fmt.Errorf("its objects cannot be watched: %w", err), awaited: true}
		}
		c.lookups.mu.Lock()
		c.lookups.watches[target] = w
		c.lookups.mu.Unlock()
		found = found || !w.awaited
	}
	return found, errors.Join(errs...)
}

// watchLookup watches a target, and returns when the cache is filled.
func (c *controller) watchLookup(ctx context.Context, target kind.LookupTarget) (lookupWatch, error) {
	mapping, err := c.config.Mapper.RESTMapping(target.Type.GroupKind(), target.Type.Version)
	if meta.IsNoMatchError(err) {
		return lookupWatch{err: plan.ErrNotServed, awaited: true}, nil
	}
	if err != nil {
		return lookupWatch{}, err
	}
	w := lookupWatch{isNamespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}
	if !w.isNamespaced && !c.config.Informers.AllNamespaces() {
		return lookupWatch{err: errors.New("it is cluster-scoped, and the operator is limited to namespaces")}, nil
	}
	selection := informers.Selection{Resource: mapping.Resource, Keep: keptOfLookups(target.Type, c.kinds())}
	if target.ObjectName != "" {
		selection.Where = fields.OneTermEqualSelector("metadata.name", target.ObjectName).String()
	}
	if w.watch, err = c.config.Informers.Watch(selection); err != nil {
		return lookupWatch{}, err
	}
	if err := registerAndSync(ctx, w.watch.Handle, c.intake.ofReads(target.Type)); err != nil {
		w.watch.Release()
		return lookupWatch{}, err
	}
	c.watches = append(c.watches, w.watch)
	return w, nil
}

// lookUp finds what the kind reads for an object apart from its children.
func (r *reconciliation) lookUp(b *kind.Budget, object *unstructured.Unstructured) *plan.Found {
	if len(r.kind.Lookups) == 0 {
		return nil
	}
	reader := cache.MetaObjectToName(object)
	wanted, err := plan.LookupsOf(b, r.kind, object)
	r.lookups.expect(reader, wanted)
	if err != nil {
		return &plan.Found{Err: err}
	}
	return plan.Find(wanted, r.lookups.find(reader, r.config.Informers.Namespaces()))
}
