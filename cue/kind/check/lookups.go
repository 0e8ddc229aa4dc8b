package check

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// selectorType is the type of a label selector.
var selectorType = &types.Type{Values: types.Object, Fields: map[string]*types.Type{
	"matchLabels": {Values: types.Object, Others: types.Of(types.String)},
	"matchExpressions": {Values: types.List, Items: &types.Type{Values: types.Object, Required: []string{"key", "operator"}, Fields: map[string]*types.Type{
		"key": types.Of(types.String), "operator": types.Of(types.String), "values": {Values: types.List, Items: types.Of(types.String)},
	}}},
}}

// knowLookups adds what the behaviour reads to what observed has.
func (c *Checker) knowLookups() {
	for i, l := range c.kind.Lookups {
		t := ChildType{gvk: l.Type, set: l.IsSelection, T: types.Unknown}
		if found, ok, err := c.types.Find(l.Type); ok && err == nil {
			t.known, t.T = true, found.Type
			c.kind.Lookups[i].IsClusterScoped = !found.Namespaced
		}
		if l.Name == "" {
			c.moreChildren = true
			continue
		}
		c.Children[l.Name] = t
	}
}

// lookups checks the entries of reads.
func (c *Checker) lookups() {
	declared := c.Controller.Fields[kind.ReadsName]
	if declared == nil {
		return
	}
	c.lookingUp = true
	defer func() { c.lookingUp = false }()
	for _, p := range declared.Parts {
		for _, condition := range p.conditions {
			c.condition(p.with(condition))
		}
	}
	s := c.Gather(declared.Parts)
	for _, name := range s.Order {
		c.lookup(kind.ReadsName+"."+name, s.Fields[name].Parts)
	}
	for _, d := range s.dynamic {
		c.label(d)
		c.lookup(kind.ReadsName+"[…]", []Part{d.value})
	}
}

func (c *Checker) lookup(path string, parts []Part) {
	body := c.Gather(parts)
	for _, field := range body.Order {
		m, t := body.Fields[field], types.Of(types.String)
		switch field {
		case "selector":
			t = selectorType
		case kind.SensitiveName:
			t = types.Of(types.Boolean)
		}
		c.check(m.Parts, t, path+"."+field)
	}
	apiVersion, _ := c.onlyText(body, "apiVersion")
	kind, _ := c.onlyText(body, "kind")
	gvk := apischema.FromAPIVersionAndKind(apiVersion, kind)
	found, ok, err := c.types.Find(gvk)
	at := body.Fields["kind"]
	switch {
	case at == nil:
		return
	case err != nil:
		c.report(at.Node, "%s: %v", path, err)
		return
	case !ok:
		c.untyped(path, at.Node, gvk)
		return
	}
	namespace := body.Fields["namespace"]
	switch {
	case !found.Namespaced && namespace != nil:
		c.report(namespace.Node, "%s.namespace: a %s has no namespace: remove it", path, kind)
	case found.Namespaced && namespace == nil && c.isClusterScoped() && body.Fields["name"] != nil:
		c.report(at.Node, "%s: a %s is namespaced, and the objects of the kind are cluster-scoped: add the namespace to read it from", path, kind)
	}
}

// exposed advises on a value of a sensitive object that goes where many can read it: the status, or a ConfigMap. Names and
// labels are not sensitive, and of a Secret only its data is.
func (c *Checker) exposed(p Part, from Value, name string) {
	isStatus := c.checked == "status" || c.checked == "conditions"
	isConfigMap := c.waiting != nil && c.waiting.gvk.Group == "" && c.waiting.gvk.Kind == "ConfigMap" && strings.HasPrefix(c.checked, c.waiting.path+".template")
	read, ok := strings.CutPrefix(from.path, behaviour.ObservedName+".")
	if !ok || c.tolerant > 0 || !isStatus && !isConfigMap && !c.naming {
		return
	}
	gvk := c.Children[read].gvk
	switch isSecret := kind.IsSecret(gvk); {
	case isSecret && name != "data" && name != "stringData", !isSecret && (!c.kind.IsSensitive(gvk) || name == "metadata" || name == "kind" || name == "apiVersion"):
		return
	}
	if c.naming {
		c.report(
			p.node(),
			"%s.%s.%s is part of the name of a child, which is a label and stands in messages: name it after something that is not sensitive",
			behaviour.ObservedName,
			read,
			name,
		)
		return
	}
	where := "the status"
	if isConfigMap {
		where = "a ConfigMap"
	}
	text := fmt.Sprintf("%s.%s.%s goes into %s, where more people can read it than the original: put it into a Secret", behaviour.ObservedName, read, name, where)
	advice := kind.Advice{Field: c.checked, Position: syntax.PositionOf(p.node()), Text: text}
	if !slices.Contains(c.advice, advice) {
		c.advice = append(c.advice, advice)
	}
}

// readsBeyond notes what the author of an object does not submit, and reports it in an entry of reads, which
// must not depend on it.
func (c *Checker) readsBeyond(p Part, e ast.Expr, path string) {
	c.beyond++
	if c.lookingUp {
		c.report(p.node(), "%s: reads cannot depend on %s: they follow from the spec, name, namespace, labels and annotations of the object", syntax.SourceOf(e), path)
	}
}

// orRead continues "no child" for a kind that reads other objects as well.
func (c *Checker) orRead() string {
	if len(c.kind.Lookups) > 0 {
		return " or read"
	}
	return ""
}

// Lookups finds the entries of reads, by the syntax of the behaviour.
func Lookups(k *kind.Kind, pkg *syntax.Package) error {
	c := New(k, pkg, nil)
	declared := c.Controller.Fields[kind.ReadsName]
	if declared == nil {
		return nil
	}
	s := c.Gather(declared.Parts)
	if len(s.others) > 0 {
		return syntax.ErrorAtNode(
			s.others[0].node(),
			"reads: %s: write the reads out, with an apiVersion and a kind, so that the rights to read them can be listed",
			syntax.SourceOf(s.others[0].expr),
		)
	}
	children := c.childNames()
	for _, name := range s.Order {
		m := s.Fields[name]
		if children[name] {
			return syntax.ErrorAtNode(m.Node, "reads.%s: a child has the same name, and both would be observed.%[1]s: rename one", name)
		}
		if err := c.addLookup(name, m.Parts, !m.certain, m.Node); err != nil {
			return err
		}
	}
	for _, d := range s.dynamic {
		if err := c.addLookup("", []Part{d.value}, true, d.label); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checker) addLookup(name string, parts []Part, conditional bool, at ast.Node) error {
	body, path := c.Gather(parts), kind.ReadsName+"."+name
	if name == "" {
		path = kind.ReadsName + "[…]"
	}
	texts := make(map[string]string)
	for _, field := range []string{"apiVersion", "kind"} {
		text, ok := c.onlyText(body, field)
		switch {
		case body.Fields[field] == nil:
			return syntax.ErrorAtNode(at, "%s.%s: is missing", path, field)
		case !ok || text == "":
			return syntax.ErrorAtNode(body.Fields[field].Node, "%s.%s: must be one string for all objects of the kind", path, field)
		}
		texts[field] = text
	}
	if _, err := apischema.ParseGroupVersion(texts["apiVersion"]); err != nil {
		return syntax.ErrorAtNode(body.Fields["apiVersion"].Node, "%s.apiVersion: %q must be a version, or a group and a version, like \"apps/v1\"", path, texts["apiVersion"])
	}
	named, selected := body.Fields["name"], body.Fields["selector"]
	if (named == nil) == (selected == nil) {
		return syntax.ErrorAtNode(at, "%s: must have either a name or a selector", path)
	}
	facts := kind.LookupFacts{
		Name: name, Type: apischema.FromAPIVersionAndKind(texts["apiVersion"], texts["kind"]), IsSelection: selected != nil,
		Namespace: sourceOfField(body, "namespace"), Which: sourceOfField(body, "name") + sourceOfField(body, "selector"),
		Conditional: conditional, Position: syntax.PositionOf(at),
	}
	if text, ok := c.onlyText(body, "name"); ok {
		if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 && !slices.Contains(PathNamed, facts.Type.Kind) {
			return syntax.ErrorAtNode(named.Node, "%s.name: %q is not a valid object name: %s", path, text, problems[0])
		}
		facts.ObjectName = text
	}
	facts.ObjectNamespace, _ = c.onlyText(body, "namespace")
	if sensitive := body.Fields[kind.SensitiveName]; sensitive != nil {
		isTrue := func(p Part) bool { return c.infer(p).literal == true }
		if !sensitive.certain || !slices.ContainsFunc(sensitive.Parts, isTrue) {
			return syntax.ErrorAtNode(sensitive.Node, "%s.%s: must be true for all objects of the kind, or not set", path, kind.SensitiveName)
		}
		facts.Sensitive = true
	}
	c.kind.Lookups = append(c.kind.Lookups, facts)
	return nil
}

// onlyText returns the text of a field that is the same for all objects, whichever ifs hold.
func (c *Checker) onlyText(s *Structure, name string) (text string, ok bool) {
	m := s.Fields[name]
	if m == nil {
		return "", false
	}
	for i, p := range m.Parts {
		one, isText := c.infer(p).literal.(string)
		if !isText || i > 0 && one != text {
			return "", false
		}
		text = one
	}
	return text, true
}

// childNames are the names of all children, as far as the syntax shows them.
func (c *Checker) childNames() map[string]bool {
	names := make(map[string]bool)
	add := func(owner *Structure) {
		for _, name := range c.structureOf(owner, "children").Order {
			names[name] = true
		}
	}
	add(c.Controller)
	phases := c.structureOf(c.Controller, "phases")
	for _, name := range phases.Order {
		add(c.structureOf(phases, name))
	}
	return names
}
