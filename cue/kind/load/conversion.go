package load

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// newConversion compiles the conversion of a version, if there is one.
func newConversion(k Draft, v *kind.Version, definition string) error {
	name := definition + syntax.ConversionSuffix
	v.Served = true
	declared := k.Source.Definitions[name]
	if len(declared) == 0 {
		return nil
	}
	source := facts.Conversion(k.Kind, k.Source, v, name, nil)
	if mistakes := check.OfConversion(source, k.Source, name); len(mistakes) > 0 {
		return mistakes[0]
	}
	value := k.Source.Value.LookupPath(cue.MakePath(cue.Def(name)))
	if err := value.Validate(); err != nil {
		return err
	}
	if !value.LookupPath(cue.ParsePath("served")).Exists() {
		return syntax.ErrorAtNode(mistake.MissingContract, declared[0],
			"%s must be a contract.#Conversion: write %s: contract.#Conversion & {…}", name, name)
	}
	for field, into := range map[string]*bool{"served": &v.Served, "deprecated": &v.Deprecated} {
		at := value.LookupPath(cue.ParsePath(field))
		stated, err := at.Bool()
		if err != nil {
			return syntax.ErrorAt(mistake.NotConstant, at, field, "must be true or false for all objects")
		}
		*into = stated
	}
	if warning := value.LookupPath(cue.ParsePath("deprecationWarning")); warning.Exists() {
		text, err := constant(value, cue.ParsePath("deprecationWarning"))
		if err != nil {
			return err
		}
		if !v.Deprecated {
			return syntax.ErrorAt(mistake.UnneededWarning, warning, "deprecationWarning", "needs deprecated: true")
		}
		v.DeprecationWarning = text
	}
	program, err := behaviour.CompileGiven(k.Source.Instance, name, behaviour.ObjectName, kind.StoredName)
	if err != nil {
		return located(mistake.UnsupportedCUE, err)
	}
	v.Conversion = &kind.Conversion{Name: name, Program: program, At: syntax.PositionOf(declared[0]),
		Stated: make(map[string]*kind.Stated), Reads: pathsRead(declared)}
	for _, direction := range []string{kind.ToStoredName, kind.FromStoredName} {
		if m := source.Definition.Fields[direction]; m != nil {
			v.Conversion.Stated[direction] = facts.StatedBy(source.Definition.In(direction))
			v.Conversion.Stated[direction].At = syntax.PositionOf(m.Node)
		}
		if s := v.Conversion.Stated[direction]; s != nil && s.Whole {
			return syntax.ErrorAtNode(mistake.NotConstant, declared[0],
				"%s: %s: must be a struct with fields whose names are known: write %s: spec: …", name, direction,
				direction)
		}
	}
	return nil
}

// pathsRead returns the paths of the fields of the object that a conversion reads; that of the whole object
// is empty.
func pathsRead(declared []*ast.Field) (paths []string) {
	for _, f := range declared {
		ast.Walk(f.Value, func(n ast.Node) bool {
			if ident, ok := n.(*ast.Ident); ok && ident.Name == behaviour.ObjectName && ident.Scope != nil {
				paths = append(paths, "")
			}
			e, _ := n.(ast.Expr)
			names := pathFrom(behaviour.ObjectName, e)
			if names != nil {
				paths = append(paths, strings.Join(names, "."))
			}
			return names == nil
		}, nil)
	}
	return paths
}

// pathFrom returns the names of a selection from something of a name; nil if it is something else.
func pathFrom(rootName string, e ast.Expr) []string {
	var names []string
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
			continue
		case *ast.SelectorExpr:
			name, _, err := ast.LabelName(x.Sel)
			if err != nil {
				return nil
			}
			names, e = append(names, name), x.X
			continue
		case *ast.IndexExpr:
			name := "[]"
			if literal, ok := x.Index.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, _, _ = ast.LabelName(literal)
			}
			names, e = append(names, name), x.X
			continue
		case *ast.Ident:
			if x.Name != rootName || len(names) == 0 {
				return nil
			}
			slices.Reverse(names)
			return names
		}
		return nil
	}
}

// orphanConversions finds conversions that belong to no version of a kind.
func orphanConversions(
	definitions map[string][]*ast.Field, instance *build.Instance, kinds []*kind.Kind,
) (errs []error) {
	used := syntax.ReferredTo(definitions, instance)
	for _, k := range kinds {
		for _, v := range k.Versions {
			if v.Conversion != nil {
				used[v.Conversion.Name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		if !used[name] && syntax.IsConversion(definitions[name][0].Value) {
			errs = append(errs, syntax.ErrorAtNode(mistake.MisnamedDefinition,
				definitions[name][0],
				"%s belongs to no further version of a kind: the conversion of #X, which has the group and kind of a kind with another version, must be named #X%s",
				name,
				syntax.ConversionSuffix,
			))
		}
	}
	return errs
}
