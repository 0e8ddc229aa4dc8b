package kind

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

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
func (c *checker) knowLookups() {
	for i, l := range c.kind.Lookups {
		t := childType{gvk: l.Type, set: l.IsSelection, t: types.Unknown}
		if found, ok, err := c.types.Find(l.Type); ok && err == nil {
			t.known, t.t = true, found.Type
			c.kind.Lookups[i].IsClusterScoped = !found.Namespaced
		}
		if l.Name == "" {
			c.moreChildren = true
			continue
		}
		c.children[l.Name] = t
	}
}

// lookups checks the entries of reads.
func (c *checker) lookups() {
	declared := c.controller.fields[readsName]
	if declared == nil {
		return
	}
	c.lookingUp = true
	defer func() { c.lookingUp = false }()
	for _, p := range declared.parts {
		for _, condition := range p.conditions {
			c.condition(p.with(condition))
		}
	}
	s := c.gather(declared.parts)
	for _, name := range s.order {
		c.lookup(readsName+"."+name, s.fields[name].parts)
	}
	for _, d := range s.dynamic {
		c.label(d)
		c.lookup(readsName+"[…]", []part{d.value})
	}
}

func (c *checker) lookup(path string, parts []part) {
	body := c.gather(parts)
	for _, field := range body.order {
		m, t := body.fields[field], types.Of(types.String)
		switch field {
		case "selector":
			t = selectorType
		case sensitiveName:
			t = types.Of(types.Boolean)
		}
		c.check(m.parts, t, path+"."+field)
	}
	apiVersion, _ := c.onlyText(body, "apiVersion")
	kind, _ := c.onlyText(body, "kind")
	gvk := apischema.FromAPIVersionAndKind(apiVersion, kind)
	found, ok, err := c.types.Find(gvk)
	at := body.fields["kind"]
	switch {
	case at == nil:
		return
	case err != nil:
		c.report(at.node, "%s: %v", path, err)
		return
	case !ok:
		c.untyped(path, at.node, gvk)
		return
	}
	namespace := body.fields["namespace"]
	switch {
	case !found.Namespaced && namespace != nil:
		c.report(namespace.node, "%s.namespace: a %s has no namespace: remove it", path, kind)
	case found.Namespaced && namespace == nil && c.isClusterScoped() && body.fields["name"] != nil:
		c.report(at.node, "%s: a %s is namespaced, and the objects of the kind are cluster-scoped: add the namespace to read it from", path, kind)
	}
}

// exposed advises on a value of a sensitive object that goes where many can read it: the status, or a ConfigMap. Names and
// labels are not sensitive, and of a Secret only its data is.
func (c *checker) exposed(p part, from value, name string) {
	isStatus := c.checked == "status" || c.checked == "conditions"
	isConfigMap := c.waiting != nil && c.waiting.gvk.Group == "" && c.waiting.gvk.Kind == "ConfigMap" && strings.HasPrefix(c.checked, c.waiting.path+".template")
	read, ok := strings.CutPrefix(from.path, observedName+".")
	if !ok || c.tolerant > 0 || !isStatus && !isConfigMap && !c.naming {
		return
	}
	gvk := c.children[read].gvk
	switch isSecret := IsSecret(gvk); {
	case isSecret && name != "data" && name != "stringData", !isSecret && (!c.kind.IsSensitive(gvk) || name == "metadata" || name == "kind" || name == "apiVersion"):
		return
	}
	if c.naming {
		c.report(p.node(), "%s.%s.%s is part of the name of a child, which is a label and stands in messages: name it after something that is not sensitive", observedName, read, name)
		return
	}
	where := "the status"
	if isConfigMap {
		where = "a ConfigMap"
	}
	text := fmt.Sprintf("%s.%s.%s goes into %s, where more people can read it than the original: put it into a Secret", observedName, read, name, where)
	advice := Advice{Field: c.checked, Position: positionOf(p.node()), Text: text}
	if !slices.Contains(c.advice, advice) {
		c.advice = append(c.advice, advice)
	}
}

// readsBeyond notes what the author of an object does not submit, and reports it in an entry of reads, which
// must not depend on it.
func (c *checker) readsBeyond(p part, e ast.Expr, path string) {
	c.beyond++
	if c.lookingUp {
		c.report(p.node(), "%s: reads cannot depend on %s: they follow from the spec, name, namespace, labels and annotations of the object", sourceOf(e), path)
	}
}

// orRead continues "no child" for a kind that reads other objects as well.
func (c *checker) orRead() string {
	if len(c.kind.Lookups) > 0 {
		return " or read"
	}
	return ""
}
