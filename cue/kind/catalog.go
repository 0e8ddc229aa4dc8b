package kind

import (
	"fmt"
	"slices"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Catalog holds the kinds that a program works with and finds them by each of their names.
// Once all folders are loaded, it never changes and may be used by many goroutines at once.
type Catalog struct {
	all        []*Kind
	decorators []*Kind
	byGVK      map[apischema.GroupVersionKind]*Kind
	byName     map[string]*Kind
	failed     sets.Set[string] // names of kinds that failed to load; "" stands for a whole package
}

// NewCatalog returns a catalog of the given kinds. Their names must differ.
func NewCatalog(kinds ...*Kind) *Catalog {
	c := &Catalog{byGVK: make(map[apischema.GroupVersionKind]*Kind), byName: make(map[string]*Kind),
		failed: sets.New[string]()}
	for _, k := range kinds {
		c.Add(k)
	}
	return c
}

// Add adds a kind, before anything else uses the catalog.
func (c *Catalog) Add(k *Kind) {
	c.byName[k.Name()] = k
	if k.Target != nil {
		c.decorators = append(c.decorators, k)
		return
	}
	c.all = append(c.all, k)
	for _, v := range k.Versions {
		c.byGVK[v.GroupVersionKind] = k
	}
}

// Fail notes the names of kinds that failed to load; "" stands for a whole package.
func (c *Catalog) Fail(names ...string) { c.failed.Insert(names...) }

// All returns the kinds in the order in which they were loaded. Do not change it.
func (c *Catalog) All() []*Kind { return c.all }

// Decorators returns the decorators in the order in which they were loaded. Do not change it.
func (c *Catalog) Decorators() []*Kind { return c.decorators }

// DecoratorsOf returns the decorators of a type.
func (c *Catalog) DecoratorsOf(gvk apischema.GroupVersionKind) (found []*Kind) {
	for _, k := range c.decorators {
		if k.GroupVersionKind == gvk {
			found = append(found, k)
		}
	}
	return found
}

// Behaviours returns the kinds and the decorators: everything that the engine runs.
func (c *Catalog) Behaviours() []*Kind { return slices.Concat(c.all, c.decorators) }

// ByGVK returns the kind that serves gvk in any of its versions; nil if there is none.
func (c *Catalog) ByGVK(gvk apischema.GroupVersionKind) *Kind { return c.byGVK[gvk] }

// ByResource returns the kind that the API server serves at gvr, in any of its versions; nil if
// there is none.
func (c *Catalog) ByResource(gvr apischema.GroupVersionResource) *Kind {
	k := c.byName[gvr.GroupResource().String()]
	isVersion := func(v *Version) bool { return v.GroupVersionKind.Version == gvr.Version }
	if k == nil || !slices.ContainsFunc(k.Versions, isVersion) {
		return nil
	}
	return k
}

// ByName returns the kind with the name plural.group, which is also that of its CRD and the text
// of its GroupResource, or the decorator of a name; nil if there is none.
func (c *Catalog) ByName(name string) *Kind { return c.byName[name] }

// ByGroupKind returns the kind of that group and name, whatever its versions; nil if there is
// none.
func (c *Catalog) ByGroupKind(gk apischema.GroupKind) *Kind {
	for _, k := range c.all {
		if k.GroupVersionKind.GroupKind() == gk {
			return k
		}
	}
	return nil
}

// BrokenNames returns the names of the kinds that failed to load, each once, sorted; "" stands for whole packages.
func (c *Catalog) BrokenNames() []string {
	return sets.List(c.failed)
}

// Unknown explains why the catalog has no kind for a GroupVersionKind.
type Unknown struct {
	// Field is the field of an object that is wrong: kind, or apiVersion if only the version
	// is.
	Field string
	// Reason describes the error and names the kinds that exist.
	Reason string
	// Elsewhere reports whether no kind of the group is known, nor of one with almost the same name: someone
	// else may serve it.
	Elsewhere bool
	// NotLoaded reports that the kind, or a package that may have it, failed to load.
	NotLoaded bool
}

// WhyUnknown explains why ByGVK finds no kind for gvk.
func (c *Catalog) WhyUnknown(gvk apischema.GroupVersionKind) Unknown {
	if c.failed.Has(gvk.Kind) {
		return Unknown{Field: "kind", Reason: fmt.Sprintf("the kind %s failed to load", gvk.Kind), NotLoaded: true}
	}
	var versions, inGroup, near, all, groups []string
	for _, known := range c.gvks() {
		all, groups = append(all, TypeName(known)), append(groups, known.Group)
		if known.Group != gvk.Group {
			continue
		}
		inGroup = append(inGroup, TypeName(known))
		if known.Kind == gvk.Kind {
			versions = append(versions, known.Version)
		}
		if isNear(known.Kind, gvk.Kind) {
			near = append(near, known.Kind)
		}
	}
	switch {
	case len(versions) > 0:
		return Unknown{Field: "apiVersion", Reason: fmt.Sprintf("%s of %s exists in version %s", gvk.Kind, gvk.Group,
			strings.Join(versions, ", "))}
	case len(near) > 0:
		return Unknown{Field: "kind", Reason: fmt.Sprintf("did you mean %s? Kinds of this group: %s",
			strings.Join(slices.Compact(near), " or "), strings.Join(inGroup, "; "))}
	case c.failed.Has(""):
		return Unknown{Field: "kind", Reason: "some kinds failed to load, and this may be one of them", NotLoaded: true}
	case len(inGroup) > 0:
		return Unknown{Field: "kind", Reason: "kinds of this group: " + strings.Join(inGroup, "; ")}
	}
	if near := types.Nearest(gvk.Group, groups); near != "" {
		return Unknown{Field: "apiVersion", Reason: fmt.Sprintf("did you mean %s?", near)}
	}
	return Unknown{Field: "kind", Reason: "known kinds: " + strings.Join(all, "; "), Elsewhere: true}
}

// TypeName names a type for people, as in apps/v1 Deployment.
func TypeName(gvk apischema.GroupVersionKind) string {
	return gvk.GroupVersion().String() + " " + gvk.Kind
}

// gvks returns what all kinds serve, sorted.
func (c *Catalog) gvks() []apischema.GroupVersionKind {
	var all []apischema.GroupVersionKind
	for gvk := range c.byGVK {
		all = append(all, gvk)
	}
	slices.SortFunc(all, func(a, b apischema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// isNear reports whether one name may be a misspelling of the other: the same but for case, or
// with one letter added, removed or replaced.
func isNear(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	prefix := 0
	for prefix < len(a) && a[prefix] == b[prefix] {
		prefix++
	}
	switch len(b) - len(a) {
	case 0:
		return prefix == len(a) || a[prefix+1:] == b[prefix+1:]
	case 1:
		return a[prefix:] == b[prefix+1:]
	}
	return false
}
