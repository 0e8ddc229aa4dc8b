package check

import (
	"slices"

	"cuelang.org/go/cue/ast"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// places finds the types whose namespaces follow from what the author of an object submits: so it can be
// checked then whether the author has rights there. It is not asked where all children are in the namespace of
// their object, and not for decorators, whose targets have no author that admission asks.
func (c *Checker) places() {
	if !c.isClusterScoped() && len(c.kind.Elsewhere) == 0 || c.kind.Target != nil || c.unknownChildren {
		return
	}
	elsewhere := make(map[apischema.GroupVersionKind]bool)
	for _, child := range c.kept {
		if !c.isPlaced(child) {
			elsewhere[child.gvk] = true
		}
	}
	if c.GaveUp || elsewhere[apischema.GroupVersionKind{}] {
		return
	}
	for _, gvk := range c.kind.Owns {
		if !elsewhere[gvk] && !slices.Contains(c.kind.OwnsOfCluster, gvk) {
			c.kind.Placed = append(c.kind.Placed, gvk)
		}
	}
}

// isPlaced reports whether the existence of a child and its namespace follow from what the author of an object
// submits.
func (c *Checker) isPlaced(child *checkedChild) bool {
	namespace, isKnown := child.namespace()
	if child.beyond || !isKnown || child.body.MayHaveMore() {
		return false
	}
	if namespace == nil {
		return true
	}
	before := c.Beyond
	for _, p := range namespace.Parts {
		c.Infer(p)
	}
	return c.Beyond == before && !slices.ContainsFunc(namespace.Parts, func(p infer.Part) bool { return p.Beyond })
}

// namespace checks the scope of a child, and the namespace of its template.
func (c *Checker) namespace(child *checkedChild) {
	kindField := child.template.Fields["kind"]
	if kindField == nil {
		return
	}
	namespace, isKnown := child.namespace()
	isOwn := namespace == nil || c.isOwnNamespace(namespace)
	if !c.isClusterScoped() && (child.known && !child.resource.Namespaced || !isOwn) {
		c.elsewhere(child, kindField.Node)
	}
	if (!isOwn || child.known && child.resource.Namespaced == c.isClusterScoped()) && c.kind.Target == nil &&
		!c.kind.RecordsChildren() {
		c.Report(mistake.StatusSchema, kindField.Node,
			"%s.template: the status has no %s, in which the namespaces of children are recorded: embed contract.#Status in it", child.path, kind.ChildInventory)
	}
	if !child.known {
		return
	}
	if !child.resource.Namespaced && !slices.Contains(c.kind.OwnsOfCluster, child.gvk) {
		c.kind.OwnsOfCluster = append(c.kind.OwnsOfCluster, child.gvk)
	}
	if namespace == nil {
		if isKnown && child.resource.Namespaced && c.isClusterScoped() {
			c.Report(mistake.MissingNamespace,
				kindField.Node,
				"%s.template.metadata.namespace: is missing: a %s is namespaced, and the objects of the kind are cluster-scoped: write the namespace to create it in",
				child.path,
				child.gvk.Kind,
			)
		}
		return
	}
	path := child.path + ".template.metadata.namespace"
	v := c.Unified(slices.Clone(namespace.Parts))
	text, isText := v.Literal.(string)
	switch {
	case !child.resource.Namespaced:
		c.Report(mistake.UnneededNamespace, namespace.Node, "%s: a %s has no namespace: remove it", path,
			child.gvk.Kind)
	case isText:
		if problems := validation.IsDNS1123Label(text); len(problems) > 0 {
			c.Report(mistake.InvalidName, namespace.Node, "%s: %q is not a valid namespace name: %s", path, text,
				problems[0])
		}
	}
}

// isOwnNamespace reports whether a namespace is that of the object for certain.
func (c *Checker) isOwnNamespace(namespace *infer.Member) bool {
	return c.Unified(slices.Clone(namespace.Parts)).Path == behaviour.ObjectName+".metadata.namespace"
}

// elsewhere notes a type of which objects may have children outside of their namespace.
func (c *Checker) elsewhere(child *checkedChild, at ast.Node) {
	if !slices.Contains(c.kind.Elsewhere, child.gvk) {
		c.kind.Elsewhere = append(c.kind.Elsewhere, child.gvk)
	}
	if c.kind.Target != nil {
		c.Report(mistake.WrongScope, at,
			"%s.template: a decorator of objects with a namespace has children in that namespace only", child.path)
	}
}

// namespace returns the namespace in the template of a child; nil if there is none, as far as that is known.
func (child *checkedChild) namespace() (namespace *infer.Member, isKnown bool) {
	metadata := child.template.In("metadata")
	return metadata.Fields["namespace"], !metadata.MayHaveMore() && !child.template.MayHaveMore()
}
