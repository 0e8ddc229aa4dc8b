package load

import (
	"maps"
	"slices"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"

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
	reads, _ := program.Reads()
	v.Conversion = &kind.Conversion{Name: name, Program: program, At: syntax.PositionOf(declared[0]),
		Stated: make(map[string]*kind.Stated), Reads: reads}
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
