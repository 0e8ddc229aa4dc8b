package kind

import (
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
	// Name is the role that is bound. It is empty if it may be any, and for "escalate".
	Name string
}
