package check

import (
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// selectorType is the type of a label selector.
var selectorType = &types.Type{Values: types.Object, Fields: map[string]*types.Type{
	"matchLabels": {Values: types.Object, Others: types.Of(types.String)},
	"matchExpressions": {Values: types.List,
		Items: &types.Type{Values: types.Object, Required: []string{"key", "operator"}, Fields: map[string]*types.Type{
			"key": types.Of(types.String), "operator": types.Of(types.String),
			"values": {Values: types.List, Items: types.Of(types.String)},
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
	declared := c.Definition.Fields[kind.ReadsName]
	if declared == nil {
		return
	}
	c.lookingUp = true
	defer func() { c.lookingUp = false }()
	for _, p := range declared.Parts {
		for _, condition := range p.Conditions {
			c.Condition(p.With(condition))
		}
	}
	s := c.Gather(declared.Parts)
	for _, name := range s.Order {
		c.lookup(kind.ReadsName+"."+name, s.Fields[name].Parts)
	}
	for _, d := range s.Dynamic {
		c.Label(d)
		c.lookup(kind.ReadsName+"[…]", []infer.Part{d.Value})
	}
}

func (c *Checker) lookup(path string, parts []infer.Part) {
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
	apiVersion, _ := body.OnlyText("apiVersion")
	kind, _ := body.OnlyText("kind")
	gvk := apischema.FromAPIVersionAndKind(apiVersion, kind)
	found, ok, err := c.types.Find(gvk)
	at := body.Fields["kind"]
	switch {
	case at == nil:
		return
	case err != nil:
		c.Report(mistake.UnknownType, at.Node, "%s: %v", path, err)
		return
	case !ok:
		c.untyped(path, at.Node, gvk)
		return
	}
	namespace := body.Fields["namespace"]
	switch {
	case !found.Namespaced && namespace != nil:
		c.Report(mistake.UnneededNamespace, namespace.Node, "%s.namespace: a %s has no namespace: remove it", path,
			kind)
	case found.Namespaced && namespace == nil && c.isClusterScoped() && body.Fields["name"] != nil:
		c.Report(mistake.MissingNamespace, at.Node,
			"%s: a %s is namespaced, and the objects of the kind are cluster-scoped: add the namespace to read it from",
			path, kind)
	}
}
