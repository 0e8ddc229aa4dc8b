package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/podrules"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Kinds are the kinds that were loaded, and what came of the others.
type Kinds struct {
	*kind.Catalog
	added  []*kind.Kind
	broken []*syntax.LoadError
	proofs []Proof
	// types are known to all folders, and all has those of the kinds in the folders, too; nil until one is loaded.
	types, all *types.Catalog
	waiting    []folderDrafts // for the types of others
}

// NewKinds returns kinds that are loaded already. Their names must differ.
func NewKinds(kinds ...*kind.Kind) *Kinds { return &Kinds{Catalog: kind.NewCatalog(kinds...)} }

// All loads the shipped kinds, if they are wanted, and those of the CUE packages in dirs.
// Kinds that fail to load are left out: Broken lists them. An error is about a whole
// folder, or about two kinds with one name; the catalog holds what could be loaded.
func All(shipped bool, dirs ...string) (*Kinds, error) {
	folders := make([]Folder, len(dirs))
	for i, dir := range dirs {
		folders[i] = Folder{Dir: dir}
	}
	return Folders(shipped, nil, folders...)
}

// Folder is a folder with a CUE package of kinds.
type Folder struct {
	Dir string
	// Selected means that only the kinds in Only are loaded, which may be none. Otherwise all are,
	// and the package is evaluated whole.
	Selected bool
	Only     []string
	// Broken are the errors of kinds that must not be loaded here.
	Broken []*syntax.LoadError
	// Proofs are of kinds that were compared with CUE's evaluator. One that differs counts as broken.
	Proofs []Proof
}

// Folders is All for folders of which some kinds must not be loaded. The kinds of the folders
// are checked against the types that they have and that Kubernetes itself serves, and those in
// typeFiles (types.Catalog.AddPath).
func Folders(shipped bool, typeFiles []string, folders ...Folder) (*Kinds, error) {
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
	if len(folders) > 0 {
		errs = append(errs, c.AddTypes())
	}
	for _, folder := range folders {
		c.read(folder)
	}
	_, err := c.AddWaiting()
	return c, errors.Join(append(errs, err)...)
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
			addType(known, k)
		}
	}
	var errs []error
	for _, path := range paths {
		if err := c.types.AddPath(path); err != nil {
			errs = append(errs, fmt.Errorf("types: %w", err))
		}
	}
	if c.all == nil || len(paths) > 0 {
		c.all = c.types.Clone()
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

// addType adds the types of a kind to those that are known.
func addType(known *types.Catalog, k *kind.Kind) {
	for _, v := range k.Versions {
		known.Add(v.GroupVersionKind,
			types.Resource{Type: known.FromRootSchema(v.Schema),
				Namespaced: k.Scope == apiextensionsv1.NamespaceScoped})
	}
}

// addTypesOf adds those of the kinds of a folder.
func addTypesOf(known *types.Catalog, drafts []Draft) {
	for _, k := range drafts {
		if k.Target == nil {
			addType(known, k.Kind)
		}
	}
}

// ValidateChild returns the errors of ValidateObject for a child, and those for which the API server cannot apply it.
func (c *Kinds) ValidateChild(child map[string]any) field.ErrorList { return c.validate(child, true) }

// ValidateObject returns the errors for which the API server would reject an object: an invalid name, fields that do
// not fit the type, if that is known, invalid Pods that the object is or makes, and fields that do not go together. It
// ignores the status, which others write.
func (c *Kinds) ValidateObject(object map[string]any) field.ErrorList {
	return c.validate(object, false)
}

func (c *Kinds) validate(object map[string]any, isApplied bool) field.ErrorList {
	u := &unstructured.Unstructured{Object: object}
	var errs field.ErrorList
	problems, _ := types.NameProblems(u.GroupVersionKind(), u.GetName())
	for _, problem := range problems {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), u.GetName(), problem))
	}
	if c.all == nil {
		return errs
	}
	if known, ok, _ := c.all.Find(u.GroupVersionKind()); ok {
		object = maps.Clone(object)
		delete(object, "status")
		errs = append(errs, known.Type.Validate(object, nil)...)
	}
	if len(errs) == 0 {
		errs = validatePods(u)
	}
	if len(errs) == 0 {
		errs = check.Object(c.all, object, isApplied)
	}
	return errs
}

// validatePods returns why the API server rejects the Pods of an object whatever other webhooks add to them.
func validatePods(u *unstructured.Unstructured) field.ErrorList {
	way, ok := types.PodTemplate(u.GroupVersionKind().GroupKind())
	if !ok {
		return nil
	}
	template, _, err := unstructured.NestedFieldNoCopy(u.Object, way...)
	content, isStruct := template.(map[string]any)
	var pod corev1.Pod
	if err != nil || !isStruct || runtime.DefaultUnstructuredConverter.FromUnstructured(content, &pod) != nil {
		return nil
	}
	var path *field.Path
	for _, name := range way {
		path = path.Child(name)
	}
	return podrules.ValidatePart(&pod, path)
}

// ShippedError is the error of a kind in a folder that has the name of one that Fescue ships.
type ShippedError struct{ err error }

func (e *ShippedError) Error() string {
	return e.err.Error() + "; --shipped-kinds=false leaves out the kinds that Fescue ships"
}

func (e *ShippedError) Unwrap() error { return e.err }

// folderDrafts are the kinds of a folder before their behaviours are checked; err has those that did not load.
type folderDrafts struct {
	Folder
	drafts []Draft
	err    error
}

// read loads the kinds of a folder, which wait for the types of other folders. AddTypes was called before.
func (c *Kinds) read(folder Folder) {
	read := folderDrafts{Folder: folder}
	if !folder.Selected || len(folder.Only) > 0 {
		read.drafts, read.err = Drafts(folder.Dir, folder.Only...)
	}
	addTypesOf(c.all, read.drafts)
	c.waiting = append(c.waiting, read)
}

// AddFolder adds the kinds of a folder to the catalog, and returns those that it has added. If one has children, or
// reads, of types that are not known, the folder waits for AddWaiting: they may be kinds of a folder that follows. So
// it does not matter which comes first.
func (c *Kinds) AddFolder(folder Folder) ([]*kind.Kind, error) {
	if err := c.AddTypes(); err != nil {
		return nil, err
	}
	c.read(folder)
	last := len(c.waiting) - 1
	read, known := c.waiting[last], c.types.Clone()
	addTypesOf(known, read.drafts)
	if slices.ContainsFunc(read.drafts, func(d Draft) bool { return !knowsTypesOf(known, d.Kind) }) {
		return nil, nil
	}
	c.waiting = c.waiting[:last]
	return c.add(read, known)
}

// AddWaiting adds the kinds of the folders that wait for the types of others.
func (c *Kinds) AddWaiting() (added []*kind.Kind, err error) {
	var errs []error
	for _, folder := range c.waiting {
		kinds, err := c.add(folder, c.all)
		added, errs = append(added, kinds...), append(errs, err)
	}
	c.waiting = nil
	return added, errors.Join(errs...)
}

// knowsTypesOf reports whether a catalog has the types of all children and reads of a kind.
func knowsTypesOf(known *types.Catalog, k *kind.Kind) bool {
	isKnown := func(gvk apischema.GroupVersionKind) bool {
		_, found, _ := known.Find(gvk)
		return found
	}
	return !slices.ContainsFunc(k.Owns, func(gvk apischema.GroupVersionKind) bool { return !isKnown(gvk) }) &&
		!slices.ContainsFunc(k.Lookups, func(l kind.LookupFacts) bool { return !isKnown(l.Type) })
}

// AddText adds the kinds of one CUE file, as if it were in a folder without other files, and returns those that it has
// added.
func (c *Kinds) AddText(text string) ([]*kind.Kind, error) {
	if err := c.AddTypes(); err != nil {
		return nil, err
	}
	drafts, err := FromText(text)
	addTypesOf(c.all, drafts)
	return c.add(folderDrafts{Folder{}, drafts, err}, c.all)
}

// add checks the kinds of a folder, and adds those without mistakes.
func (c *Kinds) add(folder folderDrafts, known *types.Catalog) ([]*kind.Kind, error) {
	c.fail(folder.Broken...)
	errs := []error{c.takeBroken(folder.err)}
	first := len(c.added)
	c.proofs = append(c.proofs, folder.Proofs...)
	for _, draft := range folder.drafts {
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
		if mistakes := check.Behaviour(k, draft.Source, known); len(mistakes) > 0 {
			c.fail(mistakes...)
			continue
		}
		if mistake := c.cycle(k); mistake != nil {
			c.fail(mistake)
			continue
		}
		if i := slices.IndexFunc(folder.Proofs, func(p Proof) bool { return p.Kind == k.LoadName() }); i >= 0 &&
			folder.Proofs[i].Difference != nil {
			c.fail(folder.Proofs[i].Difference)
			continue
		}
		c.Add(k)
		c.added = append(c.added, k)
	}
	return c.added[first:], errors.Join(errs...)
}

// fail keeps errors of kinds that are left out.
func (c *Kinds) fail(broken ...*syntax.LoadError) {
	c.broken = append(c.broken, broken...)
	for _, b := range broken {
		c.Fail(b.Kind)
	}
}

// takeBroken keeps the syntax.LoadErrors among those joined in err, and returns the others.
func (c *Kinds) takeBroken(err error) error {
	var others []error
	for _, one := range syntax.Unjoined(err) {
		if broken, ok := errors.AsType[*syntax.LoadError](one); ok {
			c.fail(broken)
		} else {
			others = append(others, one)
		}
	}
	return errors.Join(others...)
}

// Added returns those of Behaviours that were found in folders. Do not change it.
func (c *Kinds) Added() []*kind.Kind { return c.added }

// Broken returns the errors of the kinds that failed to load. One with an empty Kind is about a
// whole package.
func (c *Kinds) Broken() []*syntax.LoadError { return c.broken }

// Proofs returns how far kinds were compared with CUE's evaluator.
func (c *Kinds) Proofs() []Proof { return c.proofs }

// BrokenError joins what Broken returns; it is nil if all kinds loaded.
func (c *Kinds) BrokenError() error {
	return syntax.Joined(c.broken)
}
