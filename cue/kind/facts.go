package kind

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	cueerrors "cuelang.org/go/cue/errors"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// contractRules are the rules that a behaviour is checked against.
type contractRules struct {
	controller                 cue.Value // of the contract
	decorator, decorated       cue.Value // of the contract
	podTemplate, labelSelector cue.Value // of the library: what may be injected, and where
	contract                   *build.Instance
}

// kindsPackage is a CUE package with kinds, which share all of this.
type kindsPackage struct {
	instance    *build.Instance
	context     *cue.Context
	value       cue.Value
	definitions map[string][]*ast.Field // at the top of its files
	rules       contractRules
	// proving is held by a proof, which builds the package again.
	proving *sync.Mutex
}

// definition returns a definition, given its name without #. That of what a decorator is for, which has none, is in the contract.
func (p *kindsPackage) definition(name string) cue.Value {
	if name == "" {
		return p.rules.decorated
	}
	return p.value.LookupPath(cue.MakePath(cue.Def(name)))
}

// inNewContext returns the package for evaluations whose memory is free again when it is dropped. Nothing else may read its syntax
// meanwhile.
func (p *kindsPackage) inNewContext() *kindsPackage {
	renewed := *p
	context, values, err := buildPackages([]*build.Instance{p.instance})
	if err == nil { // it was built before
		renewed.context, renewed.value = context, values[0]
	}
	return &renewed
}

// Fields of the contract.
var (
	pathApproval   = cue.ParsePath("approval")
	pathConditions = cue.ParsePath("conditions")
	pathChildren   = cue.ParsePath("children")
	pathDeadline   = cue.ParsePath("deadline")
	pathNext       = cue.ParsePath("next")
	pathOnDelete   = cue.ParsePath("onDelete")
	pathStatus     = cue.ParsePath("status")
	pathTemplate   = cue.ParsePath("template")
	pathReplicas   = cue.ParsePath("replicas")
	pathStrays     = cue.ParsePath("strays")
	pathOrdered    = cue.ParsePath("ordered")
	pathTo         = cue.ParsePath("to")
	pathWhen       = cue.ParsePath("when")
	pathAfter      = cue.ParsePath("after")
	pathCron       = cue.ParsePath("cron")
)

// withoutUnknown drops the errors of functions that fail because there is no object yet, where they should wait for it:
// list.Sort asks for each required field of what it sorts.
func withoutUnknown(err error) error {
	var kept cueerrors.Error
	for _, e := range cueerrors.Errors(err) {
		if text := e.Error(); !strings.Contains(text, "error in call to ") || !strings.Contains(text, ": required field missing: ") {
			kept = cueerrors.Append(kept, e)
		}
	}
	if kept == nil {
		return nil
	}
	return kept
}

// newKind checks one kind of a package against the contract and collects what is
// known of it without looking at any object.
func newKind(name string, pkg *kindsPackage) (*Kind, error) {
	objectSchema := pkg.value.LookupPath(cue.MakePath(cue.Def("#" + name)))
	if err := objectSchema.Validate(); err != nil {
		return nil, err
	}
	controller := pkg.value.LookupPath(cue.MakePath(cue.Def("#" + name + controllerSuffix)))
	k := New()
	k.GroupVersionKind.Kind = name
	if mistakes := checkContract(k, pkg); len(mistakes) > 0 {
		return nil, joinMistakes(mistakes)
	}
	if err := withoutUnknown(controller.Validate()); err != nil {
		return nil, orInjection(k, pkg, err)
	}
	if !controller.LookupPath(cue.ParsePath("scope")).Exists() {
		return nil, errorAt(controller, "#"+name+controllerSuffix, "must be a contract.#Controller: write #%s%s: contract.#Controller & {…}", name, controllerSuffix)
	}
	if err := withoutUnknown(controller.Unify(pkg.rules.controller).Validate()); err != nil {
		return nil, orInjection(k, pkg, err)
	}
	for _, collect := range []func(*Kind, *kindsPackage, cue.Value) error{
		collectNames, collectPhases, collectOnDelete, collectOwned, checkDeadline, checkConditionTypes,
	} {
		if err := collect(k, pkg, controller); err != nil {
			return nil, err
		}
	}
	if err := collectLookups(k, pkg); err != nil {
		return nil, err
	}
	if err := collectInjection(k, controller, pkg.rules, pkg.definitions["#"+name+controllerSuffix]); err != nil {
		return nil, orInjection(k, pkg, err)
	}
	stored, err := newVersion(name, pkg.instance, objectSchema)
	if err != nil {
		return nil, err
	}
	if err := compileBehaviour(k, pkg); err != nil {
		return nil, err
	}
	if stored.GroupVersionKind.Kind != name {
		return nil, errorAt(objectSchema, "kind", "%q must be the name of its definition, %q", stored.GroupVersionKind.Kind, name)
	}
	if group := stored.GroupVersionKind.Group; k.Approval == "" && apihelpers.IsProtectedCommunityGroup(group) {
		return nil, errorAt(controller, "approval", "is missing: the API server accepts CRDs of the group %s only with the annotation api-approved.kubernetes.io, which has this value", group)
	}
	stored.Served = true
	k.Version, k.Versions = stored, []*Version{stored}
	k.Names.Kind, k.Names.ListKind = name, name+"List"
	if err := collectVersions(k, pkg); err != nil {
		return nil, err
	}
	for _, v := range k.Versions {
		if err := completeStatus(k, pkg, v); err != nil {
			return nil, err
		}
		if err := collectOpenAPI(k, v); err != nil {
			return nil, fmt.Errorf("the API server would reject the CRD: %w", err)
		}
		if err := checkStatusSchema(k, pkg, v, controller); err != nil {
			return nil, err
		}
		if err := checkScale(k, pkg, v, controller); err != nil {
			return nil, err
		}
		if err := pkg.selfCheck(v); err != nil {
			return nil, err
		}
	}
	collectProjection(k, pkg.definitions["#"+name+controllerSuffix])
	return k, nil
}

// compileBehaviour compiles the controller of a kind.
func compileBehaviour(k *Kind, pkg *kindsPackage) (err error) {
	k.Program, err = behaviour.Compile(pkg.instance, behaviourOf(k.LoadName()))
	if err == nil {
		if cycle := k.Program.Cycle(); cycle != nil {
			err = cycle
		}
	}
	if unsupported, ok := errors.AsType[*behaviour.Error](err); ok {
		return errorAtPosition(positionAt(unsupported.At), "%s", unsupported.Message)
	}
	return err
}

// newVersion compiles the schema of one version of a kind.
func newVersion(name string, instance *build.Instance, value cue.Value) (*Version, error) {
	gvk, err := typeOf(value)
	if err != nil {
		return nil, err
	}
	compiled, err := compileSchema(name, instance)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		if compiled.Struct.Field(field) == nil {
			return nil, errorAt(value, field, "is missing")
		}
	}
	return &Version{DefinitionName: name, GroupVersionKind: gvk, Compiled: compiled, HasDeprecated: schema.HasDeprecated(compiled)}, nil
}

// collectVersions finds the other versions of the kind: definitions that state its
// group and kind with another version.
func collectVersions(k *Kind, pkg *kindsPackage) error {
	for _, definition := range slices.Sorted(maps.Keys(pkg.definitions)) {
		name, isDefinition := strings.CutPrefix(definition, "#")
		if !isDefinition || name == k.GroupVersionKind.Kind {
			continue
		}
		value := pkg.value.LookupPath(cue.MakePath(cue.Def(definition)))
		gvk, err := typeOf(value)
		if err != nil || gvk.GroupKind() != k.GroupVersionKind.GroupKind() {
			continue
		}
		v, err := newVersion(name, pkg.instance, value)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(k.Versions, func(o *Version) bool { return o.GroupVersionKind == gvk }) {
			return errorAt(value, "apiVersion", "version %s of the kind is defined twice", gvk.Version)
		}
		if err := newConversion(k, v, definition, pkg); err != nil {
			return err
		}
		k.Versions = append(k.Versions, v)
	}
	return nil
}

// typeOf reads the group, version and kind that a schema states.
func typeOf(value cue.Value) (apischema.GroupVersionKind, error) {
	apiVersion, err := constant(value, cue.MakePath(cue.Str("apiVersion").Required()))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	kind, err := constant(value, cue.MakePath(cue.Str("kind").Required()))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	gv, err := apischema.ParseGroupVersion(apiVersion)
	if err != nil || gv.Group == "" {
		return apischema.GroupVersionKind{}, errorAt(value, "apiVersion", "%q must be a group and a version, like \"example.com/v1\"", apiVersion)
	}
	return gv.WithKind(kind), nil
}

func collectNames(k *Kind, _ *kindsPackage, controller cue.Value) error {
	var names struct {
		Plural, Singular       string
		ShortNames, Categories []string
	}
	value := controller.LookupPath(cue.ParsePath("names"))
	if err := value.Validate(cue.Concrete(true)); err != nil {
		return err
	}
	if err := value.Decode(&names); err != nil {
		return err
	}
	k.Names = apiextensionsv1.CustomResourceDefinitionNames{
		Plural: names.Plural, Singular: names.Singular, ShortNames: names.ShortNames, Categories: names.Categories,
	}
	scope, err := constant(controller, cue.ParsePath("scope"))
	if err != nil {
		return err
	}
	k.Scope = apiextensionsv1.ResourceScope(scope)

	if controller.LookupPath(pathApproval).Exists() {
		if k.Approval, err = constant(controller, pathApproval); err != nil {
			return err
		}
	}
	if err := collectPaths(k, controller); err != nil {
		return err
	}
	var columns []struct{ Name, Path, Type string }
	value = controller.LookupPath(cue.ParsePath("columns"))
	if err := value.Validate(cue.Concrete(true)); err != nil {
		return err
	}
	if err := value.Decode(&columns); err != nil {
		return err
	}
	for _, c := range columns {
		k.Columns = append(k.Columns, apiextensionsv1.CustomResourceColumnDefinition{Name: c.Name, JSONPath: c.Path, Type: c.Type})
	}
	return nil
}

// collectPaths reads where the numbers of the scale subresource are, and which fields
// can be selected by.
func collectPaths(k *Kind, controller cue.Value) error {
	if value := controller.LookupPath(cue.ParsePath("scale")); value.Exists() {
		var scale struct{ Spec, Status, Selector string }
		if err := value.Decode(&scale); err != nil {
			return err
		}
		for name, path := range map[string]string{"spec": scale.Spec, "status": scale.Status, "selector": scale.Selector} {
			if !strings.HasPrefix(path, ".") && (name != "selector" || path != "") {
				return errorAt(value.LookupPath(cue.ParsePath(name)), "scale."+name, "%q must begin with a dot: write .%s", path, path)
			}
		}
		k.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: scale.Spec, StatusReplicasPath: scale.Status}
		if scale.Selector != "" {
			k.Scale.LabelSelectorPath = &scale.Selector
		}
	}
	var selectable []string
	if err := controller.LookupPath(cue.ParsePath("selectableFields")).Decode(&selectable); err != nil {
		return err
	}
	for _, path := range selectable {
		k.SelectableFields = append(k.SelectableFields, apiextensionsv1.SelectableField{JSONPath: path})
	}
	return nil
}

func collectPhases(k *Kind, _ *kindsPackage, controller cue.Value) error {
	if initial := controller.LookupPath(cue.ParsePath("initial")); initial.Exists() {
		var err error
		if k.Initial, err = initial.String(); err != nil {
			return err
		}
	}
	phases := controller.LookupPath(cue.ParsePath("phases"))
	k.Phases = make(map[string]PhaseFacts)
	if err := eachField(phases, func(name string, phase cue.Value) error {
		terminal, err := phase.LookupPath(cue.ParsePath("terminal")).Bool()
		if err != nil {
			return err
		}
		failed, err := phase.LookupPath(cue.ParsePath("failed")).Bool()
		if err != nil {
			return err
		}
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			return errorAt(phase, "phases", "the name %q of a phase must be a label value: %s", name, problems[0])
		}
		k.Phases[name] = PhaseFacts{Terminal: terminal, Failed: failed}
		return nil
	}); err != nil {
		return err
	}
	known := strings.Join(slices.Sorted(maps.Keys(k.Phases)), ", ")
	isOptional := controller.LookupPath(pathOnDelete).Exists() // all phases may follow it
	if _, ok := k.Phases[k.Initial]; !ok && (k.Initial != "" || len(k.Phases) > 0 && !isOptional) {
		initial := controller.LookupPath(cue.ParsePath("initial"))
		if !initial.Exists() {
			initial = controller
		}
		return errorAt(initial, "initial", "%q must be one of the phases: %s", k.Initial, known)
	}
	return eachField(phases, func(name string, phase cue.Value) error {
		next := phase.LookupPath(pathNext)
		if cue.IsIncomplete(next.Err()) {
			return nil // a loop over parts of the object makes it
		}
		return eachElement(next, func(transition cue.Value) error {
			if cue.IsIncomplete(transition.Err()) {
				return nil // an if
			}
			value := transition.LookupPath(pathTo)
			states := slices.ContainsFunc([]cue.Path{pathWhen, pathAfter, pathCron}, func(path cue.Path) bool { return transition.LookupPath(path).Exists() })
			switch {
			case !value.Exists() && !states:
				return nil // dropped by an if
			case !value.Exists():
				return errorAt(transition, within(transition, pathTo), "is missing")
			case !states:
				return errorAt(transition, within(transition, cue.Path{}), neverTaken)
			}
			to, err := value.String()
			if err != nil {
				return fmt.Errorf("phases.%s.next: to: %w", name, err)
			}
			if _, ok := k.Phases[to]; !ok {
				return errorAt(value, within(transition, pathTo), "%q must be one of the phases: %s%s", to, known, types.DidYouMean(to, slices.Collect(maps.Keys(k.Phases))))
			}
			texts := make(timeTexts)
			for _, name := range timeFields {
				value := transition.LookupPath(cue.ParsePath(name))
				if text, err := value.String(); err == nil {
					texts[name] = &text
				} else if value.Exists() {
					texts[name] = nil // it follows from the object
				}
			}
			if field, err := texts.read(&Transition{}); err != nil {
				path := cue.ParsePath(field)
				return errorAt(transition.LookupPath(path), within(transition, path), "%v", err)
			}
			return nil
		})
	})
}

// constant reads a string that the kind fixes for all its objects.
func constant(value cue.Value, path cue.Path) (string, error) {
	found := value.LookupPath(path)
	if !found.Exists() {
		return "", errorAt(value, within(value, path), "is missing")
	}
	text, err := found.String()
	if err != nil {
		return "", errorAt(found, within(value, path), "must be one string for all objects of the kind")
	}
	return text, nil
}

// within returns a path below a value, relative to the definition that the value belongs to.
func within(value cue.Value, path cue.Path) string {
	selectors := value.Path().Selectors()
	return cue.MakePath(append(selectors[min(1, len(selectors)):], path.Selectors()...)...).String()
}

func eachField(value cue.Value, do func(name string, value cue.Value) error) error {
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

func eachElement(value cue.Value, do func(value cue.Value) error) error {
	if !value.Exists() {
		return nil
	}
	elements, err := value.List()
	if err != nil {
		return err
	}
	for elements.Next() {
		if err := do(elements.Value()); err != nil {
			return err
		}
	}
	return nil
}
