package install

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fescue-dev/fescue/cue/kind"
)

// operatorRoles returns the roles of the operator, bound to its service account. With
// namespaces, the rights of the kinds are granted only there; webhooks always need some
// rights for the whole cluster.
func operatorRoles(o Options, kinds []*kind.Kind) ([]runtime.Object, error) {
	work, err := forKinds(kinds, offline(o.Types, kinds))
	if err != nil {
		return nil, err
	}
	everywhere := toWatchCRDs(kind.WithoutDecorators(kinds))
	if o.InstallCRDs {
		everywhere = append(everywhere, forCRDs(kind.WithoutDecorators(kinds))...)
	}
	if o.Webhooks != nil {
		rights, err := forWebhooks(o.Webhooks)
		if err != nil {
			return nil, err
		}
		everywhere = append(everywhere, rights...)
	}
	var objects []runtime.Object
	if len(o.Namespaces) == 0 {
		everywhere = append(everywhere, work...)
	}
	for _, k := range kinds {
		if k.Scope == apiextensionsv1.ClusterScoped && len(o.Namespaces) > 0 {
			return nil, fmt.Errorf("kind %s: it is cluster-scoped, so it cannot be limited to namespaces", k.Title())
		}
		if len(k.OwnsOfCluster) > 0 && len(o.Namespaces) > 0 {
			return nil,
				fmt.Errorf(
					"kind %s: it has children of the type %s, which is cluster-scoped, so it cannot be limited to namespaces", k.Title(), k.OwnsOfCluster[0].Kind)
		}
		if of := k.Lookups.OfCluster(); of != "" && len(o.Namespaces) > 0 {
			return nil,
				fmt.Errorf("kind %s: it reads %s, which is cluster-scoped, so it cannot be limited to namespaces",
					k.Title(), of)
		}
	}
	for _, namespace := range o.Namespaces {
		objects = append(objects, role(name, namespace, rules(work)), roleBinding(name, namespace, o.Namespace))
	}
	if len(everywhere) > 0 {
		objects = append(objects, clusterRole(o.ClusterName(), o.Namespace, rules(everywhere))...)
	}
	objects = append(objects, metricsRoles(o)...)
	const own = name + "-self" // not the name of the kinds' role, which may be in the same namespace
	return append(objects, role(own, o.Namespace, rules(inOwnNamespace(o))),
		roleBinding(own, o.Namespace, o.Namespace)), nil
}

// clusterRole returns a ClusterRole, bound to the service account.
func clusterRole(called, accountNamespace string, rules []rbacv1.PolicyRule) []runtime.Object {
	return []runtime.Object{
		&rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"),
			ObjectMeta: objectMeta(called, ""), Rules: rules},
		&rbacv1.ClusterRoleBinding{
			TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRoleBinding"), ObjectMeta: objectMeta(called, ""),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: called},
			Subjects: subjects(accountNamespace),
		},
	}
}

func role(called, namespace string, rules []rbacv1.PolicyRule) runtime.Object {
	return &rbacv1.Role{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "Role"),
		ObjectMeta: objectMeta(called, namespace), Rules: rules}
}

// roleBinding binds the role of its own name to the service account.
func roleBinding(called, namespace, accountNamespace string) runtime.Object {
	return &rbacv1.RoleBinding{
		TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "RoleBinding"), ObjectMeta: objectMeta(called, namespace),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: called},
		Subjects: subjects(accountNamespace),
	}
}

func subjects(namespace string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}}
}

// userRoles let people work with the objects of a kind: they are aggregated to the cluster's
// roles view, edit and admin. The status is the operator's; only an administrator may write
// it, to repair an object, and nobody where it records what the operator has to delete. The role
// for admin is then empty, so that applying it takes away what an earlier version of the kind gave.
func userRoles(k *kind.Kind) []runtime.Object {
	group, plural := k.GroupVersionKind.Group, k.Names.Plural
	viewer := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{plural},
		Verbs: []string{"get", "list", "watch"}}
	readStatus := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{plural + "/status"},
		Verbs: []string{"get"}}
	editor := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{plural},
		Verbs: []string{"create", "delete", "deletecollection", "patch", "update"}}
	admin := []rbacv1.PolicyRule{}
	if !k.RecordsPlaces() {
		admin = append(admin, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{plural + "/status"},
			Verbs: []string{"patch", "update"}})
	}
	view := []rbacv1.PolicyRule{viewer, readStatus}
	edit := []rbacv1.PolicyRule{editor}
	if k.Scale != nil {
		scale := []string{plural + "/scale"}
		view = append(view, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: scale, Verbs: []string{"get"}})
		edit = append(edit, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: scale,
			Verbs: []string{"patch", "update"}})
	}
	// Kubernetes' own edit is a part of its admin, and view a part of edit.
	prefix := name + "-" + k.Name() + "-"
	return []runtime.Object{
		aggregated(prefix+"viewer", "view", view),
		aggregated(prefix+"editor", "edit", edit),
		aggregated(prefix+"admin", "admin", admin),
	}
}

// aggregateTo is the prefix of labels that make a role part of one of Kubernetes' own.
const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// IsUserRole reports whether an object of an installation is a role that lets people work
// with the objects of a kind.
func IsUserRole(object *unstructured.Unstructured) bool {
	for label := range object.GetLabels() {
		if strings.HasPrefix(label, aggregateTo) {
			return true
		}
	}
	return false
}

// aggregated returns a role that Kubernetes makes part of its own role to.
func aggregated(called, to string, rules []rbacv1.PolicyRule) runtime.Object {
	meta := objectMeta(called, "")
	meta.Labels[aggregateTo+to] = "true"
	return &rbacv1.ClusterRole{TypeMeta: typeMeta(rbacv1.SchemeGroupVersion, "ClusterRole"), ObjectMeta: meta,
		Rules: rules}
}

func objectMeta(called, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: called, Namespace: namespace,
		Labels: map[string]string{"app.kubernetes.io/name": name}}
}
