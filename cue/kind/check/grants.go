package check

import (
	"slices"

	"cuelang.org/go/cue/ast"
	rbacv1 "k8s.io/api/rbac/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// grants are the rights that children of a kind give away.
type grants struct{ *Checker }

// find finds what the children give away. What is not known of them may be anything.
func (c grants) find() {
	seen := make(map[apischema.GroupVersionKind]bool)
	for _, child := range c.kept {
		if child.gvk.Group != rbacv1.GroupName {
			continue
		}
		seen[child.gvk] = true
		for _, g := range c.of(child) {
			c.note(child, g)
		}
	}
	for _, gvk := range c.kind.Owns {
		if c.GaveUp || c.unknownChildren || !seen[gvk] { // there may be children that were not looked at
			for _, g := range anyGrants(gvk) {
				c.add(g)
			}
		}
	}
}

func (c grants) add(g kind.Grant) {
	if !slices.Contains(c.kind.Grants, g) {
		c.kind.Grants = append(c.kind.Grants, g)
	}
}

// note notes what a child gives away, and advises on rights that the operator does not get by itself.
func (c grants) note(child *checkedChild, g kind.Grant) {
	c.add(g)
	var text string
	switch field := child.path + ".template"; {
	case g.Verb == "escalate":
		text = field + ": the operator needs the rights in the rules, or the right to escalate"
	case c.kind.Target != nil:
		text = field + ": the operator needs the right to bind the role for everyone who may write an object"
	case g.Name == "":
		text = field +
			".roleRef: is not the same for all objects, so the operator needs the right to bind every role that it may be"
	default:
		return
	}
	a := kind.Advice{
		Check: mistake.NeedsRights, Field: child.path + ".template",
		Position: syntax.PositionOf(child.template.Fields["kind"].Node),
		Text: text +
			"; fescue manifests does not print it: see docs/operate/multi-tenancy.md#kinds-that-grant-rights",
	}
	if !slices.Contains(c.advice, a) {
		c.advice = append(c.advice, a)
	}
}

// anyGrants returns what children of a type of which nothing else is known may give away.
func anyGrants(child apischema.GroupVersionKind) []kind.Grant {
	role, clusterRole := rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	if child.Group != rbacv1.GroupName {
		return nil
	}
	switch child.Kind {
	case "RoleBinding":
		return []kind.Grant{{Child: child, Verb: "bind", Role: clusterRole}, {Child: child, Verb: "bind", Role: role}}
	case "ClusterRoleBinding":
		return []kind.Grant{{Child: child, Verb: "bind", Role: clusterRole}}
	case "Role":
		return []kind.Grant{{Child: child, Verb: "escalate", Role: role}}
	case "ClusterRole":
		return []kind.Grant{{Child: child, Verb: "escalate", Role: clusterRole}}
	}
	return nil
}

// of returns what a child gives away.
func (c grants) of(child *checkedChild) []kind.Grant {
	all := anyGrants(child.gvk)
	if len(all) == 0 || child.body.MayHaveMore() || child.template.MayHaveMore() {
		return all
	}
	if all[0].Verb == "escalate" {
		if child.template.Fields["aggregationRule"] == nil && isEmptyList(child.template.Fields["rules"]) {
			return nil
		}
		return all
	}
	reference := child.template.Fields["roleRef"]
	if reference == nil {
		return all
	}
	s := c.Gather(reference.Parts)
	if s.MayHaveMore() {
		return all
	}
	kinds, names := textsOf(c.Reader, s.Fields["kind"]), textsOf(c.Reader, s.Fields["name"])
	if len(kinds) != 1 {
		return all
	}
	var known []kind.Grant
	for _, g := range all {
		if g.Role.Kind != kinds[0] {
			continue
		}
		for _, name := range names {
			g.Name = name
			known = append(known, g)
		}
		if len(names) == 0 {
			known = append(known, g)
		}
	}
	return known
}

// textsOf returns the texts of which a field has one, whatever the object is: all that it consists of is these
// literals, or describes them. It returns none if they are not known.
func textsOf(r *infer.Reader, m *infer.Member) (texts []string) {
	if m == nil {
		return nil
	}
	for _, p := range m.Parts {
		v := r.Resolved(p)
		if v.IsType && v.Literal == nil && len(v.Alternatives) == 0 && len(v.Parts) == 0 {
			continue
		}
		found := literalTexts(v)
		if len(found) == 0 || len(texts) > 0 && !slices.Equal(found, texts) {
			return nil
		}
		texts = found
	}
	return texts
}

// literalTexts returns the texts of which a value is one, each once and sorted; none if it may be another.
func literalTexts(v infer.Value) (texts []string) {
	if len(v.Alternatives) == 0 {
		v.Alternatives = []infer.Value{v}
	}
	for _, a := range v.Alternatives {
		text, isText := a.Literal.(string)
		if !isText || text == "" {
			return nil
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// isEmptyList reports whether a field is missing, or an empty list whatever the object is.
func isEmptyList(m *infer.Member) bool {
	return m == nil || !slices.ContainsFunc(m.Parts, func(p infer.Part) bool {
		list, isList := p.Expr.(*ast.ListLit)
		return !isList || len(list.Elts) > 0
	})
}
