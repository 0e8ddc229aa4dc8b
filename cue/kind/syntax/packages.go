package syntax

import (
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
)

// TopLevels are the fields at the top of packages.
type TopLevels map[*build.Instance]map[string][]*ast.Field

// FieldsOf returns those of a package by name; a field may be declared more than once.
func (t TopLevels) FieldsOf(instance *build.Instance) map[string][]*ast.Field {
	if found, ok := t[instance]; ok {
		return found
	}
	found := make(map[string][]*ast.Field)
	for _, file := range instance.Files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.Field); ok {
				if name, _, err := ast.LabelName(f.Label); err == nil {
					found[name] = append(found[name], f)
				}
			}
		}
	}
	t[instance] = found
	return found
}

// ImportedPackage returns the name and the import path of the package that a
// selector selects from, or "" if it selects from something else.
func ImportedPackage(e *ast.SelectorExpr) (name, path string) {
	ident, ok := e.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	spec, ok := ident.Node.(*ast.ImportSpec)
	if !ok {
		return ident.Name, ""
	}
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ident.Name, ""
	}
	path, _, _ = strings.Cut(path, ":")
	return ident.Name, path
}

// ImportedDefinition finds a definition of another package; nil is none.
func ImportedDefinition(instance *build.Instance, e *ast.SelectorExpr) (*build.Instance, string) {
	name, _, err := ast.LabelName(e.Sel)
	_, path := ImportedPackage(e)
	if err != nil || path == "" || !strings.HasPrefix(name, "#") {
		return nil, ""
	}
	i := slices.IndexFunc(instance.Imports, func(imported *build.Instance) bool { return IsPackage(imported, path) })
	if i < 0 {
		return nil, ""
	}
	return instance.Imports[i], name
}

// IsPackage reports whether a package has an import path, in the form that importedPackage
// returns.
func IsPackage(instance *build.Instance, path string) bool {
	return instance.ImportPath == path || instance.ID() == path ||
		strings.TrimSuffix(instance.ImportPath, ":"+instance.PkgName) == path
}

// EachField calls a function for each field of a struct, if there is one.
func EachField(value cue.Value, do func(name string, value cue.Value) error) error {
	if !value.Exists() {
		return nil
	}
	fields, err := value.Fields()
	if err != nil {
		return err
	}
	for fields.Next() {
		if err := do(fields.Selector().Unquoted(), fields.Value()); err != nil {
			return err
		}
	}
	return nil
}

// EachPackage calls a function for a package and for those that it imports, each once. What only a
// package imports for which it returns false is left out.
func EachPackage(instance *build.Instance, do func(*build.Instance) bool) {
	seen := make(map[*build.Instance]bool)
	var visit func(*build.Instance)
	visit = func(of *build.Instance) {
		if seen[of] {
			return
		}
		seen[of] = true
		if !do(of) {
			return
		}
		for _, imported := range of.Imports {
			visit(imported)
		}
	}
	visit(instance)
}

// WalkSources walks the syntax of a package and of those that it imports, without those of Fescue.
func WalkSources(instance *build.Instance, visit func(ast.Node) bool) {
	EachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == ContractPackage || of.ImportPath == LibraryPackage {
			return false
		}
		for _, file := range of.Files {
			ast.Walk(file, visit, nil)
		}
		return true
	})
}
