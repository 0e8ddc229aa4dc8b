package check

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// maxCheckSteps bounds the expressions that are looked at in one behaviour. Large ones need a few
// thousand; a behaviour that exceeds it is checked as far as that.
const maxCheckSteps = 100_000

// maxCheckDepth bounds how deeply references lead into each other.
const maxCheckDepth = 200

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
	mistakes, advice := checkConversions(k, pkg, known)
	k.Advice = append(c.advice, advice...)
	return append(c.Mistakes, mistakes...)
}

// New returns a checker that knows the children; without types, it knows the source alone.
func New(k *kind.Kind, pkg *syntax.Package, known *types.Catalog) *Checker {
	c := &Checker{
		kind: k, types: known, pkg: pkg, packages: make(syntax.TopLevels),
		variables: make(map[ast.Node]Value), reading: make(map[ast.Expr]bool), following: make(map[ast.Expr]bool),
		own: make(map[ast.Node]bool), Children: make(map[string]ChildType), found: make(map[string]bool),
	}
	c.Object = types.Unknown
	if known != nil && k.Target == nil {
		c.Object = known.FromRootSchema(k.Schema)
		if k.Status != nil && slices.Contains(k.Status.Added, kind.LastScheduleTime) {
			delete(c.Object.Field("status").Fields, kind.LastScheduleTime) // a behaviour cannot read what was added
		}
	}
	c.Controller = c.Gather(c.source())
	if known == nil {
		return c
	}
	for _, s := range c.Controller.literals {
		c.own[s] = true
	}
	if k.Target != nil {
		c.Object = c.target()
	}
	c.quietly(func() { c.collectChildren() })
	c.knowLookups()
	c.kept = c.collectChildren() // what is around them may read them
	return c
}

// Checker finds the mistakes in the behaviour of one kind, by its syntax: unlike values, it shows
// what stands within ifs and loops, and where. It infers what an expression can be as far as it
// can be told, and reports what cannot fit whatever the object is.
type Checker struct {
	kind     *kind.Kind
	types    *types.Catalog
	pkg      *syntax.Package
	packages syntax.TopLevels

	Controller *Structure
	own        map[ast.Node]bool // the struct literals of the controller itself
	Object     *types.Type
	given      map[string]Value // what a conversion gets, by name; nil for a behaviour
	kept       []*checkedChild
	waiting    *checkedChild        // that is checked
	ordering   bool                 // what it reads has to exist as long as it does
	naming     bool                 // the name of a child is computed
	checked    string               // the path of what is checked; empty for what others refer to
	Children   map[string]ChildType // by name
	// moreChildren means that there may be others, and unknownChildren that nothing is known of some.
	moreChildren, unknownChildren bool

	variables map[ast.Node]Value // of comprehensions
	// following are references whose parts are being looked at, to notice what contains itself.
	following map[ast.Expr]bool
	reading   map[ast.Expr]bool // references that are being inferred
	tolerant  int               // it is asked whether something exists
	lookingUp bool              // an entry of reads is checked
	beyond    int               // how often something was read that the author of an object does not submit
	numbered  int               // how often index was read
	steps     int
	depth     int
	gaveUp    bool // something was not looked at

	found    map[string]bool
	Mistakes []*syntax.LoadError
	advice   []kind.Advice
}

// ChildType is what is known of a child.
type ChildType struct {
	gvk   apischema.GroupVersionKind
	known bool
	set   bool
	T     *types.Type
}

// Part is a piece of CUE that a value consists of.
type Part struct {
	expr ast.Expr
	in   *build.Instance
	// conditional means that an if or a for is around it; conditions are those of the ifs.
	conditional bool
	conditions  []ast.Expr
	// constraint means that it only describes a value: that of an optional or required field.
	constraint bool
	// partial means that it may be unified with more than is known.
	partial bool
	// beyond means that an if or a for around it reads more than the author of an object submits.
	beyond bool
	// at is where the author refers to it, if it is in a library.
	at ast.Node
}

// with returns an expression that stands in the part.
func (p Part) with(e ast.Expr) Part {
	p.expr = e
	return p
}

// ifs returns the conditions of ifs around others. Each counts once: a value that refers to itself would have twice as many with each
// reference.
func ifs(outer []ast.Expr, inner ...ast.Expr) []ast.Expr {
	all := slices.Clip(outer)
	for _, condition := range inner {
		if !slices.Contains(all, condition) {
			all = append(all, condition)
		}
	}
	return all
}

// node returns the place to report.
func (p Part) node() ast.Node {
	if pos := p.expr.Pos(); p.at != nil && (!pos.IsValid() || place.IsLibrary(pos.Filename())) {
		return p.at
	}
	return p.expr
}

// report adds a mistake at a place. A place is reported once: the same source may be used by
// several children.
func (c *Checker) report(at ast.Node, format string, args ...any) {
	e, ok := errors.AsType[*syntax.LoadError](syntax.ErrorAtNode(at, format, args...))
	if !ok {
		return
	}
	key := fmt.Sprintf("%s:%d:%d", e.File, e.Line, at.Pos().Column())
	if c.found[key] {
		return
	}
	c.found[key] = true
	e.Kind = c.kind.LoadName()
	c.Mistakes = append(c.Mistakes, e)
}

// source returns the definition of the behaviour.
func (c *Checker) source() []Part {
	return c.topLevel(Part{in: c.pkg.Instance}, syntax.BehaviourOf(c.kind.LoadName()))
}

// exhausted counts a step, and reports whether there were too many.
func (c *Checker) exhausted() bool {
	c.steps++
	tooMuch := c.steps > maxCheckSteps || c.depth > maxCheckDepth
	c.gaveUp = c.gaveUp || tooMuch
	return tooMuch
}

// topLevel returns what a name at the top of a package stands for.
func (c *Checker) topLevel(p Part, name string) []Part {
	var parts []Part
	for _, f := range c.packages.FieldsOf(p.in)[name] {
		next := p.with(f.Value)
		parts = append(parts, next)
	}
	return parts
}

// behaviour checks all parts of the controller.
func (c *Checker) behaviour() {
	c.Gather(c.source()) // checks the ifs around its fields
	if declared := c.Controller.Fields["observed"]; declared != nil {
		c.declaration(declared.Parts)
	}
	c.lookups()
	for _, child := range c.kept {
		c.child(child)
	}
	c.places()
	c.grants()
	c.deadlocks()
	c.selections(c.kept)
	c.collisions(c.kept)
	c.phases()
	c.status()
	c.autoscaling()
	for _, name := range c.Controller.Order {
		switch declared := c.Controller.Fields[name]; name {
		case "children", "phases", "status", behaviour.ObjectName, behaviour.ObservedName, kind.ReadsName, behaviour.IndexName, "target": // above, or given
		case "conditions":
			c.conditions(declared)
		case behaviour.InjectName:
			c.injection(declared)
		default:
			for _, p := range declared.Parts {
				c.visit(p)
			}
		}
	}
	c.columns()
}

// declaration checks what a behaviour declares of its children.
func (c *Checker) declaration(parts []Part) {
	declared := c.Gather(parts)
	for _, name := range declared.Order {
		c.closed(declared.Fields[name].Parts, "observed."+name)
		child, ok := c.Children[name]
		if !ok || !child.known {
			continue
		}
		t := child.T
		if child.set {
			t = &types.Type{Values: types.List, Items: t}
		}
		c.declared(declared.Fields[name].Parts, t, "observed."+name, child.gvk.Kind, nil)
	}
}

// closed reports a struct that a declaration closes, because it stands in a definition: an object that has any other
// field does not fit it.
func (c *Checker) closed(parts []Part, path string) {
	if items := c.restOf(parts); len(items) > 0 {
		c.closed(items, path+"[]")
		return
	}
	s := c.Gather(parts)
	if s.isStruct && !s.isOpen() {
		c.report(parts[0].node(), "%s: is closed, so an object with any other field stalls the object of the kind: write observed: _, or ... at the end of each struct", path)
		return
	}
	for _, name := range s.Order {
		c.closed(s.Fields[name].Parts, path+"."+name)
	}
}

// restOf returns what lists like [...T] allow as their items.
func (c *Checker) restOf(parts []Part) (items []Part) {
	for _, p := range parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			continue
		}
		for _, element := range list.Elts {
			if rest, ok := element.(*ast.Ellipsis); ok && rest.Type != nil {
				items = append(items, p.with(rest.Type))
			}
		}
	}
	return items
}

// declared checks that a declaration names fields that exist.
func (c *Checker) declared(parts []Part, t *types.Type, path, owner string, within []string) {
	if items := c.restOf(parts); len(items) > 0 {
		c.declared(items, t.Item(), path+"[]", owner, within)
	}
	s := c.Gather(parts)
	for _, name := range s.Order {
		field := t.Field(name)
		names := append(slices.Clone(within), name)
		if field == nil {
			c.report(s.Fields[name].Node, "%s.%s: %s has no field %s%s", path, name, owner, strings.Join(names, "."), didYouMean(name, t))
			continue
		}
		c.declared(s.Fields[name].Parts, field, path+"."+name, owner, names)
	}
}

// didYouMean suggests the name of a field, or lists all if there are few.
func didYouMean(name string, t *types.Type) string {
	known := slices.Sorted(maps.Keys(t.Fields))
	if near := types.DidYouMean(name, known); near != "" || len(known) == 0 || len(known) > 8 {
		return near
	}
	return ": its fields are " + strings.Join(known, ", ")
}

// columns checks that the printer columns exist.
func (c *Checker) columns() {
	for _, column := range c.kind.Columns {
		t, names := c.Object, []string(nil)
		for name := range strings.SplitSeq(strings.TrimPrefix(column.JSONPath, "."), ".") {
			if strings.ContainsAny(name, "[]()@'\\\"") {
				break
			}
			names = append(names, name)
			field := t.Field(name)
			if field == nil {
				if declared := c.Controller.Fields["columns"]; declared != nil {
					c.report(declared.Node, "columns: path %q: #%s has no field %s%s", column.JSONPath, c.kind.GroupVersionKind.Kind, strings.Join(names, "."), didYouMean(name, t))
				}
				break
			}
			t = field
		}
	}
}

// status checks the projection of the status.
func (c *Checker) status() {
	projection := c.Controller.Fields["status"]
	if projection == nil {
		return
	}
	t := types.Unknown
	if s, ok := c.kind.Schema.Properties["status"]; ok {
		t = withoutRequired(types.FromSchema(&s))
	}
	c.check(projection.Parts, t, "status")
}

// withoutRequired returns a type of which no field is required.
func withoutRequired(t *types.Type) *types.Type {
	relaxed := *t
	relaxed.Required = nil
	return &relaxed
}

// conditions checks the conditions of the kind's own.
func (c *Checker) conditions(declared *Member) {
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
	declared := c.Controller.Fields[behaviour.InjectName]
	if declared == nil {
		return err
	}
	c.Mistakes, c.found = nil, make(map[string]bool) // the rest needs the schema
	c.injection(declared)
	if len(c.Mistakes) == 0 {
		return err
	}
	return syntax.Joined(c.Mistakes)
}

// injection checks what is merged into Pods, which have what it leaves out, and the selector of Pods.
func (c *Checker) injection(declared *Member) {
	texts := &types.Type{Values: types.Object, Others: types.Of(types.String)}
	metadata := &types.Type{Values: types.Object, Fields: map[string]*types.Type{"labels": texts, "annotations": texts}}
	pod := c.builtIn("", "Pod").Field("spec")
	known := map[string]*types.Type{
		"annotation": types.Of(types.String),
		"selector":   c.builtIn("apps", "Deployment").Field("spec").Field("selector"),
		"add":        {Values: types.Object, Fields: map[string]*types.Type{"metadata": metadata, "spec": withoutRequired(pod)}},
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
	volumes, _ := c.structuresIn(c.structureIn(s, "add", "spec"), "volumes")
	for i, volume := range volumes {
		for _, name := range kind.RemovedVolumes {
			if m := volume.Fields[name]; m != nil && !m.Constraint {
				c.report(m.Node, "inject.add.spec.volumes[%d].%s: %s", i, name, kind.WhyRemoved)
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
