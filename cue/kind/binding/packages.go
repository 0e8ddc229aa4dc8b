package binding

import (
	"strings"

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

// Imported returns the package with a path, as Selected returns it, of those that a package imports; nil if there is
// none with syntax, as of CUE's own.
func Imported(instance *build.Instance, path string) *build.Instance {
	for _, imported := range instance.Imports {
		if imported.ImportPath == path || imported.ID() == path ||
			strings.TrimSuffix(imported.ImportPath, ":"+imported.PkgName) == path {
			return imported
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
