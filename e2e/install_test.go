package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testcluster"
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
	client, err := kubernetes.NewForConfig(testcluster.Config(c.t))
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
	config := rest.AnonymousClientConfig(testcluster.Config(c.t))
	config.BearerToken = token.Status.Token
	return config
}

// rolesOf are the rules that an installation grants in the namespace for kinds, and
// those that it grants where it lives itself.
func (c *cluster) rolesOf(kinds []*kind.Kind) (work, own []rbacv1.PolicyRule) {
	c.t.Helper()
	parts, err := install.Parts(kinds, install.Options{Image: "fescue", Namespaces: []string{c.namespace}})
	require.NoError(c.t, err)
	for _, object := range install.Objects(parts) {
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
	o.awaitLog("kinds wait for what they need")
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
	client, err := kubernetes.NewForConfig(testcluster.Config(t))
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

// warnings are what the API server says beside its answers.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// Everything that `fescue manifests` prints is accepted where Pod Security enforces its
// restricted profile, and so are the Pods that come of it; the namespace that it prints does
// that itself.
func TestManifestsAreRestricted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, kinds := writeKind(t, rightsKind)
	source := install.Source{"kinds.cue": rightsKind}
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	o := c.installation(true)
	o.InstallCRDs = true
	parts, err := o.parts(append(shipped, kinds...), []install.Source{source})
	require.NoError(t, err)
	var heard warnings
	config := testcluster.Config(t)
	config.WarningHandler = &heard
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)

	dryRun := []string{metav1.DryRunAll}
	workloads := 0
	for _, object := range install.Objects(parts) {
		options := metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun}
		switch object.GetKind() {
		case "Namespace", "ServiceAccount": // which the others need
			options.DryRun = nil
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object, options)
		require.NoError(t, err, "%s %s", object.GetKind(), object.GetName())
		template, found, err := unstructured.NestedMap(object.Object, "spec", "template")
		require.NoError(t, err)
		if !found {
			continue
		}
		workloads++
		pod := &unstructured.Unstructured{Object: template}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		pod.SetName("p")
		create := func() error {
			_, err := client.Resource(pods).Namespace(object.GetNamespace()).Create(t.Context(), pod, metav1.CreateOptions{DryRun: dryRun})
			return err
		}
		require.NoError(t, create())
		unstructured.RemoveNestedField(pod.Object, "spec", "securityContext", "seccompProfile")
		require.ErrorContains(t, create(), `violates PodSecurity "restricted:latest": seccompProfile`)
	}
	require.Equal(t, 1, workloads)
	require.Empty(t, heard.said)
}
