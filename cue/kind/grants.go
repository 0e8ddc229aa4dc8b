package kind

import (
	"slices"

	"cuelang.org/go/cue/ast"
	rbacv1 "k8s.io/api/rbac/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Grant is a right to give rights away. The API server asks for it, or for all rights that are given, when a
// RoleBinding, a ClusterRoleBinding, a Role or a ClusterRole is written
// (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping).
type Grant struct {
	// Child is the type of the children that give rights away.
	Child apischema.GroupVersionKind
	// Verb is "bind" for bindings, and "escalate" for roles.
	Verb string
	// Role is the type of the roles that are bound or written.
	Role apischema.GroupVersionKind
	// Name is the role that all these children bind; it is empty if that is not the same for all objects, and for
	// "escalate".
	Name string
}

// grants finds what the children give away. What is not known of them may be anything.
func (c *checker) grants() {
	seen := make(map[apischema.GroupVersionKind]bool)
	for _, child := range c.kept {
		if child.gvk.Group != rbacv1.GroupName {
			continue
		}
		seen[child.gvk] = true
		for _, g := range c.grantsOf(child) {
			c.grant(child, g)
		}
	}
	for _, gvk := range c.kind.Owns {
		if c.gaveUp || c.unknownChildren || !seen[gvk] { // there may be children that were not looked at
			for _, g := range anyGrants(gvk) {
				c.addGrant(g)
			}
		}
	}
}

func (c *checker) addGrant(g Grant) {
	if !slices.Contains(c.kind.Grants, g) {
		c.kind.Grants = append(c.kind.Grants, g)
	}
}

// grant notes what a child gives away, and advises on rights that the operator does not get by itself.
func (c *checker) grant(child *checkedChild, g Grant) {
	c.addGrant(g)
	var text string
	switch field := child.path + ".template"; {
	case g.Verb == "escalate":
		text = field + ": the operator needs the rights in the rules, or the right to escalate"
	case c.kind.Target != nil:
		text = field + ": the operator needs the right to bind the role for everyone who may write an object"
	case g.Name == "":
		text = field + ".roleRef: is not the same for all objects, so the operator needs the right to bind every role that it may be"
	default:
		return
	}
	a := Advice{
		Field: child.path + ".template", Position: positionOf(child.template.fields["kind"].node),
		Text: text + "; fescue manifests does not print it: see docs/install.md#kinds-that-grant-rights",
	}
	if !slices.Contains(c.advice, a) {
		c.advice = append(c.advice, a)
	}
}

// anyGrants returns what children of a type of which nothing else is known may give away.
func anyGrants(child apischema.GroupVersionKind) []Grant {
	role, clusterRole := rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	if child.Group != rbacv1.GroupName {
		return nil
	}
	switch child.Kind {
	case "RoleBinding":
		return []Grant{{child, "bind", clusterRole, ""}, {child, "bind", role, ""}}
	case "ClusterRoleBinding":
		return []Grant{{child, "bind", clusterRole, ""}}
	case "Role":
		return []Grant{{child, "escalate", role, ""}}
	case "ClusterRole":
		return []Grant{{child, "escalate", clusterRole, ""}}
	}
	return nil
}

// grantsOf returns what a child gives away.
func (c *checker) grantsOf(child *checkedChild) []Grant {
	all := anyGrants(child.gvk)
	if len(all) == 0 || child.body.mayHaveMore() || child.template.mayHaveMore() {
		return all
	}
	if all[0].Verb == "escalate" {
		if child.template.fields["aggregationRule"] == nil && isEmptyList(child.template.fields["rules"]) {
			return nil
		}
		return all
	}
	reference := child.template.fields["roleRef"]
	if reference == nil {
		return all
	}
	s := c.gather(reference.parts)
	if s.mayHaveMore() {
		return all
	}
	of, isKnown := c.sameFor(s.fields["kind"])
	if isKnown {
		all = slices.DeleteFunc(all, func(g Grant) bool { return g.Role.Kind != of })
	}
	if name, isSame := c.sameFor(s.fields["name"]); isKnown && isSame {
		for i := range all {
			all[i].Name = name
		}
	}
	return all
}

// sameFor returns the text that a field has in all objects in which it exists: all that it consists of is this
// literal, or describes it.
func (c *checker) sameFor(m *member) (text string, isSame bool) {
	if m == nil {
		return "", false
	}
	for _, p := range m.parts {
		v := c.resolved(p)
		if v.isType && v.literal == nil && len(v.alternatives) == 0 && len(v.parts) == 0 {
			continue
		}
		literal, isText := v.literal.(string)
		if !isText || isSame && literal != text {
			return "", false
		}
		text, isSame = literal, true
	}
	return text, isSame && text != ""
}

// isEmptyList reports whether a field is missing, or an empty list whatever the object is.
func isEmptyList(m *member) bool {
	return m == nil || !slices.ContainsFunc(m.parts, func(p part) bool {
		list, isList := p.expr.(*ast.ListLit)
		return !isList || len(list.Elts) > 0
	})
}
