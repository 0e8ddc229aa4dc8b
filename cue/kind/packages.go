package kind

import (
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
)

// eachPackage calls a function for a package and for those that it imports, each once. What only a
// package imports for which it returns false is left out.
func eachPackage(instance *build.Instance, do func(*build.Instance) bool) {
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

// walkSources walks the syntax of a package and of those that it imports, without those of Fescue.
func walkSources(instance *build.Instance, visit func(ast.Node) bool) {
	eachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == contractPackage || of.ImportPath == libraryPackage {
			return false
		}
		for _, file := range of.Files {
			ast.Walk(file, visit, nil)
		}
		return true
	})
}
