package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// guestKind has objects that let a user read the Secrets of their namespace. GROUP and ROLE are replaced.
const guestKind = `
package guest

import "fescue.dev/cue/contract"

#Guest: {
	apiVersion!: "GROUP/v1", kind!: "Guest", metadata!: {name!: string, namespace?: string, ...}
	spec!: user!: string
	status?: contract.#Status
}
#GuestController: contract.#Controller & {
	object!: #Guest
	names: plural: "guests"
	children: reads: template: {
		apiVersion: "rbac.authorization.k8s.io/v1"
		kind:       "RoleBinding"
		metadata: name: object.metadata.name
		subjects: [{kind: "User", apiGroup: "rbac.authorization.k8s.io", name: object.spec.user}]
		roleRef: {kind: "ClusterRole", apiGroup: "rbac.authorization.k8s.io", name: "ROLE"}
	}
}
`

var roleBindings = schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "rolebindings"}

// guests are a test's own kind that binds a ClusterRole of the test.
type guests struct {
	*spreads
	dir, role string
}

func newGuests(t *testing.T) *guests {
	t.Helper()
	s := newSpreads(t)
	s.Resource = "guests"
	s.deleteCRDs("guests." + s.Group)
	account := "reads-secrets" // which only gives the role its name
	s.clusterRole(account, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}})
	g := &guests{spreads: s, role: s.namespace + "-" + account}
	g.dir, _ = writeKind(t, strings.NewReplacer("GROUP", s.Group, "ROLE", g.role).Replace(guestKind))
	return g
}

// A kind with RoleBindings to one role runs with the rights that fescue manifests prints, and the API server rejects
// its children without the right to bind that role.
func TestRightToBind(t *testing.T) {
	t.Parallel()
	g := newGuests(t)
	use := watchRights(g.proxy)
	g.start("--kinds", g.dir)
	g.create(g.GroupVersionResource, "Guest", "x", map[string]any{"spec": map[string]any{"user": "bob"}})
	g.awaitReady(g.GroupVersionResource, "x")
	require.Empty(t, use.missingAny())

	bind := install.Right{Group: rbacv1.GroupName, Resource: "clusterroles", Verb: "bind", Name: g.role}
	require.Contains(t, g.rightsTo("clusterroles"), bind)
	g.grant(without(t, g.granted, bind))
	g.delete(roleBindings, "x")
	g.await(g.GroupVersionResource, "x", "stalled", func(o *unstructured.Unstructured) bool {
		_, _, message := condition(o, "Stalled")
		return strings.Contains(message, "attempting to grant RBAC permissions not currently held")
	})
}

// Who may create RoleBindings, but not bind a role, does not get it bound by an object. It is not parallel, because
// there is one configuration of webhooks for all namespaces.
func TestBindingForOthersIsDenied(t *testing.T) {
	g := newGuests(t)
	flags, _ := g.webhookURLFlags()
	g.start(append(flags, "--kinds", g.dir)...)
	g.awaitRegistration()
	ada := g.ada(map[string][]rbacv1.PolicyRule{g.namespace: {
		{APIGroups: []string{g.Group}, Resources: []string{"guests"}, Verbs: []string{"create"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"rolebindings"}, Verbs: []string{"create"}},
	}})
	submit := func(options metav1.CreateOptions) error {
		_, err := g.createBy(ada, g.GroupVersionResource, "Guest", "x", map[string]any{"user": "ada-" + g.namespace}, options)
		return err
	}
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		err = submit(dryRun)
		return err != nil && !strings.Contains(err.Error(), "cannot create")
	}), "%v", err)
	err = submit(metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf(`user "ada-%s" cannot bind resource "clusterroles" named %q in API group "rbac.authorization.k8s.io" in the namespace %q, which the kind Guest does on behalf of the user`,
		g.namespace, g.role, g.namespace))

	roles := g.typed.RbacV1().ClusterRoles()
	role, err := roles.Get(t.Context(), "ada-"+g.namespace+g.namespace, metav1.GetOptions{})
	require.NoError(t, err)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{g.role}, Verbs: []string{"bind"}})
	_, err = roles.Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		err = submit(metav1.CreateOptions{})
		return err == nil
	}), "%v", err)
	g.await(roleBindings, "x", "created", exists)
}
