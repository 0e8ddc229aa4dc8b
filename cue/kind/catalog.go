package kind

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// Kinds are the kinds that were loaded, and what came of the others.
type Kinds struct {
	*Catalog
	added  []*Kind
	broken []*LoadError
	proofs []Proof
	types  *types.Catalog // nil until a folder is loaded
}

// NewCatalog returns a catalog of the given kinds. Their names must differ.
func NewCatalog(kinds ...*Kind) *Catalog {
	c := &Catalog{byGVK: make(map[apischema.GroupVersionKind]*Kind), byName: make(map[string]*Kind), failed: sets.New[string]()}
	for _, k := range kinds {
		c.Add(k)
	}
	return c
}

// NewKinds returns kinds that are loaded already. Their names must differ.
func NewKinds(kinds ...*Kind) *Kinds { return &Kinds{Catalog: NewCatalog(kinds...)} }

// Load loads the shipped kinds, if they are wanted, and those of the CUE packages in dirs.
// Kinds that fail to load are left out: Broken lists them. An error is about a whole
// folder, or about two kinds with one name; the catalog holds what could be loaded.
func Load(shipped bool, dirs ...string) (*Kinds, error) {
	folders := make([]Folder, len(dirs))
	for i, dir := range dirs {
		folders[i] = Folder{Dir: dir}
	}
	return LoadFolders(shipped, nil, folders...)
}

// Folder is a folder with a CUE package of kinds.
type Folder struct {
	Dir string
	// Selected means that only the kinds in Only are loaded, which may be none. Otherwise all are,
	// and the package is evaluated whole.
	Selected bool
	Only     []string
	// Broken are the errors of kinds that must not be loaded here.
	Broken []*LoadError
	// Proofs are of kinds that were compared with CUE's evaluator. One that differs counts as broken.
	Proofs []Proof
}

// LoadFolders is Load for folders of which some kinds must not be loaded. The kinds of the folders
// are checked against the types that they have and that Kubernetes itself serves, and those in
// typeFiles (types.Catalog.AddPath).
func LoadFolders(shipped bool, typeFiles []string, folders ...Folder) (*Kinds, error) {
	c := NewKinds()
	var errs []error
	if shipped {
		kinds, err := Shipped()
		for _, k := range kinds {
			c.Add(k)
		}
		errs = append(errs, c.takeBroken(err))
	}
	if len(typeFiles) > 0 {
		errs = append(errs, c.AddTypes(typeFiles...))
	}
	for _, folder := range folders {
		_, err := c.LoadFolder(folder)
		errs = append(errs, err)
	}
	return c, errors.Join(errs...)
}

// AddTypes adds the types of objects in files or folders, against which the behaviours of the
// folders that are loaded later are checked: CRDs, or OpenAPI documents. They also know those that
// Kubernetes itself serves, and those of the kinds in the catalog.
func (c *Kinds) AddTypes(paths ...string) error {
	if c.types == nil {
		known, err := types.New()
		if err != nil {
			return err
		}
		c.types = known
		for _, k := range c.All() {
			c.addType(k)
		}
	}
	var errs []error
	for _, path := range paths {
		if err := c.types.AddPath(path); err != nil {
			errs = append(errs, fmt.Errorf("types: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Plurals returns the plurals of the types that AddTypes got from CustomResourceDefinitions.
func (c *Kinds) Plurals() map[apischema.GroupKind]string {
	if c.types == nil {
		return nil
	}
	return c.types.Plurals()
}

// addType adds the types of a kind.
func (c *Kinds) addType(k *Kind) {
	for _, v := range k.Versions {
		c.types.Add(v.GroupVersionKind, types.Resource{Type: c.types.FromRootSchema(v.Schema), Namespaced: k.Scope == apiextensionsv1.NamespaceScoped})
	}
}

// ValidateChild returns what in a child does not fit its type, as far as it is known, and whether its
// name can be one. Its status, which others write, is left out.
func (c *Kinds) ValidateChild(child map[string]any) field.ErrorList {
	u := &unstructured.Unstructured{Object: child}
	var errs field.ErrorList
	if name := u.GetName(); !slices.Contains(pathNamed, u.GetKind()) {
		for _, problem := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, problem))
		}
	}
	if c.types == nil {
		return errs
	}
	if known, ok, _ := c.types.Find(u.GroupVersionKind()); ok {
		child = maps.Clone(child)
		delete(child, "status")
		errs = append(errs, known.Type.Validate(child, nil)...)
	}
	return errs
}

// ShippedError is the error of a kind in a folder that has the name of one that Fescue ships.
type ShippedError struct{ err error }

func (e *ShippedError) Error() string {
	return e.err.Error() + "; --shipped-kinds=false leaves out the kinds that Fescue ships"
}

func (e *ShippedError) Unwrap() error { return e.err }

// LoadFolder adds the kinds of a folder to the catalog, and returns those that it has added.
func (c *Kinds) LoadFolder(folder Folder) ([]*Kind, error) {
	c.fail(folder.Broken...)
	if folder.Selected && len(folder.Only) == 0 {
		return nil, nil
	}
	drafts, err := Drafts(folder.Dir, folder.Only...)
	errs := []error{c.takeBroken(err), c.AddTypes()}
	for _, k := range drafts {
		if k.Target == nil {
			c.addType(k.Kind)
		}
	}
	first := len(c.added)
	c.proofs = append(c.proofs, folder.Proofs...)
	for _, draft := range drafts {
		k := draft.Kind
		k.Folder = folder.Dir
		if other := c.ByName(k.Name()); other != nil && k.Target != nil {
			errs = append(errs, fmt.Errorf("kinds folder %s: there is a decorator %s already", folder.Dir, k.Name()))
			continue
		} else if other != nil {
			err := fmt.Errorf("kinds folder %s: kind %s: the kind %s already has the plural and the group %s",
				folder.Dir, k.GroupVersionKind.Kind, other.GroupVersionKind.Kind, k.Name())
			if !slices.Contains(c.added, other) {
				err = &ShippedError{err}
			}
			errs = append(errs, err)
			continue
		}
		if mistakes := checkBehaviour(k, draft.pkg, c.types); len(mistakes) > 0 {
			c.fail(mistakes...)
			continue
		}
		if mistake := c.cycle(k); mistake != nil {
			c.fail(mistake)
			continue
		}
		if i := slices.IndexFunc(folder.Proofs, func(p Proof) bool { return p.Kind == k.LoadName() }); i >= 0 && folder.Proofs[i].Difference != nil {
			c.fail(folder.Proofs[i].Difference)
			continue
		}
		c.Add(k)
		c.added = append(c.added, k)
	}
	return c.added[first:], errors.Join(errs...)
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

// fail keeps errors of kinds that are left out.
func (c *Kinds) fail(broken ...*LoadError) {
	c.broken = append(c.broken, broken...)
	for _, b := range broken {
		c.Fail(b.Kind)
	}
}

// takeBroken keeps the LoadErrors among those joined in err, and returns the others.
func (c *Kinds) takeBroken(err error) error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var others []error
		for _, one := range joined.Unwrap() {
			others = append(others, c.takeBroken(one))
		}
		return errors.Join(others...)
	}
	if broken, ok := errors.AsType[*LoadError](err); ok {
		c.fail(broken)
		return nil
	}
	return err
}

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

// Added returns those of Behaviours that Load found in folders. Do not change it.
func (c *Kinds) Added() []*Kind { return c.added }

// ByGVK returns the kind that serves gvk in any of its versions; nil if there is none.
func (c *Catalog) ByGVK(gvk apischema.GroupVersionKind) *Kind { return c.byGVK[gvk] }

// ByResource returns the kind that the API server serves at gvr, in any of its versions; nil if
// there is none.
func (c *Catalog) ByResource(gvr apischema.GroupVersionResource) *Kind {
	k := c.byName[gvr.GroupResource().String()]
	if k == nil || !slices.ContainsFunc(k.Versions, func(v *Version) bool { return v.GroupVersionKind.Version == gvr.Version }) {
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

// Broken returns the errors of the kinds that failed to load. One with an empty Kind is about a
// whole package.
func (c *Kinds) Broken() []*LoadError { return c.broken }

// Proofs returns how far kinds were compared with CUE's evaluator.
func (c *Kinds) Proofs() []Proof { return c.proofs }

// BrokenNames returns the names of the kinds that failed to load, each once, sorted; "" stands for whole packages.
func (c *Catalog) BrokenNames() []string {
	return sets.List(c.failed)
}

// BrokenError joins what Broken returns; it is nil if all kinds loaded.
func (c *Kinds) BrokenError() error {
	errs := make([]error, len(c.broken))
	for i, broken := range c.broken {
		errs[i] = broken
	}
	return errors.Join(errs...)
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
		return Unknown{Field: "apiVersion", Reason: fmt.Sprintf("%s of %s exists in version %s", gvk.Kind, gvk.Group, strings.Join(versions, ", "))}
	case len(near) > 0:
		return Unknown{Field: "kind", Reason: fmt.Sprintf("did you mean %s? Kinds of this group: %s", strings.Join(slices.Compact(near), " or "), strings.Join(inGroup, "; "))}
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
