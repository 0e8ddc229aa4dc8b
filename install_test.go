package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/manifests"
	"github.com/fescue-dev/fescue/cue/kind"
)

// rightsKind uses every verb that kinds are granted: it has a child of each way of
// updating, and one that an if drops.
const rightsKind = `package kinds

import "fescue.dev/cue/contract"

#Thing: {
	apiVersion!: "rights.example.com/v1"
	kind!:       "Thing"
	metadata!: {...}
	spec!: {text: *"" | string, extra: *true | bool}
	status?: contract.#Status
}

#ThingController: contract.#Controller & {
	object!: #Thing
	names: plural: "things"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		applied: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}
		if object.spec.extra {
			extra: template: {apiVersion: "v1", kind: "ConfigMap"}
		}
	}
}
`

// writeKind writes a folder of kinds and loads it.
func writeKind(t *testing.T, text string) (dir string, kinds []*kind.Kind) {
	t.Helper()
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kinds.cue"), []byte(text), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	return dir, kinds
}

// serviceAccount makes one with a role in the namespace, which may be changed later, and
// returns a configuration with its token.
func (c *cluster) serviceAccount(name string, rules []rbacv1.PolicyRule) *rest.Config {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(restConfig(c.t))
	require.NoError(c.t, err)
	meta := metav1.ObjectMeta{Name: name, Namespace: c.namespace}
	_, err = client.CoreV1().ServiceAccounts(c.namespace).Create(c.t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = client.RbacV1().Roles(c.namespace).Create(c.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = client.RbacV1().RoleBindings(c.namespace).Create(c.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: c.namespace}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	token, err := client.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	config := rest.AnonymousClientConfig(restConfig(c.t))
	config.BearerToken = token.Status.Token
	return config
}

// rolesOf are the rules that an installation grants in the namespace for kinds, and
// those that it grants where it lives itself.
func (c *cluster) rolesOf(kinds []*kind.Kind) (work, own []rbacv1.PolicyRule) {
	c.t.Helper()
	parts, err := manifests.Parts(kinds, manifests.Options{Image: "fescue", Namespaces: []string{c.namespace}})
	require.NoError(c.t, err)
	for _, object := range manifests.Objects(parts) {
		if object.GetKind() != "Role" {
			continue
		}
		if object.GetNamespace() == c.namespace {
			work = rulesOf(c.t, object)
		} else {
			own = rulesOf(c.t, object)
		}
	}
	require.NotEmpty(c.t, work)
	require.NotEmpty(c.t, own)
	return work, own
}

// What a kind lacks stops neither the process nor other kinds, is one list in the log,
// and when it is there the kind starts.
func TestKindStartsWhenItsCRDAndRightsAreThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	late := strings.NewReplacer("rights.example.com", "late.example.com").Replace(rightsKind)
	dir, kinds := writeKind(t, late)
	rules, _ := c.rolesOf(shipped)
	o := c.launchAs(c.serviceAccount("fescue", rules), "--kinds", dir)
	o.awaitLog("kind=At group=cnat.fescue.dev workers=")
	o.awaitLog("kinds are not run until what they need is there")
	var line string
	for text := range strings.Lines(o.log.String()) {
		if strings.Contains(text, "kinds are not run") {
			line = text
		}
	}
	require.Contains(t, line, "kinds=1")
	require.Contains(t, line, "kind Thing: the API server does not serve things.late.example.com: install the CRDs")
	require.Contains(t, line, "missing rights: list things.late.example.com in "+c.namespace+", watch things.late.example.com in "+c.namespace+", update things.late.example.com/finalizers")
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")

	require.NoError(t, crds.Install(t.Context(), c.client, kinds))
	rules, _ = c.rolesOf(append(shipped, kinds...))
	patch, err := json.Marshal(map[string]any{"rules": rules})
	require.NoError(t, err)
	c.patch(rbacv1.SchemeGroupVersion.WithResource("roles"), "fescue", string(patch))
	o.awaitLog("kind=Thing group=late.example.com workers=")
	require.Zero(t, o.stop())
}

// The plurals that `fescue manifests` finds without a cluster are those of the API server.
func TestPluralsOfBuiltInTypes(t *testing.T) {
	t.Parallel()
	client, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	require.NoError(t, err)
	compared := 0
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		require.NoError(t, err)
		for _, served := range list.APIResources {
			gvk := gv.WithKind(served.Kind)
			if strings.Contains(served.Name, "/") || !scheme.Scheme.Recognizes(gvk) {
				continue
			}
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			require.Equal(t, served.Name, plural.Resource, gvk)
			compared++
		}
	}
	require.Greater(t, compared, 50)
}
