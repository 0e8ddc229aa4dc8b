package syntax

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

	"github.com/fescue-dev/fescue/cue/kind/binding"
)

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

// WalkSources walks the syntax of a package and of those that it imports, without those of Fescue.
func WalkSources(instance *build.Instance, visit func(ast.Node) bool) {
	binding.EachPackage(instance, func(of *build.Instance) bool {
		if of.ImportPath == ContractPackage || of.ImportPath == LibraryPackage {
			return false
		}
		for _, file := range of.Files {
			ast.Walk(file, visit, nil)
		}
		return true
	})
}
