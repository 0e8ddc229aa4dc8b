package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	cueerrors "cuelang.org/go/cue/errors"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/check"
	"github.com/fescue-dev/fescue/cue/kind/compile"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/schema"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// collectOwned finds the types of the children, and which of them are sets. The types are
// those of templates that do not depend on the object, and those that the kind declares in
// owns.
func collectOwned(k Draft, controller cue.Value) error {
	owned := make(map[apischema.GroupVersionKind]bool)
	k.Sets = make(map[string]kind.SetFacts)
	singles := make(map[string]bool)
	addChildren := func(children cue.Value) error {
		return syntax.EachField(children, func(name string, child cue.Value) error {
			if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
				return syntax.ErrorAt(mistake.InvalidName, child, "children",
					"the name %q of a child must be a DNS label: %s", name, problems[0])
			}
			gvk, err := ownedType(child.LookupPath(pathTemplate))
			if err != nil {
				return err
			}
			owned[gvk] = true
			if err := collectSet(k.Kind, name, gvk, child); err != nil {
				return err
			}
			if !child.LookupPath(pathReplicas).Exists() {
				singles[name] = true
			}
			if _, isSet := k.Sets[name]; isSet && singles[name] {
				return syntax.ErrorAt(mistake.InvalidSet, child, "children",
					"%q must be a set in all phases or in none", name)
			}
			return nil
		})
	}
	if err := addChildren(controller.LookupPath(PathChildren)); err != nil {
		return err
	}
	if err := syntax.EachField(controller.LookupPath(cue.ParsePath("phases")), func(_ string, phase cue.Value) error {
		return addChildren(phase.LookupPath(PathChildren))
	}); err != nil {
		return err
	}
	if err := eachElement(controller.LookupPath(cue.ParsePath("owns")), func(value cue.Value) error {
		gvk, err := ownedType(value)
		owned[gvk] = true
		return err
	}); err != nil {
		return err
	}
	k.Owns = slices.SortedFunc(maps.Keys(owned),
		func(a, b apischema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return nil
}

// ownedType returns the type of a template.
func ownedType(template cue.Value) (apischema.GroupVersionKind, error) {
	apiVersion, err := constant(template, cue.ParsePath("apiVersion"))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	kind, err := constant(template, cue.ParsePath("kind"))
	if err != nil {
		return apischema.GroupVersionKind{}, err
	}
	if _, err := apischema.ParseGroupVersion(apiVersion); err != nil || apiVersion == "" {
		return apischema.GroupVersionKind{}, syntax.ErrorAt(mistake.InvalidAPIVersion, template, "apiVersion",
			"%q must be a version, or a group and a version, like \"apps/v1\"", apiVersion)
	}
	if kind == "" {
		return apischema.GroupVersionKind{}, syntax.ErrorAt(mistake.MissingField, template, "kind", "must not be empty")
	}
	return apischema.FromAPIVersionAndKind(apiVersion, kind), nil
}

// collectSet records a child that is a set.
func collectSet(k *kind.Kind, name string, members apischema.GroupVersionKind, child cue.Value) error {
	ignored := child.LookupPath(pathStrays)
	strays, err := ignored.String()
	deletes := err != nil || strays == "Delete" // err: it depends on the object
	ordered := child.LookupPath(pathOrdered)
	isOrdered, err := ordered.Bool()
	switch {
	case err != nil:
		return syntax.ErrorAt(mistake.NotConstant, ordered, "ordered", "must be the same for all objects of the kind")
	case child.LookupPath(pathReplicas).Exists():
	case deletes:
		return syntax.ErrorAt(mistake.InvalidSet, ignored, "strays", "is for sets: %q has no replicas", name)
	case isOrdered:
		return syntax.ErrorAt(mistake.InvalidSet, ordered, "ordered", "is for sets: %q has no replicas", name)
	default:
		return nil
	}
	set := kind.SetFacts{Type: members, Ordered: isOrdered}
	if deletes {
		if err := syntax.EachField(child.LookupPath(cue.ParsePath("template.metadata.labels")),
			func(label string, _ cue.Value) error {
				set.StrayLabels = append(set.StrayLabels, label)
				return nil
			}); err != nil {
			return err
		}
		if len(set.StrayLabels) == 0 {
			return syntax.ErrorAt(mistake.InvalidSet, ignored, "strays",
				"cannot be distinguished from other objects: give the template of %q a label that names its object",
				name)
		}
		slices.Sort(set.StrayLabels)
	}
	if other, ok := k.Sets[name]; ok && (other.Type != set.Type || other.Ordered != set.Ordered ||
		!slices.Equal(other.StrayLabels, set.StrayLabels)) {
		return syntax.ErrorAt(mistake.InvalidSet, child, "children",
			"the set %q must be of one type, have the same labels, and be ordered or not in all phases", name)
	}
	k.Sets[name] = set
	return nil
}

// checkDeadline rejects a deadline that cannot be met.
func checkDeadline(k Draft, controller cue.Value) error {
	deadline := controller.LookupPath(pathDeadline)
	if !deadline.Exists() {
		return nil
	}
	if k.Initial != "" {
		return syntax.ErrorAt(mistake.DeadlineWithPhases, deadline, "deadline",
			"is for kinds without phases: give a phase a transition with after instead")
	}
	if !deadline.IsConcrete() {
		return nil // it depends on the object
	}
	text, err := deadline.String()
	if err == nil {
		_, err = kind.ParseDeadline(text)
	}
	if err != nil {
		return syntax.ErrorAt(mistake.InvalidTime, deadline, "deadline", "%v", err)
	}
	return nil
}

// Fields of the contract.
var (
	pathApproval   = cue.ParsePath("approval")
	pathConditions = cue.ParsePath("conditions")
	PathChildren   = cue.ParsePath("children")
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
		if text := e.Error(); !strings.Contains(text, "error in call to ") ||
			!strings.Contains(text, ": required field missing: ") {
			kept = cueerrors.Append(kept, e)
		}
	}
	if kept == nil {
		return nil
	}
	return kept
}

// newKind checks one kind of a package against the contract and collects what is
// known of it that is the same for all objects.
func newKind(name string, pkg *syntax.Package) (Draft, error) {
	objectSchema := pkg.Value.LookupPath(cue.MakePath(cue.Def("#" + name)))
	if err := objectSchema.Validate(); err != nil {
		return Draft{}, err
	}
	controller := pkg.Value.LookupPath(cue.MakePath(cue.Def("#" + name + behaviour.ControllerSuffix)))
	k := Draft{kind.New(), pkg}
	k.GroupVersionKind.Kind = name
	if mistakes := check.OfContract(k.Kind, k.Source); len(mistakes) > 0 {
		return Draft{}, syntax.Joined(mistakes)
	}
	if err := withoutUnknown(controller.Validate()); err != nil {
		return Draft{}, check.OrInjection(k.Kind, k.Source, err)
	}
	if !controller.LookupPath(cue.ParsePath("scope")).Exists() {
		return Draft{}, syntax.ErrorAt(mistake.MissingContract, controller, "#"+name+behaviour.ControllerSuffix,
			"must be a contract.#Controller: write #%s%s: contract.#Controller & {…}", name, behaviour.ControllerSuffix)
	}
	if err := withoutUnknown(controller.Unify(pkg.Rules.Controller).Validate()); err != nil {
		return Draft{}, check.OrInjection(k.Kind, k.Source, err)
	}
	for _, collect := range []func(Draft, cue.Value) error{
		collectNames, collectPhases, collectOnDelete, collectOwned, checkDeadline, checkConditionTypes,
	} {
		if err := collect(k, controller); err != nil {
			return Draft{}, err
		}
	}
	if err := facts.Lookups(k.Kind, k.Source); err != nil {
		return Draft{}, err
	}
	if err := collectInjection(k.Kind, controller, pkg.Rules,
		pkg.Definitions["#"+name+behaviour.ControllerSuffix]); err != nil {
		return Draft{}, check.OrInjection(k.Kind, k.Source, err)
	}
	stored, err := newVersion(name, pkg.Instance, objectSchema)
	if err != nil {
		return Draft{}, err
	}
	if err := CompileBehaviour(k); err != nil {
		return Draft{}, err
	}
	if stored.GroupVersionKind.Kind != name {
		return Draft{},
			syntax.ErrorAt(mistake.KindName, objectSchema, "kind", "%q must be the name of its definition, %q",
				stored.GroupVersionKind.Kind, name)
	}
	if group := stored.GroupVersionKind.Group; k.Approval == "" && apihelpers.IsProtectedCommunityGroup(group) {
		return Draft{}, syntax.ErrorAt(mistake.ProtectedGroup, controller, "approval",
			"is missing: the API server accepts CRDs of the group %s only with the annotation api-approved.kubernetes.io, which has this value", group)
	}
	stored.Served = true
	k.Version, k.Versions = stored, []*kind.Version{stored}
	k.Names.Kind, k.Names.ListKind = name, name+"List"
	if err := collectVersions(k); err != nil {
		return Draft{}, err
	}
	for _, v := range k.Versions {
		if err := completeStatus(k, v); err != nil {
			return Draft{}, err
		}
		if err := collectOpenAPI(k.Kind, v, controller); err != nil {
			return Draft{}, err
		}
		if err := checkStatusSchema(k, v, controller); err != nil {
			return Draft{}, err
		}
		if err := checkScale(k, v, controller); err != nil {
			return Draft{}, err
		}
		if err := selfCheck(pkg, v); err != nil {
			return Draft{}, err
		}
	}
	collectProjection(k.Kind, pkg.Definitions["#"+name+behaviour.ControllerSuffix])
	return k, nil
}

// CompileBehaviour compiles the controller of a kind.
func CompileBehaviour(k Draft) (err error) {
	k.Program, err = behaviour.Compile(k.Source.Instance, syntax.BehaviourOf(k.LoadName()))
	if err != nil {
		return located(mistake.UnsupportedCUE, err)
	}
	if cycle := k.Program.Cycle(); cycle != nil {
		return located(mistake.SelfReference, cycle)
	}
	k.Reads = &kind.Reads{}
	k.Reads.Object, k.Reads.Observed = k.Program.Reads()
	return nil
}

// located returns an error of the compiler of behaviours as one at its place.
func located(check mistake.Check, err error) error {
	if unsupported, ok := errors.AsType[*behaviour.Error](err); ok {
		return syntax.ErrorAtPosition(check, place.At(unsupported.At), "%s", unsupported.Message)
	}
	return err
}

// newVersion compiles the schema of one version of a kind.
func newVersion(name string, instance *build.Instance, value cue.Value) (*kind.Version, error) {
	gvk, err := typeOf(value)
	if err != nil {
		return nil, err
	}
	compiled, err := compile.Schema(name, instance)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"apiVersion", "kind", "metadata"} {
		if compiled.Struct.Field(field) == nil {
			return nil, syntax.ErrorAt(mistake.MissingField, value, field, "is missing")
		}
	}
	return &kind.Version{DefinitionName: name, GroupVersionKind: gvk, Compiled: compiled,
		HasDeprecated: schema.HasDeprecated(compiled)}, nil
}

// collectVersions finds the other versions of the kind: definitions that state its
// group and kind with another version.
func collectVersions(k Draft) error {
	for _, definition := range slices.Sorted(maps.Keys(k.Source.Definitions)) {
		name, isDefinition := strings.CutPrefix(definition, "#")
		if !isDefinition || name == k.GroupVersionKind.Kind {
			continue
		}
		value := k.Source.Value.LookupPath(cue.MakePath(cue.Def(definition)))
		gvk, err := typeOf(value)
		if err != nil || gvk.GroupKind() != k.GroupVersionKind.GroupKind() {
			continue
		}
		v, err := newVersion(name, k.Source.Instance, value)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(k.Versions, func(o *kind.Version) bool { return o.GroupVersionKind == gvk }) {
			return syntax.ErrorAt(mistake.DuplicateVersion, value, "apiVersion",
				"version %s of the kind is defined twice", gvk.Version)
		}
		if err := newConversion(k, v, definition); err != nil {
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
		return apischema.GroupVersionKind{}, syntax.ErrorAt(mistake.InvalidAPIVersion, value, "apiVersion",
			"%q must be a group and a version, like \"example.com/v1\"", apiVersion)
	}
	return gv.WithKind(kind), nil
}

func collectNames(k Draft, controller cue.Value) error {
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
	userRights, err := constant(controller, cue.ParsePath("userRights"))
	if err != nil {
		return err
	}
	k.IsSelfService = userRights == "Kind"

	if controller.LookupPath(pathApproval).Exists() {
		if k.Approval, err = constant(controller, pathApproval); err != nil {
			return err
		}
	}
	if err := collectPaths(k.Kind, controller); err != nil {
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
		k.Columns = append(k.Columns, apiextensionsv1.CustomResourceColumnDefinition{Name: c.Name, JSONPath: c.Path,
			Type: c.Type})
	}
	return nil
}

// collectPaths reads where the numbers of the scale subresource are, and which fields
// can be selected by.
func collectPaths(k *kind.Kind, controller cue.Value) error {
	if value := controller.LookupPath(cue.ParsePath("scale")); value.Exists() {
		var scale struct{ Spec, Status, Selector string }
		if err := value.Decode(&scale); err != nil {
			return err
		}
		for name, path := range map[string]string{"spec": scale.Spec, "status": scale.Status,
			"selector": scale.Selector} {
			if !strings.HasPrefix(path, ".") && (name != "selector" || path != "") {
				return syntax.ErrorAt(mistake.InvalidScale, value.LookupPath(cue.ParsePath(name)), "scale."+name,
					"%q must begin with a dot: write .%s", path, path)
			}
		}
		k.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: scale.Spec,
			StatusReplicasPath: scale.Status}
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

func collectPhases(k Draft, controller cue.Value) error {
	if initial := controller.LookupPath(cue.ParsePath("initial")); initial.Exists() {
		var err error
		if k.Initial, err = initial.String(); err != nil {
			return err
		}
	}
	phases := controller.LookupPath(cue.ParsePath("phases"))
	k.Phases = make(map[string]kind.PhaseFacts)
	if err := syntax.EachField(phases, func(name string, phase cue.Value) error {
		terminal, err := phase.LookupPath(cue.ParsePath("terminal")).Bool()
		if err != nil {
			return err
		}
		failed, err := phase.LookupPath(cue.ParsePath("failed")).Bool()
		if err != nil {
			return err
		}
		if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
			return syntax.ErrorAt(mistake.InvalidName, phase, "phases",
				"the name %q of a phase must be a label value: %s", name, problems[0])
		}
		k.Phases[name] = kind.PhaseFacts{Terminal: terminal, Failed: failed}
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
		return syntax.ErrorAt(mistake.UnknownPhase, initial, "initial", "%q must be one of the phases: %s", k.Initial,
			known)
	}
	return syntax.EachField(phases, func(name string, phase cue.Value) error {
		next := phase.LookupPath(pathNext)
		if cue.IsIncomplete(next.Err()) {
			return nil // a loop over parts of the object makes it
		}
		return eachElement(next, func(transition cue.Value) error {
			if cue.IsIncomplete(transition.Err()) {
				return nil // an if
			}
			value := transition.LookupPath(pathTo)
			states := slices.ContainsFunc([]cue.Path{pathWhen, pathAfter, pathCron},
				func(path cue.Path) bool { return transition.LookupPath(path).Exists() })
			switch {
			case !value.Exists() && !states:
				return nil // dropped by an if
			case !value.Exists():
				return syntax.ErrorAt(mistake.MissingField, transition, within(transition, pathTo), "is missing")
			case !states:
				return syntax.ErrorAt(mistake.NeverTaken, transition, within(transition, cue.Path{}), kind.NeverTaken)
			}
			to, err := value.String()
			if err != nil {
				return fmt.Errorf("phases.%s.next: to: %w", name, err)
			}
			if _, ok := k.Phases[to]; !ok {
				return syntax.ErrorAt(mistake.UnknownPhase, value, within(transition, pathTo),
					"%q must be one of the phases: %s%s", to, known,
					types.DidYouMean(to, slices.Collect(maps.Keys(k.Phases))))
			}
			texts := make(kind.TimeTexts)
			for _, name := range kind.TimeFields {
				value := transition.LookupPath(cue.ParsePath(name))
				if text, err := value.String(); err == nil {
					texts[name] = &text
				} else if value.Exists() {
					texts[name] = nil // it follows from the object
				}
			}
			if field, err := texts.Read(&kind.Transition{}); err != nil {
				path := cue.ParsePath(field)
				return syntax.ErrorAt(mistake.InvalidTime, transition.LookupPath(path), within(transition, path), "%v",
					err)
			}
			return nil
		})
	})
}

// constant reads a string that the kind fixes for all its objects.
func constant(value cue.Value, path cue.Path) (string, error) {
	found := value.LookupPath(path)
	if !found.Exists() { // CUE finds nothing in a disjunction
		if op, alternatives := value.Eval().Expr(); op == cue.OrOp {
			return constantOf(alternatives, value, path)
		}
		return "", syntax.ErrorAt(mistake.MissingField, value, within(value, path), "is missing")
	}
	text, err := found.String()
	if err != nil {
		return "", notConstant(found, value, path)
	}
	return text, nil
}

// notConstant returns the error of a string at a path below a value that depends on the object.
func notConstant(at, value cue.Value, path cue.Path) error {
	return syntax.ErrorAt(mistake.NotConstant, at, within(value, path), "must be one string for all objects of the kind")
}

// constantOf reads a string that is the same in all alternatives of a value.
func constantOf(alternatives []cue.Value, value cue.Value, path cue.Path) (text string, err error) {
	for i, alternative := range alternatives {
		other, err := constant(alternative, path)
		if err != nil {
			return "", err
		}
		if i > 0 && other != text {
			return "", notConstant(value, value, path)
		}
		text = other
	}
	return text, nil
}

// within returns a path below a value, relative to the definition that the value belongs to.
func within(value cue.Value, path cue.Path) string {
	selectors := value.Path().Selectors()
	return cue.MakePath(append(selectors[min(1, len(selectors)):], path.Selectors()...)...).String()
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
