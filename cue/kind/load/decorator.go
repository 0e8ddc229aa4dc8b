package load

import (
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/compile"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// misnamedDecorators finds definitions that are a contract.#Decorator, and not part of another, and
// whose names do not say so.
func misnamedDecorators(definitions map[string][]*ast.Field, instance *build.Instance) []error {
	used := syntax.ReferredTo(definitions, instance)
	known := syntax.DecoratorNames(definitions)
	var errs []error
	for _, definition := range slices.Sorted(maps.Keys(definitions)) {
		name := strings.TrimPrefix(definition, "#")
		if slices.Contains(known, name) || used[definition] ||
			!slices.ContainsFunc(definitions[definition], syntax.IsDecorator) {
			continue
		}
		errs = append(errs, syntax.ErrorAtNode(mistake.MisnamedDefinition, definitions[definition][0],
			"%s does not have the name of a decorator: name it #X%s", definition, behaviour.DecoratorSuffix))
	}
	return errs
}

// loadOne checks a kind or a decorator, given a name of LoadableNames.
func loadOne(pkg *syntax.Package, name string) (Draft, error) {
	if strings.HasSuffix(name, behaviour.DecoratorSuffix) &&
		slices.ContainsFunc(pkg.Definitions["#"+name], syntax.IsDecorator) {
		return newDecorator(strings.TrimSuffix(name, behaviour.DecoratorSuffix), pkg)
	}
	return newKind(name, pkg)
}

// newDecorator checks a decorator against the contract and collects what is known of it without
// looking at any object.
func newDecorator(name string, pkg *syntax.Package) (Draft, error) {
	definition := "#" + name + behaviour.DecoratorSuffix
	decorator := pkg.Value.LookupPath(cue.MakePath(cue.Def(definition)))
	k := Draft{kind.New(), pkg}
	k.Target, k.Phases = &kind.Target{Decorator: name}, make(map[string]kind.PhaseFacts)
	if mistakes := check.OfDecorators(k.Kind, k.Source); len(mistakes) > 0 {
		return Draft{}, syntax.Joined(mistakes)
	}
	if err := decorator.Validate(); err != nil {
		return Draft{}, err
	}
	if err := decorator.Unify(pkg.Rules.Decorator).Validate(); err != nil {
		return Draft{}, err
	}
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		return Draft{},
			syntax.ErrorAt(mistake.InvalidName, decorator, definition,
				"the name %q of a decorator must be a label value: %s", name, problems[0])
	}
	for _, collect := range []func(Draft, cue.Value) error{collectTarget, collectOwned} {
		if err := collect(k, decorator); err != nil {
			return Draft{}, err
		}
	}
	for child, set := range k.Sets {
		if len(set.StrayLabels) > 0 {
			strays := decorator.LookupPath(cue.MakePath(cue.Str("children"), cue.Str(child), cue.Str("strays")))
			return Draft{},
				syntax.ErrorAt(mistake.DecoratorField, strays, "strays",
					"a decorator deletes only what it has created: remove it from %q", child)
		}
	}
	if err := facts.Lookups(k.Kind, k.Source); err != nil {
		return Draft{}, err
	}
	if err := facts.SameLookups(k.Kind, k.Source); err != nil {
		return Draft{}, err
	}
	compiled, err := compile.Schema("Decorated", pkg.Rules.Contract)
	if err != nil {
		return Draft{}, err
	}
	k.Served, k.Versions, k.Compiled, k.Status = true, []*kind.Version{k.Version}, compiled,
		&schema.Completed{Schema: compiled}
	SetOpenAPI(k.Version, nil)
	return k, CompileBehaviour(k)
}

// collectTarget reads which objects a decorator is for.
func collectTarget(k Draft, decorator cue.Value) error {
	target := decorator.LookupPath(cue.ParsePath("target"))
	if err := target.Validate(cue.Concrete(true)); err != nil {
		return err
	}
	gvk, err := ownedType(target)
	if err != nil {
		return err
	}
	k.GroupVersionKind = gvk
	scope, err := constant(decorator, cue.ParsePath("scope"))
	if err != nil {
		return err
	}
	k.Scope = apiextensionsv1.ResourceScope(scope)
	if annotation := target.LookupPath(cue.ParsePath("annotation")); annotation.Exists() {
		if k.Target.Annotation, err = annotation.String(); err != nil {
			return err
		}
		if problems := validation.IsQualifiedName(strings.ToLower(k.Target.Annotation)); len(problems) > 0 {
			return syntax.ErrorAt(mistake.InvalidName, annotation, "target.annotation",
				"%q is not a valid annotation name: %s", k.Target.Annotation, problems[0])
		}
	}
	k.Target.Selector = labels.Everything()
	stated := target.LookupPath(cue.ParsePath("selector"))
	if !stated.Exists() {
		return nil
	}
	var selector metav1.LabelSelector
	if err := stated.Decode(&selector); err != nil {
		return err
	}
	if k.Target.Selector, err = kind.SelectorOf(&selector); err != nil {
		return syntax.ErrorAt(mistake.InvalidSelector, stated, "target.selector", "%v", err)
	}
	return nil
}
