package load

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	cueerrors "cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/load"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	fescuecue "github.com/fescue-dev/fescue/cue"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/binding"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// languageVersion is the CUE language version of the embedded files; it matches cue.mod/module.cue.
const languageVersion = "v0.17.0"

// Draft is a kind with the CUE that it comes from, which checks and proofs need. It fits the contract; what does not
// fit the types of its children is not known yet.
type Draft struct {
	*kind.Kind
	Source *syntax.Package
}

// kindsOf returns the kinds of drafts.
func kindsOf(drafts []Draft) []*kind.Kind {
	kinds := make([]*kind.Kind, len(drafts))
	for i, d := range drafts {
		kinds[i] = d.Kind
	}
	return kinds
}

// Shipped loads the kinds that Fescue ships.
func Shipped() ([]*kind.Kind, error) {
	drafts, err := ShippedDrafts()
	return kindsOf(drafts), err
}

// ShippedDrafts is Shipped for kinds that are to be checked or proved.
func ShippedDrafts() ([]Draft, error) {
	overlay := make(map[string]load.Source)
	addModule(overlay, place.ShippedRoot, place.ModulePath)
	addLibrary(overlay, filepath.Join(place.ShippedRoot, "cue"))
	return loadPackage(filepath.Join(place.ShippedRoot, "cue"), overlay, nil)
}

// FromDir loads the kinds of the CUE package in dir. Every definition #XController with a definition #X is a kind, and
// every contract.#Decorator a decorator. The package may import the contract and the shipped kinds as fescue.dev/cue/…
// without having them on disk. It may be part of a CUE module.
//
// If names of kinds are given, only those are loaded, and nothing of the package is evaluated
// that they do not refer to.
//
// Kinds that fail to load are left out and reported as joined *syntax.LoadErrors; the others are
// still returned.
func FromDir(dir string, only ...string) ([]*kind.Kind, error) {
	drafts, err := Drafts(dir, only...)
	return kindsOf(drafts), err
}

// Drafts is FromDir for kinds that are to be checked or proved.
func Drafts(dir string, only ...string) ([]Draft, error) {
	abs, overlay, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	return loadPackage(abs, overlay, only)
}

// FromText loads the kinds of one CUE file, which need not be on disk.
func FromText(text string) ([]Draft, error) {
	overlay := map[string]load.Source{"/kinds/kind.cue": load.FromString(text)}
	addModule(overlay, "/kinds", "kinds.local")
	addLibrary(overlay, filepath.Join("/kinds/cue.mod/pkg", place.ModulePath, "cue"))
	return loadPackage("/kinds", overlay, nil)
}

// Listed is a kind that a folder defines, whether or not it can be loaded.
type Listed struct {
	// Name is the name of the kind, as in #Kind, or that of a decorator, as in #XDecorator.
	Name string
	// File and Line are the place of its behaviour.
	File string
	Line int
}

// List lists the kinds that the CUE package in dir defines, by its syntax: nothing is evaluated. Files that cannot be
// read are left out.
func List(dir string) ([]Listed, error) {
	abs, overlay, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	return list(abs, overlay)
}

func list(dir string, overlay map[string]load.Source) ([]Listed, error) {
	instance := load.Instances([]string{"."}, &load.Config{Dir: dir, Overlay: overlay})[0]
	if instance.Err != nil {
		broken := unreadable(dir, instance)
		if broken.name == "" {
			return nil, broken
		}
		return list(dir, broken.emptied(overlay))
	}
	definitions := make(binding.TopLevels).FieldsOf(instance)
	var listed []Listed
	for _, name := range syntax.LoadableNames(definitions) {
		at := syntax.PositionOf(definitions[syntax.BehaviourOf(name)][0])
		listed = append(listed, Listed{name, at.File, at.Line})
	}
	return listed, nil
}

// CheckFolder returns an error if dir cannot be a folder of kinds: it does not exist, or has no CUE.
func CheckFolder(dir string) error {
	_, _, err := openFolder(dir)
	return err
}

// openFolder returns the absolute path of a folder of kinds, and the files that are added to it.
func openFolder(dir string) (string, map[string]load.Source, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("kinds folder %s: %w", dir, err)
	}
	files, err := os.ReadDir(abs)
	if err != nil {
		return "", nil, fmt.Errorf("kinds folder %s cannot be read: %w", dir, err)
	}
	if !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return filepath.Ext(f.Name()) == ".cue" }) {
		return "", nil, fmt.Errorf("kinds folder %s has no file whose name ends in .cue", dir)
	}
	overlay := make(map[string]load.Source)
	root, inModule := moduleRoot(abs)
	if !inModule {
		root = abs
		addModule(overlay, root, "kinds.local")
	}
	// This repository has the libraries in place, and a module may bring a copy.
	_, errOwn := os.Stat(filepath.Join(root, "cue", "contract"))
	library := filepath.Join(root, "cue.mod", "pkg", place.ModulePath, "cue")
	_, errCopy := os.Stat(library)
	if errOwn != nil && errCopy != nil {
		addLibrary(overlay, library)
	}
	return abs, overlay, nil
}

// moduleRoot finds the nearest folder at or above dir that is a CUE module.
func moduleRoot(dir string) (root string, found bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "cue.mod", "module.cue")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// addModule places a cue.mod/module.cue at root.
func addModule(overlay map[string]load.Source, root, path string) {
	overlay[filepath.Join(root, "cue.mod", "module.cue")] = load.FromString(
		fmt.Sprintf("module: %q\nlanguage: version: %q\n", path+"@v0", languageVersion))
}

// addLibrary places the embedded CUE files at dir.
func addLibrary(overlay map[string]load.Source, dir string) {
	err := fs.WalkDir(fescuecue.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := fescuecue.Files.ReadFile(name)
		overlay[filepath.Join(dir, filepath.FromSlash(name))] = load.FromBytes(b)
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("embedded files cannot be read: %v", err))
	}
}

// loadPackage builds the package in dir and returns a Kind for each kind in it, or for those
// that are named if any are. One kind's error hides no other kind: if the package cannot be built as
// a whole, what can be is loaded file by file, and kind by kind.
func loadPackage(dir string, overlay map[string]load.Source, only []string) ([]Draft, error) {
	kinds, err := loadOnce(dir, overlay, only)
	whole, ok := errors.AsType[*packageError](err)
	switch {
	case !ok:
		return kinds, err
	case whole.file != "": // its syntax, or an import
		return loadWithout(dir, overlay, only, whole)
	}
	errs := []error{whole.LoadError}
	for _, name := range whole.kinds {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		alone, err := loadOnce(dir, overlay, []string{name})
		kinds = append(kinds, alone...)
		if broken, ok := errors.AsType[*packageError](err); ok {
			err = broken.LoadError
			broken.Kind = name
			if broken.File == whole.File && broken.Line == whole.Line {
				errs[0] = nil
			}
		}
		errs = append(errs, err)
	}
	return kinds, errors.Join(errs...)
}

// loadWithout loads a package without a file that cannot be read.
func loadWithout(dir string, overlay map[string]load.Source, only []string, broken *packageError) ([]Draft, error) {
	if broken.name == "" {
		return nil, broken.LoadError
	}
	kinds, err := loadPackage(dir, broken.emptied(overlay), only)
	if errors.Is(err, errNoKind) {
		err = nil
	}
	return kinds, errors.Join(broken.LoadError, err)
}

// packageError is an error because of which a package cannot be built.
type packageError struct {
	*syntax.LoadError
	// file is the file that cannot be read, if that is it, and name that of its package.
	file, name string
	// kinds are those of the package.
	kinds []string
}

// emptied returns an overlay in which the file that cannot be read has nothing but its package.
func (e *packageError) emptied(overlay map[string]load.Source) map[string]load.Source {
	overlay = maps.Clone(overlay)
	overlay[e.file] = load.FromString("package " + e.name + "\n")
	return overlay
}

// errNoKind means that a package has no kind.
var errNoKind = errors.New("a kind consists of two definitions, #X and #X" + behaviour.ControllerSuffix +
	", and a decorator of one, #X" + behaviour.DecoratorSuffix)

// unreadable returns the error of a package of which a file cannot be read.
func unreadable(dir string, instance *build.Instance) *packageError {
	if several, ok := errors.AsType[*load.MultiplePackageError](instance.Err); ok {
		return &packageError{LoadError: otherPackage(dir, several)}
	}
	e := &packageError{LoadError: syntax.NewLoadError("", instance.Err)}
	if e.Check != mistake.FailedImport {
		e.Check = mistake.CUESyntax
	}
	if pos := instance.Err.Position(); e.Check == mistake.CUESyntax {
		if instead := syntax.ForeignNotation(lineAt(instance, pos), pos.Column()-1); instead != "" {
			e.Reason = instead
		}
	}
	for _, one := range cueerrors.Errors(instance.Err) {
		for _, pos := range append([]token.Pos{one.Position()}, one.InputPositions()...) {
			if file := pos.Filename(); file != "" && filepath.Dir(file) == dir {
				e.file = file
				if clause, err := parser.ParseFile(file, nil, parser.PackageClauseOnly); err == nil {
					e.name = clause.PackageName()
				}
				return e
			}
		}
	}
	return e
}

// otherPackage returns the error of a folder whose files are of two packages, at the second one.
func otherPackage(dir string, e *load.MultiplePackageError) *syntax.LoadError {
	file := filepath.Join(dir, e.Files[1])
	clause, err := parser.ParseFile(file, nil, parser.PackageClauseOnly)
	if err != nil || len(clause.Decls) == 0 {
		return syntax.NewLoadError("", e)
	}
	at, _ := errors.AsType[*syntax.LoadError](syntax.ErrorAtNode(mistake.CUESyntax, clause.Decls[0],
		"package %s: %s is of package %s, and all files of a folder are of one", e.Packages[1], e.Files[0], e.Packages[0]))
	return at
}

// lineAt returns the line of a file at a position; it is empty if the file cannot be read.
func lineAt(instance *build.Instance, pos token.Pos) string {
	var text []byte
	for _, file := range slices.Concat(instance.BuildFiles, instance.InvalidFiles) {
		if source, ok := file.Source.([]byte); ok && file.Filename == pos.Filename() {
			text = source
		}
	}
	if text == nil {
		text, _ = os.ReadFile(pos.Filename())
	}
	lines := strings.Split(string(text), "\n")
	if pos.Line() < 1 || pos.Line() > len(lines) {
		return ""
	}
	return lines[pos.Line()-1]
}

// loadOnce loads a package, or those of its kinds that are named. All of them share one CUE context,
// which is never used for anything else.
func loadOnce(dir string, overlay map[string]load.Source, only []string) (loaded []Draft, err error) {
	var names []string
	defer func() {
		if r := recover(); r != nil { // CUE v0.17.1 panics for a call of something that is not a function, for example
			loaded, err = nil,
				&packageError{LoadError: &syntax.LoadError{Check: mistake.CUEError,
					Reason: fmt.Sprintf("CUE cannot evaluate the package in %s: %v", dir, r)}, kinds: names}
		}
	}()
	instances := load.Instances([]string{".", syntax.ContractPackage, syntax.LibraryPackage},
		&load.Config{Dir: dir, Overlay: overlay})
	for _, instance := range instances {
		if instance.Err != nil {
			return nil, unreadable(dir, instance)
		}
	}
	names = syntax.LoadableNames(make(binding.TopLevels).FieldsOf(instances[0]))
	if len(only) > 0 {
		keepOnly(instances[0], only)
	}
	for _, instance := range instances {
		if err := cmp.Or(rejectFatal(instance), rejectQuoted(instance)); err != nil {
			return nil, &packageError{LoadError: syntax.NewLoadError("", err), kinds: names}
		}
	}
	separateTransitions(instances[0])
	context, values, err := syntax.BuildPackages(instances)
	if err != nil {
		return nil, &packageError{LoadError: syntax.NewLoadError("", err), kinds: names}
	}
	rules := syntax.Contract{
		Controller:    values[1].LookupPath(cue.MakePath(cue.Def("#Controller"))),
		Decorator:     values[1].LookupPath(cue.MakePath(cue.Def("#Decorator"))),
		Decorated:     values[1].LookupPath(cue.MakePath(cue.Def("#Decorated"))),
		PodTemplate:   values[2].LookupPath(cue.MakePath(cue.Def("#PodTemplateSpec"))),
		LabelSelector: values[2].LookupPath(cue.MakePath(cue.Def("#LabelSelector"))),
		Contract:      instances[1],
	}
	for _, value := range []cue.Value{rules.Controller, rules.Decorator, rules.Decorated, rules.PodTemplate,
		rules.LabelSelector} {
		if err := value.Err(); err != nil {
			return nil, syntax.NewLoadError("", err)
		}
	}

	hash, err := hashOf(instances[0])
	if err != nil {
		return nil, syntax.NewLoadError("", err)
	}
	definitions := make(binding.TopLevels).FieldsOf(instances[0])
	pkg := &syntax.Package{Instance: instances[0], Context: context, Value: values[0], Definitions: definitions,
		Rules: rules, Proving: new(sync.Mutex)}
	var drafts []Draft
	var errs []error
	for _, name := range syntax.LoadableNames(definitions) {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue // another kind refers to it
		}
		k, err := loadOne(pkg, name)
		if err != nil {
			for _, one := range syntax.Unjoined(err) {
				errs = append(errs,
					syntax.ExplainSelfReference(instances[0],
						syntax.NewLoadError(name, one).OrAt(definitions[syntax.BehaviourOf(name)][0])))
			}
			continue
		}
		source := facts.Of(k.Kind, pkg)
		k.Hash, k.Behaviour, k.Corrected = hash, source.Describe(), source.Corrected()
		drafts = append(drafts, k)
	}
	orphans := append(orphanControllers(definitions, instances[0]), misnamedDecorators(definitions, instances[0])...)
	if len(errs) == 0 { // a kind that fails has none of its versions
		orphans = append(orphans, orphanConversions(definitions, instances[0], kindsOf(drafts))...)
	}
	for _, orphan := range orphans {
		errs = append(errs, syntax.NewLoadError("", orphan))
	}
	if len(drafts) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("kinds folder %s has no kind: %w", dir, errNoKind)
	}
	return drafts, errors.Join(errs...)
}

// keepOnly removes everything from a package that some kinds do not refer to.
func keepOnly(instance *build.Instance, kinds []string) {
	named := make(map[string][]ast.Decl) // what is at the top of a file, by each of its names
	for _, file := range instance.Files {
		for _, decl := range file.Decls {
			for _, name := range namesOfDecl(decl) {
				named[name] = append(named[name], decl)
			}
		}
	}
	kept := make(map[ast.Node]bool)
	var keep func(name string)
	keep = func(name string) {
		for _, decl := range named[name] {
			if kept[decl] {
				continue
			}
			kept[decl] = true
			ast.Walk(decl, func(n ast.Node) bool {
				if ident, ok := n.(*ast.Ident); ok {
					keep(ident.Name)
				}
				return true
			}, nil)
		}
	}
	for _, name := range kinds {
		keep("#" + name)
		keep(syntax.BehaviourOf(name))
		for definition, decls := range named { // its other versions
			if slices.ContainsFunc(decls, func(d ast.Decl) bool { return statesKind(d, name) }) {
				keep(definition)
				keep(definition + syntax.ConversionSuffix)
			}
		}
	}
	for _, file := range instance.Files {
		file.Decls = slices.DeleteFunc(file.Decls, func(decl ast.Decl) bool {
			switch decl.(type) {
			case *ast.Package, *ast.ImportDecl, *ast.CommentGroup, *ast.Attribute:
				return false
			}
			return !kept[decl]
		})
	}
}

// namesOfDecl returns the names by which the rest of a package can refer to a declaration.
func namesOfDecl(decl ast.Decl) (names []string) {
	switch decl := decl.(type) {
	case *ast.Field:
		label := decl.Label
		if alias, ok := label.(*ast.Alias); ok {
			names = append(names, alias.Ident.Name)
			label, _ = alias.Expr.(ast.Label)
		}
		if name, _, err := ast.LabelName(label); err == nil {
			names = append(names, name)
		}
	case *ast.LetClause:
		names = append(names, decl.Ident.Name)
	}
	return names
}

// statesKind reports whether a declaration is a definition of objects of a kind.
func statesKind(decl ast.Decl, kind string) bool {
	f, ok := decl.(*ast.Field)
	if !ok {
		return false
	}
	for _, part := range syntax.Conjuncts(f.Value) {
		s, ok := part.(*ast.StructLit)
		if !ok {
			continue
		}
		for _, elt := range s.Elts {
			field, ok := elt.(*ast.Field)
			if !ok {
				continue
			}
			name, _, err := ast.LabelName(field.Label)
			text, isLiteral := field.Value.(*ast.BasicLit)
			if err == nil && name == "kind" && isLiteral && text.Value == strconv.Quote(kind) {
				return true
			}
		}
	}
	return false
}

// rejectFatal returns an error for a construct that crashes CUE v0.17.1: a struct with fields
// that also embeds a bound overflows the stack, which ends the process.
func rejectFatal(instance *build.Instance) error {
	var found error
	for _, file := range instance.Files {
		ast.Walk(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.StructLit)
			if !ok || found != nil {
				return found == nil
			}
			for _, decl := range literal.Elts {
				if embedded, ok := decl.(*ast.EmbedDecl); ok && len(literal.Elts) > 1 && hasBound(embedded.Expr) {
					found = syntax.ErrorAtNode(mistake.UnsupportedCUE, embedded,
						"a bound cannot be alone in a struct: write it at the field that it limits")
				}
			}
			return found == nil
		}, nil)
	}
	return found
}

// rejectQuoted returns an error for a field at the top of a package whose quoted name is that of a definition: what is
// written there is not part of the definition.
func rejectQuoted(instance *build.Instance) error {
	for _, file := range instance.Files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.Field)
			if !ok {
				continue
			}
			name, isIdentifier, err := ast.LabelName(f.Label)
			if err == nil && !isIdentifier && strings.HasPrefix(name, "#") {
				return syntax.ErrorAtNode(mistake.QuotedDefinition, f.Label,
					"%q in quotes is a field like any other, not the definition %[1]s: write it without quotes", name)
			}
		}
	}
	return nil
}

// hasBound reports whether an expression is or combines bounds like <5.
func hasBound(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.UnaryExpr:
		return e.Op != token.MUL || hasBound(e.X) // * marks a default
	case *ast.ParenExpr:
		return hasBound(e.X)
	case *ast.BinaryExpr:
		return hasBound(e.X) || hasBound(e.Y)
	}
	return false
}

// orphanControllers finds controllers that belong to no kind, most often because of a typing
// error in the name: definitions that are a contract.#Controller, and not part of another.
func orphanControllers(definitions map[string][]*ast.Field, instance *build.Instance) []error {
	used := syntax.ReferredTo(definitions, instance)
	kinds := syntax.KindNames(definitions)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		kind, isNamedSo := strings.CutSuffix(strings.TrimPrefix(name, "#"), behaviour.ControllerSuffix)
		if isNamedSo && slices.Contains(kinds, kind) || used[name] || !syntax.IsController(definitions[name][0].Value) {
			continue
		}
		errs = append(errs, syntax.ErrorAtNode(mistake.MisnamedDefinition, definitions[name][0],
			"%s belongs to no kind: the controller of #X must be named #X%s", name, behaviour.ControllerSuffix))
	}
	return errs
}
