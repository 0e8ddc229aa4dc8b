package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Found is what exists of the objects that a kind reads for one object, apart from its children.
type Found struct {
	// Err is why the kind cannot say what it reads.
	Err error

	values  map[string]any
	missing map[string]string
	types   map[string]schema.GroupVersionKind
}

// LookupsOf returns what a kind reads for an object, apart from its children. An invalid object reads
// nothing.
func LookupsOf(b *kind.Budget, k *kind.Kind, object *unstructured.Unstructured) ([]kind.Lookup, error) {
	if len(k.Lookups) == 0 {
		return nil, nil
	}
	checked := k.Check(b, object.Object).Stored()
	if len(checked.Errors) > 0 {
		return nil, nil // the plan reports them
	}
	return k.LookupsOf(b, checked.Object)
}

// Finder returns the objects of a lookup in any order, or why there are none. They are not changed.
type Finder func(kind.Lookup) ([]*unstructured.Unstructured, error)

// Find finds what lookups name.
func Find(lookups []kind.Lookup, find Finder) *Found {
	f := &Found{values: make(map[string]any), missing: make(map[string]string),
		types: make(map[string]schema.GroupVersionKind)}
	for _, l := range lookups {
		f.add(l, find)
	}
	return f
}

func (f *Found) add(l kind.Lookup, find Finder) {
	if len(l.Absent) > 0 {
		f.missing[l.Name] = "reads." + l.Name + " is " + kind.WaitingFor(l.Absent)
		return
	}
	f.types[l.Name] = l.Type
	found, err := find(l)
	switch {
	case err != nil:
		f.missing[l.Name] = err.Error()
	case l.Selector != nil:
		sorted := slices.SortedFunc(slices.Values(found), func(a, b *unstructured.Unstructured) int {
			return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()),
				strings.Compare(a.GetName(), b.GetName()))
		})
		list := make([]any, len(sorted))
		for i, object := range sorted {
			list[i] = object.Object
		}
		f.values[l.Name] = list
	case len(found) == 0:
		f.missing[l.Name] = fmt.Sprintf("%s %q does not exist", l.Type.Kind, l.ObjectName)
	default:
		f.values[l.Name] = found[0].Object
	}
}

// Selected returns the objects that the name or the selector of a lookup selects among objects of its
// type in its namespace.
func Selected(l kind.Lookup, objects []*unstructured.Unstructured) (selected []*unstructured.Unstructured) {
	for _, object := range objects {
		if l.Selector == nil && object.GetName() == l.ObjectName ||
			l.Selector != nil && l.Selector.Matches(labels.Set(object.GetLabels())) {
			selected = append(selected, object)
		}
	}
	return selected
}

// addTo adds what was found to what is observed of the children. An error is a name that a child has
// as well.
func (f *Found) addTo(observed map[string]any) (map[string]any, error) {
	if f == nil {
		return observed, nil
	}
	for name, value := range f.values {
		if _, isChild := observed[name]; isChild {
			return nil, fmt.Errorf("reads.%s: a child has the same name: rename one", name)
		}
		observed[name] = value
	}
	return observed, nil
}

// explain adds to what a decision waits for why objects that it reads are missing.
func (f *Found) explain(decision *kind.Decision) {
	if f == nil || len(f.missing) == 0 {
		return
	}
	f.explainAll(decision.Undecided)
	for _, child := range decision.Children {
		f.explainAll(child.Absent)
	}
}

func (f *Found) explainAll(absent []kind.Absence) {
	told := make(map[string]bool)
	for i, a := range absent {
		rest, _ := strings.CutPrefix(a.Path, "observed.")
		name, _, _ := strings.Cut(rest, ".")
		if why := f.missing[name]; why != "" && !told[name] {
			absent[i].Reason, told[name] = why, true
		}
	}
}

// sum sums up what a kind reads of what was found.
func (f *Found) sum(k *kind.Kind) uint64 {
	if f == nil || len(f.values) == 0 {
		return 0
	}
	read := make(map[string]any, len(f.values))
	for _, name := range slices.Sorted(maps.Keys(f.values)) {
		switch value := f.values[name].(type) {
		case map[string]any:
			read[name] = k.ReadOfChild(name, value)
		case []any:
			parts := make([]any, len(value))
			for i := range value {
				element, _ := value[i].(map[string]any)
				parts[i] = k.ReadOfChild(name, element)
			}
			read[name] = parts
		}
	}
	return sum(read)
}
