package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// checkedChild is a child as the source has it.
type checkedChild struct {
	// beyond means that it depends on more than the author of an object submits whether it exists.
	beyond      bool
	name, phase string // the name is empty if it is computed
	path        string
	body        *infer.Structure
	template    *infer.Structure
	gvk         apischema.GroupVersionKind
	resource    types.Resource
	known       bool
	node        ast.Node
	conditional bool
	conditions  []ast.Expr // of the ifs around all of it
	// waits are the children that have to exist before it, by name.
	waits []string
}

// collectChildren finds the children of the controller and of its phases.
func (c *Checker) collectChildren() []*checkedChild {
	var all []*checkedChild
	add := func(m *infer.Member, phase, prefix string) {
		if m == nil {
			return
		}
		c.around = prefix
		s := c.Gather(m.Parts)
		c.around = ""
		c.unknownChildren = c.unknownChildren || len(s.Others) > 0
		for _, name := range s.Order {
			all = append(all, c.newChild(s, name, phase, prefix+"."+name, s.Fields[name].Node, s.Fields[name].Parts,
				!s.Fields[name].Certain))
		}
		c.moreChildren = c.moreChildren || s.MayHaveMore()
		for _, d := range s.Dynamic {
			c.naming = true
			c.Label(d)
			c.naming = false
			all = append(all, c.newChild(s, "", phase, prefix+"[…]", d.Label, []infer.Part{d.Value}, true))
		}
	}
	add(c.Definition.Fields["children"], "", "children")
	if phases := c.Definition.Fields["phases"]; phases != nil {
		s := c.Gather(phases.Parts)
		c.moreChildren = c.moreChildren || s.MayHaveMore()
		c.unknownChildren = c.unknownChildren || s.MayHaveMore()
		for _, name := range s.Order {
			phase := c.Gather(s.Fields[name].Parts)
			c.moreChildren = c.moreChildren || phase.MayHaveMore()
			c.unknownChildren = c.unknownChildren || len(phase.Others) > 0
			add(phase.Fields["children"], name, "phases."+name+".children")
		}
		if computed := facts.ComputedPhases(c.kind, s); len(computed) > 0 {
			for _, d := range s.Dynamic {
				phase := c.Gather([]infer.Part{d.Value})
				c.unknownChildren = c.unknownChildren || len(phase.Others) > 0
				add(phase.Fields["children"], computed[0], "phases[…].children")
			}
		}
	}
	for _, child := range all {
		if child.name == "" {
			continue
		}
		t := ChildType{gvk: child.gvk, known: child.known, T: types.Unknown, set: child.body.Fields["replicas"] != nil}
		if child.known {
			t.T = child.resource.Type
		}
		if other, ok := c.Children[child.name]; ok && other.gvk != t.gvk {
			t = ChildType{T: types.Unknown}
		}
		c.Children[child.name] = t
	}
	return all
}

// newChild returns a child among those of a structure.
func (c *Checker) newChild(
	in *infer.Structure, name, phase, path string, node ast.Node, parts []infer.Part, conditional bool,
) *checkedChild {
	child := &checkedChild{name: name, phase: phase, path: path, node: node, conditional: conditional}
	child.beyond = slices.ContainsFunc(parts, func(p infer.Part) bool { return p.Beyond })
	if conditional && len(parts) == 1 {
		child.conditions = parts[0].Conditions
	}
	child.body = in.Within(parts)
	template := child.body.Fields["template"]
	if template == nil {
		child.template = c.Gather(nil)
		return child
	}
	child.template = child.body.Within(template.Parts)
	apiVersion, okVersion := child.template.Text("apiVersion")
	kindName, okKind := child.template.Text("kind")
	if !okVersion || !okKind {
		return child
	}
	child.gvk = apischema.FromAPIVersionAndKind(apiVersion, kindName)
	found, ok, err := c.types.Find(child.gvk)
	if err != nil {
		at := child.template.Fields["kind"].Node
		if strings.Contains(err.Error(), ": write ") {
			at = child.template.Fields["apiVersion"].Node
		}
		c.Report(mistake.UnknownType, at, "%s.template: %v", path, err)
	}
	child.resource, child.known = found, ok
	return child
}

// child checks one child.
func (c *Checker) child(child *checkedChild) {
	c.waiting = child
	defer func() { c.waiting = nil }()
	for _, name := range child.body.Order {
		m := child.body.Fields[name]
		path := child.path + "." + name
		c.ordering = child.name != "" && (name == "template" || name == "when")
		switch name {
		case "template":
			t := types.Unknown
			if child.known {
				t = child.resource.Type
			} else if child.gvk.Kind != "" {
				c.untyped(child.path+".template", child.template.Fields["kind"].Node, child.gvk)
				t = c.types.FromRootSchema(nil)
			}
			c.check(m.Parts, t, path)
		case "when", "ready":
			c.check(m.Parts, types.Of(types.Boolean), path)
		case "replicas":
			c.check(m.Parts, types.Of(types.Integer), path)
		default:
			c.check(m.Parts, types.Unknown, path)
		}
	}
	c.ordering = false
	c.set(child)
	c.dropped(child)
	c.owned(child)
	c.namespace(child)
	c.name(child)
	if metadata := child.template.In("metadata"); metadata.Has("ownerReferences") {
		c.Report(mistake.InvalidValue, metadata.Fields["ownerReferences"].Node,
			"%s.template.metadata.ownerReferences: Fescue makes the object the owner of the child: remove it", child.path)
	}
	checkPodSelector(child)
	c.relations(child)
	c.replaced(child)
}

// dropped advises on an if that reads children: it deletes as well as creates. Children of a phase are
// not deleted.
func (c *Checker) dropped(child *checkedChild) {
	if child.phase != "" {
		return
	}
	for _, condition := range child.conditions {
		reads := false
		ast.Walk(condition, func(n ast.Node) bool {
			ident, ok := n.(*ast.Ident)
			reads = reads || ok && ident.Name == behaviour.ObservedName
			return !reads
		}, nil)
		if reads {
			c.advice = append(c.advice, kind.Advice{
				Check: mistake.IfDeletesChild, Field: child.path, Position: syntax.PositionOf(condition),
				Text: child.path +
					": the if reads observed, and deletes the child when it no longer holds: write when in the child to only wait",
			})
			return
		}
	}
}

// owned reports a type of children that the kind does not declare, and that no other template has.
func (c *Checker) owned(child *checkedChild) {
	if kind := child.template.Fields["kind"]; child.gvk.Kind != "" && !slices.Contains(c.kind.Owns, child.gvk) {
		c.Report(mistake.UndeclaredType, kind.Node,
			"%s.template: the child exists only under a condition: declare its type in the kind, as in owns: [{apiVersion: %q, kind: %q}]",
			child.path, child.gvk.GroupVersion().String(), child.gvk.Kind)
	}
}

// untyped advises on a type that is not known.
func (c *Checker) untyped(path string, at ast.Node, gvk apischema.GroupVersionKind) {
	unknown := gvk.GroupVersion().String() + " " + gvk.Kind + untypedAdvice
	for _, a := range c.advice {
		if strings.HasSuffix(a.Text, unknown) {
			return
		}
	}
	c.advice = append(c.advice, kind.Advice{
		Check: mistake.UncheckedType, Field: path, Position: syntax.PositionOf(at), Text: path +
			" is not checked: nothing is known of " + unknown,
	})
}

const untypedAdvice = "; --types adds CRDs"

// name checks the name of a child, as far as it is known.
func (c *Checker) name(child *checkedChild) {
	metadata := child.template.Fields["metadata"]
	if metadata == nil {
		return
	}
	name := c.Gather(metadata.Parts).Fields["name"]
	if name == nil || len(name.Parts) != 1 {
		return
	}
	text, known, ok := c.Text(name.Parts[0], func(infer.Value) string { return "x" })
	problems, rule := types.NameProblems(child.gvk, text)
	if !ok || rule == "" {
		return
	}
	if len(problems) > 0 {
		if !known {
			text = syntax.SourceOf(name.Parts[0].Expr)
		}
		c.Report(mistake.InvalidName,
			name.Parts[0].Node(),
			"%s.template.metadata.name: %s is not a valid object name: it must consist of %s",
			child.path,
			strings.Trim(text, `"`),
			rule,
		)
	}
	if known && child.body.Fields["replicas"] == nil {
		c.sharedName(child, text, name.Parts[0].Node())
	}
}

// replaced advises on a child that is created once in each entry of a phase, under the same name.
func (c *Checker) replaced(child *checkedChild) {
	update, _ := child.body.Text("update")
	onDelete, _ := child.body.Text("onDelete")
	if child.phase == "" || child.name == "" || update != string(kind.Never) || onDelete == string(kind.Orphan) ||
		child.body.Fields["replicas"] != nil ||
		!facts.Of(c.kind, c.pkg).IsReentered(child.phase) {
		return
	}
	name := fmt.Sprintf("OBJECT-%s", child.name)
	if metadata := child.template.Fields["metadata"]; metadata != nil {
		s := c.Gather(metadata.Parts)
		if s.MayHaveMore() {
			return
		}
		if stated := s.Fields["name"]; stated != nil {
			before := c.Beyond
			for _, p := range stated.Parts {
				c.Infer(p)
			}
			if c.Beyond > before {
				return
			}
			name = syntax.SourceOf(stated.Parts[0].Expr)
		}
	}
	c.advice = append(c.advice, kind.Advice{
		Check: mistake.ReusedName, Field: child.path, Position: syntax.PositionOf(child.node),
		Text: fmt.Sprintf(
			"%s: the phase %s can be entered again, and the name %s stays the same: the child of the last time is deleted first, even if it still runs; "+
				"to keep it, add object.status.lastScheduleTime or object.status.lastPhaseTransitionTime to the name",
			child.path, child.phase, strings.Trim(name, `"`)),
	})
}

// sharedName advises on a child that has the same name, and the same namespace, for several objects.
func (c *Checker) sharedName(child *checkedChild, name string, at ast.Node) {
	objects, called, add := "objects of the kind", fmt.Sprintf("%q", name), `\(object.metadata.name)`
	namespace, isKnown := child.namespace()
	switch {
	case !isKnown:
		return
	case child.known && !child.resource.Namespaced:
	case namespace == nil && c.isClusterScoped():
		return // an error that namespace reports
	case namespace == nil || c.isOwnNamespace(namespace):
		objects += " in a namespace"
	default:
		text, isText := c.Unified(slices.Clone(namespace.Parts)).Literal.(string)
		if !isText {
			return // it may depend on the object
		}
		called += fmt.Sprintf(" in the namespace %q", text)
	}
	if !c.isClusterScoped() && !strings.HasSuffix(objects, "namespace") {
		add = `\(object.metadata.namespace)-` + add
	}
	c.advice = append(c.advice, kind.Advice{
		Check: mistake.SharedName, Field: child.path + ".template.metadata.name", Position: syntax.PositionOf(at),
		Text: fmt.Sprintf(
			"%s.template.metadata.name: all %s share the child %s, and only the first gets it: add %s to the name",
			child.path, objects, called, add),
	})
}

// checkCollisions reports children of one type and one name.
func checkCollisions(children []*checkedChild) {
	type identity struct {
		gvk                    apischema.GroupVersionKind
		phase, namespace, name string
	}
	seen := make(map[identity]*checkedChild)
	for _, child := range children {
		name := child.template.In("metadata").Fields["name"]
		isOfLoop := child.name == ""
		if name == nil || len(name.Parts) != 1 || isOfLoop || child.gvk.Kind == "" || child.conditional ||
			child.body.Fields["replicas"] != nil {
			continue
		}
		id := identity{gvk: child.gvk, phase: child.phase, name: syntax.SourceOf(name.Parts[0].Expr)}
		if namespace, _ := child.namespace(); namespace != nil {
			id.namespace = syntax.SourceOf(namespace.Parts[0].Expr)
		}
		if other := seen[id]; other != nil && other.name != child.name {
			child.template.Report(mistake.DuplicateName, name.Node,
				"%s.template.metadata.name: %s has the same name and type: give them different names", child.path,
				other.path)
		}
		seen[id] = child
	}
}

// labelValue is the value of a label, if it is known.
type labelValue struct {
	text  string
	known bool
}

// labelsAt returns the labels at a path below a structure; closed is false if there may be more.
func labelsAt(s *infer.Structure, path ...string) (labels map[string]labelValue, closed bool) {
	for _, name := range path {
		if s.Fields[name] == nil {
			return nil, !s.IsOpen()
		}
		s = s.In(name)
	}
	labels = make(map[string]labelValue)
	for _, name := range s.Order {
		text, known := s.Text(name)
		labels[name] = labelValue{text, known && s.Fields[name].Certain}
	}
	return labels, !s.IsOpen()
}

// mismatchOf returns what keeps labels from matching a selector for certain.
func mismatchOf(selector, labels map[string]labelValue, closed bool) (key, why string) {
	for _, name := range slices.Sorted(maps.Keys(selector)) {
		label, ok := labels[name]
		switch {
		case !ok && closed:
			return name, "have no label " + name
		case ok && label.known && selector[name].known && label.text != selector[name].text:
			return name, fmt.Sprintf("have the label %s: %q", name, label.text)
		}
	}
	return "", ""
}

// checkPodSelector checks that the selector of a workload selects its own Pods.
func checkPodSelector(child *checkedChild) {
	if !child.known {
		return
	}
	var selectorPath []string
	switch child.gvk.Kind {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet":
		selectorPath = []string{"selector", "matchLabels"}
	case "ReplicationController":
		selectorPath = []string{"selector"}
	default:
		return
	}
	s := child.template.In("spec")
	selector, _ := labelsAt(s, selectorPath...)
	if len(selector) == 0 || s.Fields["template"] == nil {
		return
	}
	labels, closed := labelsAt(s, "template", "metadata", "labels")
	if key, why := mismatchOf(selector, labels, closed); key != "" {
		child.template.Report(mistake.SelectorMismatch, s.Fields["selector"].Node,
			"%s.template.spec.%s.%s: the Pods of the template %s: selector and labels of the template must match",
			child.path, strings.Join(selectorPath, "."), key, why)
	}
}

// isBuiltIn reports whether Kubernetes itself serves a kind.
func isBuiltIn(gvk apischema.GroupVersionKind) bool {
	return !strings.Contains(gvk.Group, ".") || strings.HasSuffix(gvk.Group, ".k8s.io") &&
		!strings.HasPrefix(gvk.Group, "gateway.")
}
