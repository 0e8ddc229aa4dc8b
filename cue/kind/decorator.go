package kind

import (
	"fmt"
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

	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// decoratorSuffix follows the name of a decorator in the name of its definition.
const decoratorSuffix = "Decorator"

// Target says which objects of a type a decorator is for.
type Target struct {
	// Decorator is the name of the decorator: ServicePerPod for #ServicePerPodDecorator.
	Decorator string
	// Annotation is one that the objects have; it is empty if they need none.
	Annotation string
	// Selector selects them by their labels; it selects everything if none is stated.
	Selector labels.Selector
}

// Selects reports whether an object of the type is one of the decorator's.
func (t *Target) Selects(object metav1.Object) bool {
	if t.Annotation != "" { // both getters copy their maps, and every event of the type comes here
		if _, found := object.GetAnnotations()[t.Annotation]; !found {
			return false
		}
	}
	return t.Selector.Empty() || t.Selector.Matches(labels.Set(object.GetLabels()))
}

// String describes the objects for people: what they have.
func (t *Target) String() string {
	var parts []string
	if requirements, _ := t.Selector.Requirements(); len(requirements) == 1 {
		parts = append(parts, "the label "+t.Selector.String())
	} else if len(requirements) > 1 {
		parts = append(parts, "the labels "+t.Selector.String())
	}
	if t.Annotation != "" {
		parts = append(parts, "the annotation "+t.Annotation)
	}
	return strings.Join(parts, " and ")
}

// WithoutDecorators returns the kinds that have objects of their own.
func WithoutDecorators(kinds []*Kind) []*Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *Kind) bool { return k.Target != nil })
}

// Title is how people name the kind: Greeting for #Greeting, and ServicePerPod for
// #ServicePerPodDecorator.
func (k *Kind) Title() string {
	if k.Target != nil {
		return k.Target.Decorator
	}
	return k.GroupVersionKind.Kind
}

// LoadName is the name by which the kind is loaded: that of its definition for a decorator.
func (k *Kind) LoadName() string {
	if k.Target != nil {
		return k.Target.Decorator + decoratorSuffix
	}
	return k.GroupVersionKind.Kind
}

// behaviourOf returns the name of the definition of a behaviour, given a name of loadableNames.
func behaviourOf(name string) string {
	if strings.HasSuffix(name, decoratorSuffix) {
		return "#" + name
	}
	return "#" + name + controllerSuffix
}

// ReadOfObject returns what the behaviour may read of an object of the kind. The result shares memory
// with the object.
func (k *Kind) ReadOfObject(object map[string]any) any { return k.Reads.Object.of(object) }

// ObjectPaths returns the paths of what the behaviour may read of an object of the kind, as
// ObservedPaths does for children.
func (k *Kind) ObjectPaths() [][]string {
	if k.Reads.Object.Whole {
		return [][]string{{}}
	}
	return k.Reads.Object.leaves(nil, nil)
}

// decoratorNames lists the decorators of a package by their definitions, sorted.
func decoratorNames(definitions map[string][]*ast.Field) []string {
	var names []string
	for definition, fields := range definitions {
		name := strings.TrimPrefix(definition, "#")
		if name != definition && len(name) > len(decoratorSuffix) && strings.HasSuffix(name, decoratorSuffix) && slices.ContainsFunc(fields, isDecorator) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isDecorator reports whether a definition begins with contract.#Decorator.
func isDecorator(f *ast.Field) bool { return beginsWith(f.Value, "#"+decoratorSuffix) }

// misnamedDecorators finds definitions that are a contract.#Decorator, and not part of another, and
// whose names do not say so.
func misnamedDecorators(definitions map[string][]*ast.Field, instance *build.Instance) []error {
	used := referredTo(definitions, instance)
	known := decoratorNames(definitions)
	var errs []error
	for _, definition := range slices.Sorted(maps.Keys(definitions)) {
		name := strings.TrimPrefix(definition, "#")
		if slices.Contains(known, name) || used[definition] || !slices.ContainsFunc(definitions[definition], isDecorator) {
			continue
		}
		errs = append(errs, errorAtNode(definitions[definition][0], "%s does not have the name of a decorator: name it #X%s", definition, decoratorSuffix))
	}
	return errs
}

// load checks a kind or a decorator, given a name of loadableNames.
func (pkg *kindsPackage) load(name string) (*Kind, error) {
	if strings.HasSuffix(name, decoratorSuffix) && slices.ContainsFunc(pkg.definitions["#"+name], isDecorator) {
		return newDecorator(strings.TrimSuffix(name, decoratorSuffix), pkg)
	}
	return newKind(name, pkg)
}

// newDecorator checks a decorator against the contract and collects what is known of it without
// looking at any object.
func newDecorator(name string, pkg *kindsPackage) (*Kind, error) {
	definition := "#" + name + decoratorSuffix
	decorator := pkg.value.LookupPath(cue.MakePath(cue.Def(definition)))
	k := New()
	k.Target, k.Phases = &Target{Decorator: name}, make(map[string]PhaseFacts)
	if mistakes := checkDecoratorContract(k, pkg); len(mistakes) > 0 {
		return nil, joinMistakes(mistakes)
	}
	if err := decorator.Validate(); err != nil {
		return nil, err
	}
	if err := decorator.Unify(pkg.rules.decorator).Validate(); err != nil {
		return nil, err
	}
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		return nil, errorAt(decorator, definition, "the name %q of a decorator must be a label value: %s", name, problems[0])
	}
	for _, collect := range []func(*Kind, *kindsPackage, cue.Value) error{collectTarget, collectOwned} {
		if err := collect(k, pkg, decorator); err != nil {
			return nil, err
		}
	}
	for child, set := range k.Sets {
		if len(set.StrayLabels) > 0 {
			strays := decorator.LookupPath(cue.MakePath(cue.Str("children"), cue.Str(child), cue.Str("strays")))
			return nil, errorAt(strays, "strays", "a decorator deletes only what it has created: remove it from %q", child)
		}
	}
	if err := collectLookups(k, pkg); err != nil {
		return nil, err
	}
	if err := checkSameLookups(k, pkg); err != nil {
		return nil, err
	}
	compiled, err := compileSchema("Decorated", pkg.rules.contract)
	if err != nil {
		return nil, err
	}
	k.Served, k.Versions, k.Compiled, k.Status = true, []*Version{k.Version}, compiled, &schema.Completed{Schema: compiled}
	setOpenAPI(k.Version, nil)
	return k, compileBehaviour(k, pkg)
}

// collectTarget reads which objects a decorator is for.
func collectTarget(k *Kind, _ *kindsPackage, decorator cue.Value) error {
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
			return errorAt(annotation, "target.annotation", "%q is not a valid annotation name: %s", k.Target.Annotation, problems[0])
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
	if k.Target.Selector, err = selectorOf(&selector); err != nil {
		return errorAt(stated, "target.selector", "%v", err)
	}
	return nil
}

// notOfDecorators are fields of a #Controller that a decorator cannot have, with the reason.
var notOfDecorators = map[string]string{
	"status":     "the status of an object of others is not written",
	"conditions": "the status of an object of others is not written",
	"phases":     "a phase is stored in the status, and that of an object of others is not written",
	"initial":    "a phase is stored in the status, and that of an object of others is not written",
	"onDelete":   "no finalizer is added to an object of others",
	"deadline":   "the status of an object of others is not written: use readiness of the children",
	"names":      "the API server names the type already",
	"columns":    "the API server serves the type already",
	"approval":   "a decorator has no CRD",
	"scale":      "a decorator has no CRD", "selectableFields": "a decorator has no CRD",
	"inject": "what is injected comes from objects of kinds",
}

// checkDecoratorContract is checkContract for a decorator.
func checkDecoratorContract(k *Kind, pkg *kindsPackage) []*LoadError {
	c := newChecker(k, pkg, nil)
	c.mistakes, c.found = nil, make(map[string]bool) // without types, the rest cannot be told
	for _, name := range c.controller.order {
		if why, known := notOfDecorators[name]; known {
			c.report(c.controller.fields[name].node, "%s: a decorator cannot have it: %s", name, why)
		}
	}
	if len(c.mistakes) > 0 {
		return c.mistakes
	}
	c.definition(c.controller, "#"+decoratorSuffix, "")
	target := c.structureOf(c.controller, "target")
	c.definition(target, "#Target", "target.")
	c.selectorFields(target, "target.")
	c.contractBehaviour(c.controller)
	return c.mistakes
}

// checkSameLookups rejects reads that the author of an object could choose: nothing asks whether they
// may read that.
func checkSameLookups(k *Kind, pkg *kindsPackage) error {
	c := newChecker(k, pkg, nil)
	for _, l := range k.Lookups {
		isSame := l.Name != "" && (l.IsSelection || l.ObjectName != "") && (l.Namespace == "" || l.ObjectNamespace != "")
		if entry := c.structureOf(c.controller, readsName).fields[l.Name]; isSame && entry != nil && !c.mentions(entry.parts, objectName) {
			continue
		}
		return errorAtPosition(l.Position, "%s.%s: must be the same for all objects: the author of an object is not asked for the right to read what it names", readsName, l.Name)
	}
	return nil
}

// mentions reports whether a name of the behaviour stands in some parts, or in what they refer to at
// the top of the package.
func (c *checker) mentions(parts []part, name string) bool {
	seen := make(map[string]bool)
	var in func(node ast.Node) bool
	in = func(node ast.Node) (found bool) {
		ast.Walk(node, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			if !ok || seen[ident.Name] {
				return !found
			}
			found = found || ident.Name == name
			seen[ident.Name] = true
			for _, f := range c.packages.fieldsOf(c.pkg.instance)[ident.Name] {
				found = found || in(f.Value)
			}
			return !found
		}, nil)
		return found
	}
	return slices.ContainsFunc(parts, func(p part) bool { return in(p.expr) })
}

// target checks the type of the targets, and returns what is known of it.
func (c *checker) target() *types.Type {
	k := c.kind
	found, ok, err := c.types.Find(k.GroupVersionKind)
	stated := c.structureOf(c.controller, "target").fields["kind"]
	scope := c.controller.fields["scope"]
	switch {
	case stated == nil: // a definition of the package has it
	case err != nil:
		c.report(stated.node, "target: %v", err)
	case !ok:
		c.untyped("object", stated.node, k.GroupVersionKind)
	case found.Namespaced == c.isClusterScoped() && c.isClusterScoped():
		c.report(scope.node, "scope: a %s is namespaced: remove scope", k.GroupVersionKind.Kind)
	case found.Namespaced == c.isClusterScoped():
		c.report(stated.node, "target: a %s is cluster-scoped: write scope: \"Cluster\"", k.GroupVersionKind.Kind)
	}
	if err != nil || !ok {
		return c.types.FromRootSchema(nil)
	}
	return found.Type
}

// objectTitle returns how checks name the object.
func (k *Kind) objectTitle() string {
	if k.Target != nil {
		return fmt.Sprintf("a %s", k.GroupVersionKind.Kind)
	}
	return "#" + k.GroupVersionKind.Kind
}
