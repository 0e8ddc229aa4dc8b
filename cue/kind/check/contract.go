package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// OfContract returns the fields of a behaviour that the contract does not have, and words that a
// field of it does not allow. CUE reports these as well, but suggests nothing, and some only once
// their values are known.
func OfContract(k *kind.Kind, pkg *syntax.Package) []*syntax.LoadError {
	c := New(k, pkg, nil)
	if c.Controller.Fields["scope"] == nil {
		return nil // it is no contract.#Controller
	}
	c.Mistakes, c.found = nil, make(map[string]bool) // without types, the rest cannot be told
	c.Definition(c.Controller, "#Controller", "")
	c.contractBehaviour(c.Controller)
	c.Definition(c.structureOf(c.Controller, behaviour.InjectName), "#Injection", "inject.")
	phases := c.structureOf(c.Controller, "phases")
	for _, name := range phases.Order {
		path := "phases." + name + "."
		phase := c.structureOf(phases, name)
		c.Definition(phase, "#Phase", path)
		c.contractChildren(phase, path)
		c.loopNames(phase, path)
		next := phase.Fields["next"]
		if next == nil {
			continue
		}
		for _, p := range next.Parts {
			if list, ok := p.expr.(*ast.ListLit); ok {
				c.contractTransitions(p, list, path+"next")
			}
		}
	}
	return c.Mistakes
}

// contractBehaviour checks what kinds and decorators have in common.
func (c *Checker) contractBehaviour(s *Structure) {
	c.contractChildren(s, "")
	c.loopNames(s, "")
	reads := c.structureOf(s, kind.ReadsName)
	for _, name := range reads.Order {
		read, path := c.structureOf(reads, name), kind.ReadsName+"."+name+"."
		c.Definition(read, "#Read", path)
		c.selectorFields(read, path)
	}
}

// autoscaling advises on a scale without a selector: a HorizontalPodAutoscaler finds the Pods of an object by nothing
// else, and reports ScalingActive False with the reason InvalidSelector.
func (c *Checker) autoscaling() {
	if c.kind.Scale != nil && c.kind.Scale.LabelSelectorPath == nil {
		c.advice = append(c.advice, kind.Advice{
			Field: "scale", Position: syntax.PositionOf(c.Controller.Fields["scale"].Node),
			Text: `scale: a HorizontalPodAutoscaler cannot scale these objects: write selector: ".status.selector", ` +
				`and in the status the labels of the Pods as text, like selector: "app=\(object.metadata.name)"`,
		})
	}
}

// selectorFields reports labels that stand in the label selector of a structure itself, as in selectors of a Service.
func (c *Checker) selectorFields(s *Structure, path string) {
	selector, known := c.structureOf(s, "selector"), []string{"matchLabels", "matchExpressions"}
	for _, name := range selector.Order {
		near := types.DidYouMean(name, known)
		switch at := selector.Fields[name].Node; {
		case slices.Contains(known, name):
		case near != "" || name == "labels":
			c.report(at, "%sselector.%s: unknown field%s", path, name, cmp.Or(near, "; did you mean matchLabels?"))
		default:
			c.report(at, `%sselector.%q: unknown field: write selector: matchLabels: %[2]q: "VALUE", or selector: matchExpressions: [{key: %[2]q, operator: "Exists"}]`, path, name)
		}
	}
}

func (c *Checker) contractTransitions(p Part, list *ast.ListLit, prefix string) {
	var transitions []*Structure
	c.quietly(func() {
		for _, item := range c.items(p, list) {
			transitions = append(transitions, c.Gather([]Part{item}))
		}
	})
	for i, transition := range transitions {
		c.Definition(transition, "#Transition", fmt.Sprintf("%s[%d].", prefix, i))
	}
}

func (c *Checker) contractChildren(owner *Structure, prefix string) {
	children := c.structureOf(owner, "children")
	for _, name := range children.Order {
		path := prefix + "children." + name + "."
		child := c.structureOf(children, name)
		c.Definition(child, "#Child", path)
		for _, field := range []string{"update", "strays", "onDelete"} {
			c.words(child, field, path)
		}
	}
}

// structureOf returns a field of a structure as one.
func (c *Checker) structureOf(s *Structure, name string) (field *Structure) {
	c.quietly(func() {
		var parts []Part
		if m := s.Fields[name]; m != nil {
			parts = m.Parts
		}
		field = c.Gather(parts)
	})
	return field
}

// quietly does something of which nothing is reported.
func (c *Checker) quietly(do func()) {
	mistakes, found := c.Mistakes, c.found
	c.found = make(map[string]bool)
	do()
	c.Mistakes, c.found = mistakes, found
}

// Definition reports fields of a structure that a definition of the contract does not have.
func (c *Checker) Definition(s *Structure, definition, path string) {
	known := c.Gather(c.topLevel(Part{in: c.pkg.Rules.Contract}, definition)).Order
	for _, name := range s.Order {
		if isHidden := strings.HasPrefix(name, "_") || strings.HasPrefix(name, "#"); !isHidden && !slices.Contains(known, name) {
			hint := types.DidYouMean(name, known)
			switch {
			case definition == "#Child" && slices.Contains([]string{"apiVersion", "kind", "metadata", "spec", "data"}, name):
				hint = ": write it in template"
			case definition != "#Target" && definition != "#Read":
			case slices.Contains([]string{"label", "labels", "matchLabels"}, name):
				hint = `: write selector: matchLabels: "KEY": "VALUE", or selector: matchExpressions: [{key: "KEY", operator: "Exists"}]`
			case name == "matchExpressions":
				hint = `: write selector: matchExpressions: […]`
			}
			c.report(s.Fields[name].Node, "%s%s: unknown field%s", path, name, hint)
		}
	}
}

// words reports a text that is none of those that the contract lists for a field of a child.
func (c *Checker) words(child *Structure, name, path string) {
	field := child.Fields[name]
	contract := c.Gather(c.topLevel(Part{in: c.pkg.Rules.Contract}, "#Child")).Fields[name]
	if field == nil || contract == nil {
		return
	}
	var known []string
	for _, alternative := range syntax.Flatten(contract.Parts[0].expr) {
		if unary, ok := alternative.(*ast.UnaryExpr); ok {
			alternative = unary.X
		}
		if text, err := syntax.LiteralValue(alternative); err == nil {
			known = append(known, fmt.Sprint(text))
		}
	}
	for _, p := range field.Parts {
		var v Value
		c.quietly(func() { v = c.infer(p) })
		if text, ok := v.literal.(string); ok && !slices.Contains(known, text) {
			c.report(p.node(), "%s%s: %q must be one of %s%s", path, name, text, strings.Join(known, ", "), types.DidYouMean(text, known))
		}
	}
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

// OfDecorators is OfContract for a decorator.
func OfDecorators(k *kind.Kind, pkg *syntax.Package) []*syntax.LoadError {
	c := New(k, pkg, nil)
	c.Mistakes, c.found = nil, make(map[string]bool) // without types, the rest cannot be told
	for _, name := range c.Controller.Order {
		if why, known := notOfDecorators[name]; known {
			c.report(c.Controller.Fields[name].Node, "%s: a decorator cannot have it: %s", name, why)
		}
	}
	if len(c.Mistakes) > 0 {
		return c.Mistakes
	}
	c.Definition(c.Controller, "#"+behaviour.DecoratorSuffix, "")
	target := c.structureOf(c.Controller, "target")
	c.Definition(target, "#Target", "target.")
	c.selectorFields(target, "target.")
	c.contractBehaviour(c.Controller)
	return c.Mistakes
}

// SameLookups rejects reads that the author of an object could choose: nothing asks whether they
// may read that.
func SameLookups(k *kind.Kind, pkg *syntax.Package) error {
	c := New(k, pkg, nil)
	for _, l := range k.Lookups {
		isSame := l.Name != "" && (l.IsSelection || l.ObjectName != "") && (l.Namespace == "" || l.ObjectNamespace != "")
		if entry := c.structureOf(c.Controller, kind.ReadsName).Fields[l.Name]; isSame && entry != nil && !c.mentions(entry.Parts, behaviour.ObjectName) {
			continue
		}
		return syntax.ErrorAtPosition(
			l.Position,
			"%s.%s: must be the same for all objects: the author of an object is not asked for the right to read what it names",
			kind.ReadsName,
			l.Name,
		)
	}
	return nil
}

// mentions reports whether a name of the behaviour stands in some parts, or in what they refer to at
// the top of the package.
func (c *Checker) mentions(parts []Part, name string) bool {
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
			for _, f := range c.packages.FieldsOf(c.pkg.Instance)[ident.Name] {
				found = found || in(f.Value)
			}
			return !found
		}, nil)
		return found
	}
	return slices.ContainsFunc(parts, func(p Part) bool { return in(p.expr) })
}

// target checks the type of the targets, and returns what is known of it.
func (c *Checker) target() *types.Type {
	k := c.kind
	found, ok, err := c.types.Find(k.GroupVersionKind)
	stated := c.structureOf(c.Controller, "target").Fields["kind"]
	scope := c.Controller.Fields["scope"]
	switch {
	case stated == nil: // a definition of the package has it
	case err != nil:
		c.report(stated.Node, "target: %v", err)
	case !ok:
		c.untyped("object", stated.Node, k.GroupVersionKind)
	case found.Namespaced == c.isClusterScoped() && c.isClusterScoped():
		c.report(scope.Node, "scope: a %s is namespaced: remove scope", k.GroupVersionKind.Kind)
	case found.Namespaced == c.isClusterScoped():
		c.report(stated.Node, "target: a %s is cluster-scoped: write scope: \"Cluster\"", k.GroupVersionKind.Kind)
	}
	if err != nil || !ok {
		return c.types.FromRootSchema(nil)
	}
	return found.Type
}
