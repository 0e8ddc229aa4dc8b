package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// Behaviour returns the mistakes in the behaviour that can be found without an object: what
// does not fit the types of the children, of the object and of its status. It also sets the advice
// on the behaviour.
func Behaviour(k *kind.Kind, pkg *syntax.Package, known *types.Catalog) []*syntax.LoadError {
	k.Uses = make(map[string][]string)
	c := New(k, pkg, known)
	c.behaviour()
	slices.SortStableFunc(c.Mistakes, func(a, b *syntax.LoadError) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	mistakes, advice := conversions(k, pkg, known)
	k.Advice = append(c.advice, advice...)
	return append(c.Mistakes, mistakes...)
}

// New returns a checker of the behaviour of a kind, which knows the types of children.
func New(k *kind.Kind, pkg *syntax.Package, known *types.Catalog) *Checker {
	c := &Checker{
		fitter: newFitter(facts.Of(k, pkg).Reader),
		kind:   k, pkg: pkg, types: known, Children: make(map[string]ChildType),
	}
	c.Object = c.objectType()
	c.Give(given{c})
	if k.Target != nil {
		c.Object = c.target()
	}
	c.Quietly(func() { c.collectChildren() }) // templates may read any child; the second pass reports
	c.knowLookups()
	c.kept = c.collectChildren() // what is around them may read them
	return c
}

// objectType returns what is known of the objects of the kind. The phases are the values that their phase can have.
func (c *Checker) objectType() *types.Type {
	if c.kind.Target != nil {
		return types.Unknown
	}
	object := c.types.FromRootSchema(c.kind.Schema)
	status := object.Field("status")
	if status == nil {
		return object
	}
	if c.kind.Status != nil {
		for _, name := range c.kind.Status.Added { // a behaviour cannot read what was added
			delete(status.Fields, name)
		}
	}
	if phase, ok := status.Fields["phase"]; ok && len(c.kind.Phases) > 0 {
		phases := *phase
		phases.Enum = slices.Sorted(maps.Keys(c.kind.Phases))
		status.Fields["phase"] = &phases
	}
	return object
}

// Checker finds the mistakes in the behaviour of one kind: what cannot fit whatever the object is.
type Checker struct {
	*fitter
	kind  *kind.Kind
	pkg   *syntax.Package
	types *types.Catalog

	Object   *types.Type
	kept     []*checkedChild
	waiting  *checkedChild        // that is checked
	ordering bool                 // what it reads has to exist as long as it does
	around   string               // the path of children, of which what is around them is checked
	naming   bool                 // the name of a child is computed
	keeping  *keptField           // the field of the status that is checked
	Children map[string]ChildType // by name
	// moreChildren means that there may be others, and unknownChildren that nothing is known of some.
	moreChildren, unknownChildren bool
	lookingUp                     bool // an entry of reads is checked
	numbered                      int  // how often index was read

	advice []kind.Advice
}

// ChildType is what is known of a child.
type ChildType struct {
	gvk   apischema.GroupVersionKind
	known bool
	set   bool
	T     *types.Type
}

// behaviour checks all parts of the controller.
func (c *Checker) behaviour() {
	// checks the ifs around its fields
	c.Gather(c.TopLevel(infer.Part{In: c.pkg.Instance}, syntax.BehaviourOf(c.kind.LoadName())))
	if declared := c.Definition.Fields["observed"]; declared != nil {
		c.declaration(declared.Parts)
	}
	c.lookups()
	for _, child := range c.kept {
		c.child(child)
	}
	c.places()
	grants{c}.find()
	c.deadlocks()
	c.selections(c.kept)
	checkCollisions(c.kept)
	phases{c}.checkAll()
	c.status()
	c.autoscaling()
	c.texts()
	for _, name := range c.Definition.Order {
		switch declared := c.Definition.Fields[name]; name {
		case "children", "phases", "status", behaviour.ObjectName, behaviour.ObservedName, kind.ReadsName,
			behaviour.IndexName, "target":
			// above, or given
		case "conditions":
			c.conditions(declared)
		case behaviour.InjectName:
			c.injection(declared)
		default:
			for _, p := range declared.Parts {
				c.Visit(p)
			}
		}
	}
	c.columns()
	if c.GaveUp {
		c.advice = append(c.advice, kind.Advice{
			Check:    mistake.LoadLimit,
			Position: syntax.PositionOf(c.pkg.Definitions[syntax.BehaviourOf(c.kind.LoadName())][0]),
			Text: "the behaviour refers to its own fields too often to be checked as a whole: vet may miss mistakes " +
				"that it finds elsewhere",
		})
	}
}

// columns checks that the printer columns exist.
func (c *Checker) columns() {
	object := c.Object
	if c.kind.Target == nil {
		object = c.types.FromRootSchema(c.kind.Schema) // with what was added, which a behaviour cannot read
	}
	for _, column := range c.kind.Columns {
		t, names := object, []string(nil)
		for name := range strings.SplitSeq(strings.TrimPrefix(column.JSONPath, "."), ".") {
			if strings.ContainsAny(name, "[]()@'\\\"") {
				break
			}
			names = append(names, name)
			field := t.Field(name)
			if field == nil {
				if declared := c.Definition.Fields["columns"]; declared != nil {
					c.Report(mistake.UnknownField, literalIn(declared, column.JSONPath),
						"columns: path %q: #%s has no field %s%s", column.JSONPath, c.kind.GroupVersionKind.Kind,
						strings.Join(names, "."), infer.DidYouMean(name, t))
				}
				break
			}
			t = field
		}
	}
}

// literalIn returns the literal of a text in the value of a field, or the field itself if that has none.
func literalIn(field *infer.Member, text string) (found ast.Node) {
	found = field.Node
	for _, p := range field.Parts {
		ast.Walk(p.Expr, func(inner ast.Node) bool {
			if literal, ok := inner.(*ast.BasicLit); ok {
				if value, err := syntax.StringLiteral(literal); err == nil && value == text {
					found = literal
				}
			}
			return true
		}, nil)
	}
	return found
}

// status checks the projection of the status.
func (c *Checker) status() {
	projection, t := c.Definition.Fields["status"], types.Unknown
	declared, ok := c.kind.Schema.Properties["status"]
	if ok {
		t = withoutRequired(types.FromSchema(&declared))
	}
	if projection != nil {
		c.check(projection.Parts, t, "status")
	}
	written := c.Definition.Peek("status")
	for _, name := range written.Order {
		c.keeping = &keptField{path: behaviour.ObjectName + ".status." + name}
		for _, p := range written.Fields[name].Parts {
			c.Quietly(func() { c.Infer(p) })
		}
		if advice := c.keeping.advice(); advice != nil {
			given{c}.adviseOnce(*advice)
		}
	}
	c.keeping = nil
	if c.kind.Target != nil || c.GaveUp || written.MayHaveMore() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(declared.Properties)) {
		if written.Fields[name] == nil && !c.kind.IsEngineStatus(name) {
			c.advice = append(c.advice, kind.Advice{
				Check: mistake.UnsetStatus, Field: "status." + name,
				Position: syntax.PositionOf(c.pkg.Definitions[syntax.BehaviourOf(c.kind.LoadName())][0]),
				Text:     fmt.Sprintf("status.%s: the behaviour never sets it, and what others write there is removed", name),
			})
		}
	}
}

// withoutRequired returns a type of which no field is required.
func withoutRequired(t *types.Type) *types.Type {
	relaxed := *t
	relaxed.Required = nil
	return &relaxed
}

// conditions checks the conditions of the kind's own.
func (c *Checker) conditions(declared *infer.Member) {
	condition := &types.Type{Values: types.Object, Fields: map[string]*types.Type{
		"status": types.Of(types.Boolean), "reason": types.Of(types.String), "message": types.Of(types.String),
	}, Required: []string{"status"}}
	c.check(declared.Parts, &types.Type{Values: types.Object, Others: condition}, "conditions")
}

// OrInjection returns the mistakes in an injection instead of an error of CUE, if there are any: CUE
// notices some of them as well, but suggests nothing.
func OrInjection(k *kind.Kind, pkg *syntax.Package, err error) error {
	known, typesErr := types.New()
	if typesErr != nil {
		return err
	}
	c := New(k, pkg, known)
	declared := c.Definition.Fields[behaviour.InjectName]
	if declared == nil {
		return err
	}
	c.Forget() // the rest needs the schema
	c.injection(declared)
	if len(c.Mistakes) == 0 {
		return err
	}
	return syntax.Joined(c.Mistakes)
}

// injection checks what is merged into Pods, which have what it leaves out, and the selector of Pods.
func (c *Checker) injection(declared *infer.Member) {
	pod := c.builtIn("", "Pod")
	metadata := &types.Type{Values: types.Object, Fields: map[string]*types.Type{
		"labels":      pod.Field("metadata").Field("labels"),
		"annotations": pod.Field("metadata").Field("annotations"),
	}}
	known := map[string]*types.Type{
		"annotation": types.Of(types.String),
		"selector":   c.builtIn("apps", "Deployment").Field("spec").Field("selector"),
		"add": {Values: types.Object,
			Fields: map[string]*types.Type{"metadata": metadata, "spec": withoutRequired(pod.Field("spec"))}},
	}
	c.waiting = &checkedChild{path: behaviour.InjectName}
	defer func() { c.waiting = nil }()
	s := c.Gather(declared.Parts)
	for _, name := range s.Order {
		t := types.Unknown
		if known[name] != nil {
			t = known[name]
		}
		c.checkAt(s.Fields[name].Parts, t, "inject."+name, s.Fields[name].Node)
	}
	spec := s.In("add", "spec")
	c.podValues(spec, declared.Node, "inject.add.spec")
	volumes, _ := spec.Items("volumes")
	for i, volume := range volumes {
		for _, name := range kind.RemovedVolumes {
			if m := volume.Fields[name]; m != nil && !m.Constraint {
				c.Report(mistake.RemovedVolume, m.Node, "inject.add.spec.volumes[%d].%s: %s", i, name, kind.WhyRemoved)
			}
		}
	}
}

// builtIn returns the type of one of Kubernetes' own kinds in version v1.
func (c *Checker) builtIn(group, name string) *types.Type {
	found, ok, _ := c.types.Find(apischema.GroupVersionKind{Group: group, Version: "v1", Kind: name})
	if !ok {
		return types.Unknown
	}
	return found.Type
}

func (c *Checker) isClusterScoped() bool { return c.kind.Scope == apiextensionsv1.ClusterScoped }

// target checks the type of the targets, and returns what is known of it.
func (c *Checker) target() *types.Type {
	k := c.kind
	found, ok, err := c.types.Find(k.GroupVersionKind)
	stated := c.Definition.Peek("target").Fields["kind"]
	scope := c.Definition.Fields["scope"]
	switch {
	case stated == nil: // a definition of the package has it
	case err != nil:
		c.Report(mistake.UnknownType, stated.Node, "target: %v", err)
	case !ok:
		c.untyped("object", stated.Node, k.GroupVersionKind)
	case found.Namespaced && c.isClusterScoped():
		c.Report(mistake.WrongScope, scope.Node, "scope: a %s is namespaced: remove scope", k.GroupVersionKind.Kind)
	case !found.Namespaced && !c.isClusterScoped():
		c.Report(mistake.WrongScope, stated.Node, "target: a %s is cluster-scoped: write scope: \"Cluster\"",
			k.GroupVersionKind.Kind)
	}
	if err != nil || !ok {
		return c.types.FromRootSchema(nil)
	}
	return found.Type
}

// autoscaling advises on a scale without a selector: a HorizontalPodAutoscaler finds the Pods of an object by nothing
// else, and reports ScalingActive False with the reason InvalidSelector.
func (c *Checker) autoscaling() {
	if c.kind.Scale != nil && c.kind.Scale.LabelSelectorPath == nil {
		c.advice = append(c.advice, kind.Advice{
			Check: mistake.ScaleWithoutSelector, Field: "scale",
			Position: syntax.PositionOf(c.Definition.Fields["scale"].Node),
			Text: `scale: a HorizontalPodAutoscaler cannot scale these objects: write selector: ".status.selector", ` +
				`and in the status the labels of the Pods as text, like selector: "app=\(object.metadata.name)"`,
		})
	}
}
