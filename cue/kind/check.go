package kind

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

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// maxCheckSteps bounds the expressions that are looked at in one behaviour. Large ones need a few
// thousand; a behaviour that exceeds it is checked as far as that.
const maxCheckSteps = 100_000

// maxCheckDepth bounds how deeply references lead into each other.
const maxCheckDepth = 200

// checkBehaviour returns the mistakes in the behaviour that can be found without an object: what
// does not fit the types of the children, of the object and of its status. It also sets the advice
// on the behaviour.
func checkBehaviour(k *Kind, pkg *kindsPackage, known *types.Catalog) []*LoadError {
	k.Uses = make(map[string][]string)
	c := newChecker(k, pkg, known)
	c.behaviour()
	slices.SortStableFunc(c.mistakes, func(a, b *LoadError) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	mistakes, advice := checkConversions(k, pkg, known)
	k.Advice = append(c.advice, advice...)
	return append(c.mistakes, mistakes...)
}

// newChecker returns a checker that knows the children; without types, it knows the source alone.
func newChecker(k *Kind, pkg *kindsPackage, known *types.Catalog) *checker {
	c := &checker{
		kind: k, types: known, pkg: pkg, packages: make(topLevels),
		variables: make(map[ast.Node]value), reading: make(map[ast.Expr]bool), following: make(map[ast.Expr]bool),
		own: make(map[ast.Node]bool), children: make(map[string]childType), found: make(map[string]bool),
	}
	c.object = types.Unknown
	if known != nil && k.Target == nil {
		c.object = known.FromRootSchema(k.Schema)
		if k.Status != nil && slices.Contains(k.Status.Added, LastScheduleTime) {
			delete(c.object.Field("status").Fields, LastScheduleTime) // a behaviour cannot read what was added
		}
	}
	c.controller = c.gather(c.source())
	if known == nil {
		return c
	}
	for _, s := range c.controller.literals {
		c.own[s] = true
	}
	if k.Target != nil {
		c.object = c.target()
	}
	c.quietly(func() { c.collectChildren() })
	c.knowLookups()
	c.kept = c.collectChildren() // what is around them may read them
	return c
}

// checker finds the mistakes in the behaviour of one kind, by its syntax: unlike values, it shows
// what stands within ifs and loops, and where. It infers what an expression can be as far as it
// can be told, and reports what cannot fit whatever the object is.
type checker struct {
	kind     *Kind
	types    *types.Catalog
	pkg      *kindsPackage
	packages topLevels

	controller *structure
	own        map[ast.Node]bool // the struct literals of the controller itself
	object     *types.Type
	given      map[string]value // what a conversion gets, by name; nil for a behaviour
	kept       []*checkedChild
	waiting    *checkedChild        // that is checked
	ordering   bool                 // what it reads has to exist as long as it does
	naming     bool                 // the name of a child is computed
	checked    string               // the path of what is checked; empty for what others refer to
	children   map[string]childType // by name
	// moreChildren means that there may be others, and unknownChildren that nothing is known of some.
	moreChildren, unknownChildren bool

	variables map[ast.Node]value // of comprehensions
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
	mistakes []*LoadError
	advice   []Advice
}

// childType is what is known of a child.
type childType struct {
	gvk   apischema.GroupVersionKind
	known bool
	set   bool
	t     *types.Type
}

// part is a piece of CUE that a value consists of.
type part struct {
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
func (p part) with(e ast.Expr) part {
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
func (p part) node() ast.Node {
	if pos := p.expr.Pos(); p.at != nil && (!pos.IsValid() || isLibrary(pos.Filename())) {
		return p.at
	}
	return p.expr
}

// report adds a mistake at a place. A place is reported once: the same source may be used by
// several children.
func (c *checker) report(at ast.Node, format string, args ...any) {
	e, ok := errors.AsType[*LoadError](errorAtNode(at, format, args...))
	if !ok {
		return
	}
	key := fmt.Sprintf("%s:%d:%d", e.File, e.Line, at.Pos().Column())
	if c.found[key] {
		return
	}
	c.found[key] = true
	e.Kind = c.kind.LoadName()
	c.mistakes = append(c.mistakes, e)
}

// source returns the definition of the behaviour.
func (c *checker) source() []part {
	return c.topLevel(part{in: c.pkg.instance}, behaviourOf(c.kind.LoadName()))
}

// exhausted counts a step, and reports whether there were too many.
func (c *checker) exhausted() bool {
	c.steps++
	tooMuch := c.steps > maxCheckSteps || c.depth > maxCheckDepth
	c.gaveUp = c.gaveUp || tooMuch
	return tooMuch
}

// topLevel returns what a name at the top of a package stands for.
func (c *checker) topLevel(p part, name string) []part {
	var parts []part
	for _, f := range c.packages.fieldsOf(p.in)[name] {
		next := p.with(f.Value)
		parts = append(parts, next)
	}
	return parts
}

// behaviour checks all parts of the controller.
func (c *checker) behaviour() {
	c.gather(c.source()) // checks the ifs around its fields
	if declared := c.controller.fields["observed"]; declared != nil {
		c.declaration(declared.parts)
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
	for _, name := range c.controller.order {
		switch declared := c.controller.fields[name]; name {
		case "children", "phases", "status", objectName, observedName, readsName, indexName, "target": // above, or given
		case "conditions":
			c.conditions(declared)
		case injectName:
			c.injection(declared)
		default:
			for _, p := range declared.parts {
				c.visit(p)
			}
		}
	}
	c.columns()
}

// declaration checks what a behaviour declares of its children.
func (c *checker) declaration(parts []part) {
	declared := c.gather(parts)
	for _, name := range declared.order {
		c.closed(declared.fields[name].parts, "observed."+name)
		child, ok := c.children[name]
		if !ok || !child.known {
			continue
		}
		t := child.t
		if child.set {
			t = &types.Type{Values: types.List, Items: t}
		}
		c.declared(declared.fields[name].parts, t, "observed."+name, child.gvk.Kind, nil)
	}
}

// closed reports a struct that a declaration closes, because it stands in a definition: an object that has any other
// field does not fit it.
func (c *checker) closed(parts []part, path string) {
	if items := c.restOf(parts); len(items) > 0 {
		c.closed(items, path+"[]")
		return
	}
	s := c.gather(parts)
	if s.isStruct && !s.isOpen() {
		c.report(parts[0].node(), "%s: is closed, so an object with any other field stalls the object of the kind: write observed: _, or ... at the end of each struct", path)
		return
	}
	for _, name := range s.order {
		c.closed(s.fields[name].parts, path+"."+name)
	}
}

// restOf returns what lists like [...T] allow as their items.
func (c *checker) restOf(parts []part) (items []part) {
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
func (c *checker) declared(parts []part, t *types.Type, path, owner string, within []string) {
	if items := c.restOf(parts); len(items) > 0 {
		c.declared(items, t.Item(), path+"[]", owner, within)
	}
	s := c.gather(parts)
	for _, name := range s.order {
		field := t.Field(name)
		names := append(slices.Clone(within), name)
		if field == nil {
			c.report(s.fields[name].node, "%s.%s: %s has no field %s%s", path, name, owner, strings.Join(names, "."), didYouMean(name, t))
			continue
		}
		c.declared(s.fields[name].parts, field, path+"."+name, owner, names)
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
func (c *checker) columns() {
	for _, column := range c.kind.Columns {
		t, names := c.object, []string(nil)
		for name := range strings.SplitSeq(strings.TrimPrefix(column.JSONPath, "."), ".") {
			if strings.ContainsAny(name, "[]()@'\\\"") {
				break
			}
			names = append(names, name)
			field := t.Field(name)
			if field == nil {
				if declared := c.controller.fields["columns"]; declared != nil {
					c.report(declared.node, "columns: path %q: #%s has no field %s%s", column.JSONPath, c.kind.GroupVersionKind.Kind, strings.Join(names, "."), didYouMean(name, t))
				}
				break
			}
			t = field
		}
	}
}

// status checks the projection of the status.
func (c *checker) status() {
	projection := c.controller.fields["status"]
	if projection == nil {
		return
	}
	t := types.Unknown
	if s, ok := c.kind.Schema.Properties["status"]; ok {
		t = withoutRequired(types.FromSchema(&s))
	}
	c.check(projection.parts, t, "status")
}

// withoutRequired returns a type of which no field is required.
func withoutRequired(t *types.Type) *types.Type {
	relaxed := *t
	relaxed.Required = nil
	return &relaxed
}

// conditions checks the conditions of the kind's own.
func (c *checker) conditions(declared *member) {
	condition := &types.Type{Values: types.Object, Fields: map[string]*types.Type{
		"status": types.Of(types.Boolean), "reason": types.Of(types.String), "message": types.Of(types.String),
	}, Required: []string{"status"}}
	c.check(declared.parts, &types.Type{Values: types.Object, Others: condition}, "conditions")
}

// orInjection returns the mistakes in an injection instead of an error of CUE, if there are any: CUE
// notices some of them as well, but suggests nothing.
func orInjection(k *Kind, pkg *kindsPackage, err error) error {
	known, typesErr := types.New()
	if typesErr != nil {
		return err
	}
	c := newChecker(k, pkg, known)
	declared := c.controller.fields[injectName]
	if declared == nil {
		return err
	}
	c.mistakes, c.found = nil, make(map[string]bool) // the rest needs the schema
	c.injection(declared)
	if len(c.mistakes) == 0 {
		return err
	}
	return joinMistakes(c.mistakes)
}

func joinMistakes(mistakes []*LoadError) error {
	errs := make([]error, len(mistakes))
	for i, mistake := range mistakes {
		errs[i] = mistake
	}
	return errors.Join(errs...)
}

// injection checks what is merged into Pods, which have what it leaves out, and the selector of Pods.
func (c *checker) injection(declared *member) {
	texts := &types.Type{Values: types.Object, Others: types.Of(types.String)}
	metadata := &types.Type{Values: types.Object, Fields: map[string]*types.Type{"labels": texts, "annotations": texts}}
	pod := c.builtIn("", "Pod").Field("spec")
	known := map[string]*types.Type{
		"annotation": types.Of(types.String),
		"selector":   c.builtIn("apps", "Deployment").Field("spec").Field("selector"),
		"add":        {Values: types.Object, Fields: map[string]*types.Type{"metadata": metadata, "spec": withoutRequired(pod)}},
	}
	c.waiting = &checkedChild{path: injectName}
	defer func() { c.waiting = nil }()
	s := c.gather(declared.parts)
	for _, name := range s.order {
		t := types.Unknown
		if known[name] != nil {
			t = known[name]
		}
		c.checkAt(s.fields[name].parts, t, "inject."+name, s.fields[name].node)
	}
	volumes, _ := c.structuresIn(c.structureIn(s, "add", "spec"), "volumes")
	for i, volume := range volumes {
		for _, name := range RemovedVolumes {
			if m := volume.fields[name]; m != nil && !m.constraint {
				c.report(m.node, "inject.add.spec.volumes[%d].%s: %s", i, name, WhyRemoved)
			}
		}
	}
}

// builtIn returns the type of one of Kubernetes' own kinds in version v1.
func (c *checker) builtIn(group, name string) *types.Type {
	found, ok, _ := c.types.Find(apischema.GroupVersionKind{Group: group, Version: "v1", Kind: name})
	if !ok {
		return types.Unknown
	}
	return found.Type
}

func (c *checker) isClusterScoped() bool { return c.kind.Scope == apiextensionsv1.ClusterScoped }
