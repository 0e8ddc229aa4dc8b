package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// teamKind is a self-service kind whose objects are namespaces in which a role is bound, and put a ConfigMap into
// another namespace if they name it. GROUP and ROLE are replaced.
const teamKind = `
package team

import "fescue.dev/cue/contract"

#Team: {
	apiVersion!: "GROUP/v1", kind!: "Team", metadata!: {name!: string, ...}
	spec: {group!: string, directory?: string}
	status?: contract.#Status
}
#TeamController: contract.#Controller & {
	object!: #Team
	names: plural: "teams"
	scope: "Cluster"
	userRights: "Kind"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		space: template: {apiVersion: "v1", kind: "Namespace", metadata: name: object.metadata.name}
		members: template: {
			apiVersion: "rbac.authorization.k8s.io/v1"
			kind:       "RoleBinding"
			metadata: {name: "members", namespace: object.metadata.name}
			subjects: [{kind: "Group", apiGroup: "rbac.authorization.k8s.io", name: object.spec.group}]
			roleRef: {kind: "ClusterRole", apiGroup: "rbac.authorization.k8s.io", name: "ROLE"}
		}
		if object.spec.directory != _|_ {
			entry: template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: object.metadata.name, namespace: object.spec.directory}}
		}
	}
}
`

// A user who can only create objects of a self-service kind gets the namespaces that are children, with what is in
// them, and nothing in a namespace of someone else: neither by naming it, nor by an object of its name. It is not
// parallel, because there is one configuration of webhooks for all namespaces.
func TestSelfService(t *testing.T) {
	s := newSpreads(t)
	s.Resource = "teams"
	s.deleteCRDs("teams." + s.Group)
	s.clusterRole("lists", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}})
	dir, _ := writeKind(t, strings.NewReplacer("GROUP", s.Group, "ROLE", s.namespace+"-lists").Replace(teamKind))
	flags, _ := s.webhookURLFlags()
	s.start(append(flags, "--kinds", dir)...)
	s.awaitRegistration()
	ada := s.ada(map[string][]rbacv1.PolicyRule{"": {{APIGroups: []string{s.Group}, Resources: []string{"teams"}, Verbs: []string{"create"}}}})
	submit := func(name string, spec map[string]any, options metav1.CreateOptions) (err error) {
		spec["group"] = "bakers"
		_, err = s.root.createBy(ada, s.GroupVersionResource, "Team", name, spec, options)
		return err
	}
	space := s.namespace + "-team"
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		err = submit(space, map[string]any{}, dryRun)
		return err == nil
	}), "%v", err)
	require.NoError(t, submit(space, map[string]any{"directory": space}, metav1.CreateOptions{}))
	s.root.awaitReady(s.GroupVersionResource, space)
	within := newClients(t, space)
	for resource, name := range map[schema.GroupVersionResource]string{roleBindings: "members", configMaps: space} {
		_, err = within.get(resource, name)
		require.NoError(t, err)
	}

	other := space + "-2"
	require.NoError(t, submit(other, map[string]any{"directory": s.a.namespace}, metav1.CreateOptions{}))
	_, reason, message := s.root.awaitStalled(s.GroupVersionResource, other)
	require.Equal(t, "ChildRejected", reason)
	require.Contains(t, message, fmt.Sprintf(`child "entry": metadata.namespace: Forbidden: %q is neither the object's namespace nor a child of it`, s.a.namespace))
	_, err = s.a.get(configMaps, other)
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	require.NoError(t, submit(s.b.namespace, map[string]any{}, metav1.CreateOptions{}))
	_, reason, message = s.root.awaitStalled(s.GroupVersionResource, s.b.namespace)
	require.Equal(t, "ChildRejected", reason)
	require.Contains(t, message, fmt.Sprintf("namespaces %q exists and was not created for this object", s.b.namespace))
	_, err = s.b.get(roleBindings, "members")
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	for _, name := range []string{space, other, s.b.namespace} {
		s.root.delete(s.GroupVersionResource, name)
		s.root.awaitGone(s.GroupVersionResource, name)
	}
	for _, name := range []string{space, other} {
		s.root.awaitGone(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, name)
	}
}
