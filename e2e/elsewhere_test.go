package e2e

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// spreadKind is a cluster-scoped kind with a ConfigMap in each namespace that its objects name. GROUP is
// replaced, and MORE by other children.
const spreadKind = `
package spread

import "fescue.dev/cue/contract"

#Spread: {
	apiVersion!: "GROUP/v1", kind!: "Spread", metadata!: {name!: string, ...}
	spec: {namespaces: *[] | [...string], text: *"1" | string}
	status?: contract.#Status
}
#SpreadController: contract.#Controller & {
	object!: #Spread
	observed: _
	names: plural: "spreads"
	scope: "Cluster"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, OWNS]
	children: {
		for n in object.spec.namespaces {
			"in-\(n)": template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: object.metadata.name, namespace: n}, data: text: object.spec.text}
		}
		MORE
	}
}
`

// spreads are a test's own cluster-scoped kind. root is for objects without a namespace, and a and b are for
// namespaces in which they may have children.
type spreads struct {
	*cluster
	schema.GroupVersionResource
	root, a, b *cluster
}

func newSpreads(t *testing.T) *spreads {
	t.Helper()
	c := newCluster(t)
	c.everywhere = true
	group := c.group()
	s := &spreads{
		cluster: c, GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "spreads"},
		root: newClients(t, ""), a: newClients(t, testcluster.Namespace(t)), b: newClients(t, testcluster.Namespace(t)),
	}
	c.deleteCRDs("spreads." + group)
	return s
}

func (s *spreads) kind(more string) (dir string) {
	owns := ""
	if strings.Contains(more, "Secret") {
		owns = `{apiVersion: "v1", kind: "Secret"}`
	}
	dir, _ = writeKind(s.t, strings.NewReplacer("GROUP", s.Group, "MORE", more, "OWNS", owns).Replace(spreadKind))
	return dir
}

// make creates an object with children in namespaces.
func (s *spreads) make(name string, in ...*cluster) {
	s.t.Helper()
	s.root.create(s.GroupVersionResource, "Spread", name, map[string]any{"spec": map[string]any{"namespaces": namespacesOf(in)}})
}

// move changes the namespaces and the text of an object.
func (s *spreads) move(name, text string, in ...*cluster) {
	s.t.Helper()
	names := strings.Join(strings.Fields(fmt.Sprintf("%q", namespacesOf(in))), ",")
	s.root.patch(s.GroupVersionResource, name, fmt.Sprintf(`{"spec":{"namespaces":%s,"text":%q}}`, names, text))
}

func namespacesOf(in []*cluster) []any {
	names := make([]any, len(in))
	for i, c := range in {
		names[i] = c.namespace
	}
	return names
}

func hasText(text string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		got, _, _ := unstructured.NestedString(o.Object, "data", "text")
		return got == text
	}
}

// Children in other namespaces are kept in place as those in the object's own are, with the rights that
// fescue manifests prints and no others.
func TestClusterKindKeepsItsChildren(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	use := watchRights(s.proxy)
	s.start("--kinds", s.kind(`set: {replicas: 2, template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: "\(object.metadata.name)-set", namespace: [for n in object.spec.namespaces {n}, "default"][0]}}}`))
	s.make("x", s.a, s.b)
	object := s.root.awaitReady(s.GroupVersionResource, "x")
	child, err := s.a.get(configMaps, "x")
	require.NoError(t, err)
	require.Equal(t, "ConfigMap/x@"+s.a.namespace+"/in-"+s.a.namespace, child.GetAnnotations()["fescue.dev/created-as"])
	require.Equal(t, object.GetUID(), metav1.GetControllerOf(child).UID)
	require.Len(t, s.a.list(configMaps, "fescue.dev/child=set"), 2)

	// What someone changes, takes the labels from, or deletes.
	s.b.patch(configMaps, "x", `{"data":{"text":"other"}}`)
	s.b.await(configMaps, "x", "corrected", hasText("1"))
	s.b.patch(configMaps, "x", `{"metadata":{"labels":null}}`)
	s.b.await(configMaps, "x", "labelled", func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/owner-uid"] != "" })
	s.a.delete(configMaps, "x")
	s.a.await(configMaps, "x", "created again", func(o *unstructured.Unstructured) bool { return o.GetUID() != child.GetUID() })
	s.a.delete(configMaps, s.a.list(configMaps, "fescue.dev/child=set")[0].GetName())
	require.True(t, testcluster.WaitUntil(func() bool { return len(s.a.list(configMaps, "fescue.dev/child=set")) == 2 }))

	// A copy in another namespace is no child, and what has the name of one is left alone.
	original, err := s.b.get(configMaps, "x")
	require.NoError(t, err)
	original.SetNamespace(s.namespace)
	original.SetResourceVersion("")
	original.SetUID("")
	copied, err := s.objects(configMaps).Create(t.Context(), original, metav1.CreateOptions{})
	require.NoError(t, err)
	s.root.awaitEvent("x", "ForeignObject")
	s.b.create(configMaps, "ConfigMap", "y", nil)
	s.make("y", s.a, s.b)
	_, reason, message := s.root.awaitStalled(s.GroupVersionResource, "y")
	require.Equal(t, "ChildRejected", reason)
	require.Contains(t, message, fmt.Sprintf(`configmaps "%s/y" exists and was not created for this object`, s.b.namespace))
	s.requireUntouched(configMaps, copied)

	// A template that drops its namespace's child, and one whose set moves.
	s.move("x", "2", s.b)
	s.b.await(configMaps, "x", "changed", hasText("2"))
	require.True(t, testcluster.WaitUntil(func() bool {
		return len(s.a.list(configMaps, "fescue.dev/child=set,fescue.dev/owner-uid="+string(object.GetUID()))) == 0 && len(s.b.list(configMaps, "fescue.dev/child=set")) == 2
	}))

	// Only an API server that does not stream lists is asked for one.
	require.Empty(t, use.unused(s.rightsTo("configmaps")).Delete(install.Right{Resource: "configmaps", Verb: "list"}))
	require.Empty(t, use.missingAny())
}

// rightsTo returns the rights that the operator has to resources.
func (s *spreads) rightsTo(resources ...string) sets.Set[install.Right] {
	s.t.Helper()
	all := flatten(nil)
	for _, object := range s.granted {
		for right := range flatten(rulesOf(s.t, object)) {
			if slices.Contains(resources, right.Resource) {
				all.Insert(right)
			}
		}
	}
	return all
}

// What a kind no longer has goes in all namespaces, and so do the children of an object that is deleted while no
// operator runs. One that refuses to go keeps nothing else.
func TestClusterKindDropsChildren(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	secret := fmt.Sprintf(`secret: template: {apiVersion: "v1", kind: "Secret", metadata: {name: object.metadata.name, namespace: %q}}`, s.a.namespace)
	o := s.start("--kinds", s.kind(secret))
	s.make("x", s.a, s.b)
	s.root.awaitReady(s.GroupVersionResource, "x")
	s.a.await(secrets, "x", "created", exists)
	o.kill()
	o = s.start("--kinds", s.kind(""))
	s.a.awaitGone(secrets, "x")
	s.a.patch(configMaps, "x", `{"metadata":{"finalizers":["example.com/stays"]}}`)
	o.kill()

	s.root.delete(s.GroupVersionResource, "x")
	s.root.awaitGone(s.GroupVersionResource, "x")
	s.b.awaitGone(configMaps, "x")
	s.a.patch(configMaps, "x", `{"metadata":{"finalizers":null}}`)
	s.a.awaitGone(configMaps, "x")
}

// ada returns a client of a user with rights by namespace; those of no namespace are for all.
func (s *spreads) ada(rights map[string][]rbacv1.PolicyRule) dynamic.Interface {
	s.t.Helper()
	name := "ada-" + s.namespace
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
	api := s.typed.RbacV1()
	for namespace, rules := range rights {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name + namespace}, Rules: rules}
		_, err := api.ClusterRoles().Create(s.t.Context(), role, metav1.CreateOptions{})
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = api.ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{}) })
		meta, reference := metav1.ObjectMeta{Name: name}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
		if namespace != "" {
			_, err = api.RoleBindings(namespace).Create(s.t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
			require.NoError(s.t, err)
			continue
		}
		_, err = api.ClusterRoleBindings().Create(s.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		require.NoError(s.t, err)
		s.t.Cleanup(func() { _ = api.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
	config := testcluster.Config(s.t)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	ada, err := dynamic.NewForConfig(config)
	require.NoError(s.t, err)
	return ada
}

// Who may create objects of a cluster-scoped kind, and children in one namespace, gets children in no other: not by
// a new object, by a change of one, nor by a kind whose namespaces follow from what others write.
func TestChildrenInNamespacesOfOthersAreDenied(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	flags, _ := s.webhookURLFlags()
	s.start(append(flags, "--kinds", s.kind(`if object.status.observedGeneration > 1 {later: template: {apiVersion: "v1", kind: "Secret", metadata: {name: "x", namespace: "kube-system"}}}`))...)
	s.awaitRegistration()
	create := []string{"create"}
	ada := s.ada(map[string][]rbacv1.PolicyRule{
		"": {
			{APIGroups: []string{s.Group}, Resources: []string{"spreads"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
		},
		s.a.namespace: {{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: create}},
	})
	make := func(options metav1.CreateOptions, in ...*cluster) error {
		_, err := s.root.createBy(ada, s.GroupVersionResource, "Spread", "x", map[string]any{"namespaces": namespacesOf(in)}, options)
		return err
	}
	denied := func(err error, resource, where string) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf(`cannot create resource %q in API group "" %s, which the kind Spread does on behalf of the user`, resource, where))
	}
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		err = make(dryRun, s.a)
		return err != nil && strings.Contains(err.Error(), "at the cluster scope") && !strings.Contains(err.Error(), "configmaps")
	}), "%v", err)
	denied(err, "secrets", "at the cluster scope") // it depends on the status
	denied(make(dryRun, s.b, s.a), "configmaps", fmt.Sprintf(`in the namespace %q; user "ada-%s" cannot create resource "secrets" in API group "" at the cluster scope`, s.b.namespace, s.namespace))

	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: create}
	role, err := s.typed.RbacV1().ClusterRoles().Get(t.Context(), "ada-"+s.namespace, metav1.GetOptions{})
	require.NoError(t, err)
	role.Rules = append(role.Rules, rule)
	_, err = s.typed.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.True(t, testcluster.WaitUntil(func() bool {
		err = make(metav1.CreateOptions{}, s.a)
		return err == nil
	}), "%v", err)
	s.a.await(configMaps, "x", "created", exists)
	_, err = ada.Resource(s.GroupVersionResource).Patch(t.Context(), "x", types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"namespaces":[%q,%q]}}`, s.a.namespace, s.b.namespace)), metav1.PatchOptions{})
	denied(err, "configmaps", fmt.Sprintf("in the namespace %q", s.b.namespace))
}

// cleanKind has ConfigMaps in the namespaces that an object names, a ClusterRole, and one of its own. GROUP is replaced,
// and MORE by what else it has.
const cleanKind = `
package clean

import "fescue.dev/cue/contract"

#Clean: {
	apiVersion!: "GROUP/v1", kind!: "Clean", metadata!: {name!: string, namespace?: string, ...}
	spec: {namespaces: *[] | [...string], text: *"1" | string, role: *false | bool}
	status?: contract.#Status
}
#CleanController: contract.#Controller & {
	object!: #Clean
	observed: _
	names: plural: "cleans"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole"}]
	children: {
		own: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}
		for n in object.spec.namespaces {
			"in-\(n)": template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: object.metadata.name, namespace: n}, data: text: object.spec.text}
		}
		if object.spec.role {role: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: name: "\(object.metadata.namespace)-\(object.metadata.name)", rules: []}}
	}
	MORE
}
`

var clusterRoles = schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "clusterroles"}

// cleans are a test's own kind with children in other namespaces.
type cleans struct{ *spreads }

func newCleans(t *testing.T) *cleans {
	t.Helper()
	s := newSpreads(t)
	s.Resource = "cleans"
	s.deleteCRDs("cleans." + s.Group)
	return &cleans{s}
}

func (c *cleans) kind(more string) (dir string) {
	dir, _ = writeKind(c.t, strings.NewReplacer("GROUP", c.Group, "MORE", more).Replace(cleanKind))
	return dir
}

func (c *cleans) make(name string, role bool, in ...*cluster) {
	c.t.Helper()
	c.create(c.GroupVersionResource, "Clean", name, map[string]any{"spec": map[string]any{"namespaces": namespacesOf(in), "role": role}})
}

func (c *cleans) move(name, text string, in ...*cluster) {
	c.t.Helper()
	names := strings.Join(strings.Fields(fmt.Sprintf("%q", namespacesOf(in))), ",")
	c.patch(c.GroupVersionResource, name, fmt.Sprintf(`{"spec":{"namespaces":%s,"text":%q}}`, names, text))
}

// places returns the namespaces that the status of an object lists.
func places(object *unstructured.Unstructured) (names []string) {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "childInventory", "elsewhere")
	for _, item := range list {
		names = append(names, item.(map[string]any)["namespace"].(string))
	}
	return names
}

// Children in other namespaces are kept in place, and only those: what someone there gives the labels of a child is
// none. An object waits for a child that refuses to go. The rights that fescue manifests prints are needed for that, and
// no others.
func TestElsewhereKeepsItsChildren(t *testing.T) {
	t.Parallel()
	c := newCleans(t)
	use := watchRights(c.proxy)
	c.start("--kinds", c.kind(""))
	c.make("x", true, c.a)
	object := c.awaitReady(c.GroupVersionResource, "x")
	require.Equal(t, []string{"", c.a.namespace}, places(object))
	require.Equal(t, []string{"fescue.dev/on-delete"}, object.GetFinalizers())
	child, err := c.a.get(configMaps, "x")
	require.NoError(t, err)
	require.Empty(t, child.GetOwnerReferences())

	c.a.patch(configMaps, "x", `{"data":{"text":"other"}}`)
	c.a.await(configMaps, "x", "corrected", hasText("1"))
	c.a.patch(configMaps, "x", `{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`)
	c.a.await(configMaps, "x", "labelled", func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/owner-uid"] != "" })
	c.a.delete(configMaps, "x")
	c.a.await(configMaps, "x", "created again", func(o *unstructured.Unstructured) bool { return o.GetUID() != child.GetUID() })

	role := c.namespace + "-x"
	c.root.patch(clusterRoles, role, `{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`)
	c.root.await(clusterRoles, role, "labelled", func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/owner-uid"] != "" })

	// Someone who may write in the namespace b makes a child of it.
	forged := child.DeepCopy()
	forged.SetNamespace(c.b.namespace)
	forged.SetResourceVersion("")
	forged.SetUID("")
	annotations := forged.GetAnnotations()
	annotations["fescue.dev/created-as"] = "ConfigMap/x@" + c.b.namespace + "/in-" + c.a.namespace
	forged.SetAnnotations(annotations)
	forged, err = c.b.objects(configMaps).Create(t.Context(), forged, metav1.CreateOptions{})
	require.NoError(t, err)
	c.patch(c.GroupVersionResource, "x", `{"spec":{"text":"2"}}`)
	c.a.await(configMaps, "x", "changed", hasText("2"))
	c.b.requireUntouched(configMaps, forged)

	c.root.patch(clusterRoles, role, `{"metadata":{"finalizers":["example.com/stays"]}}`)
	c.a.patch(configMaps, "x", `{"metadata":{"finalizers":["example.com/stays"]}}`)
	c.delete(c.GroupVersionResource, "x")
	c.await(c.GroupVersionResource, "x", "waiting", func(o *unstructured.Unstructured) bool {
		_, _, message := condition(o, "Deleting")
		return message == fmt.Sprintf(`waiting until ClusterRole %q and 1 more are gone`, role)
	})
	c.root.patch(clusterRoles, role, `{"metadata":{"finalizers":null}}`)
	c.await(c.GroupVersionResource, "x", "waiting", func(o *unstructured.Unstructured) bool {
		_, _, message := condition(o, "Deleting")
		return message == fmt.Sprintf(`waiting until ConfigMap "%s/x" is gone`, c.a.namespace)
	})
	c.a.patch(configMaps, "x", `{"metadata":{"finalizers":null}}`)
	c.awaitGone(c.GroupVersionResource, "x")
	c.b.requireUntouched(configMaps, forged)
	_, err = c.root.get(clusterRoles, role)
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.Empty(t, use.unused(c.rightsTo("configmaps", "clusterroles", "cleans", "cleans/status")))
	require.Empty(t, use.missingAny())
}

// A kind that drops the children has them deleted, also of objects that are deleted before an operator sees the change.
func TestElsewhereOfAFormerKind(t *testing.T) {
	t.Parallel()
	c := newCleans(t)
	dir := c.kind("")
	o := c.start("--kinds", dir)
	c.make("lives", false, c.a)
	c.make("goes", false, c.a)
	c.awaitReady(c.GroupVersionResource, "lives")
	c.awaitReady(c.GroupVersionResource, "goes")
	o.kill()
	c.delete(c.GroupVersionResource, "goes")
	before, rest, _ := strings.Cut(cleanKind, "		for n in")
	_, after, _ := strings.Cut(rest, "rules: []}}\n")
	dir, kinds := writeKind(t, strings.NewReplacer("GROUP", c.Group, "MORE", "").Replace(before+after))
	c.installCRDs(kinds)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), c.namespace)
	out, err := exec.CommandContext(t.Context(), "fescue", "migrate", "--kubeconfig", kubeconfig, "--shipped-kinds=false", "--kinds", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "finalizer", "they have children elsewhere")
	c.start("--kinds", dir)
	c.a.awaitGone(configMaps, "lives")
	c.awaitGone(c.GroupVersionResource, "goes")
	_, err = c.a.get(configMaps, "goes")
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	c.await(c.GroupVersionResource, "lives", "places dropped", func(o *unstructured.Unstructured) bool { return len(places(o)) == 0 })
}

// Who may create objects in a namespace, and ConfigMaps in another, gets none in a third. It is not parallel, because
// there is one configuration of webhooks for all namespaces.
func TestChildrenElsewhereAreDenied(t *testing.T) {
	c := newCleans(t)
	flags, _ := c.webhookURLFlags()
	c.start(append(flags, "--kinds", c.kind(""))...)
	c.awaitRegistration()
	configs := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}
	ada := c.ada(map[string][]rbacv1.PolicyRule{
		"":            {{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"create"}}},
		c.namespace:   {{APIGroups: []string{c.Group}, Resources: []string{"cleans"}, Verbs: []string{"create", "patch"}}, configs},
		c.a.namespace: {configs},
	})
	submit := func(options metav1.CreateOptions, in ...*cluster) error {
		_, err := c.createBy(ada, c.GroupVersionResource, "Clean", "x", map[string]any{"namespaces": namespacesOf(in)}, options)
		return err
	}
	denied := func(err error) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf(`cannot create resource "configmaps" in API group "" in the namespace %q, which the kind Clean does on behalf of the user`, c.b.namespace))
	}
	var err error
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		err = submit(dryRun, c.a, c.b)
		return err != nil && strings.Contains(err.Error(), "on behalf of the user")
	}), "%v", err)
	require.True(t, testcluster.WaitUntil(func() bool {
		err = submit(metav1.CreateOptions{}, c.a)
		return err == nil
	}), "%v", err)
	denied(submit(dryRun, c.a, c.b))
	c.a.await(configMaps, "x", "created", exists)
	_, err = ada.Resource(c.GroupVersionResource).Namespace(c.namespace).Patch(t.Context(), "x", types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"namespaces":[%q]}}`, c.b.namespace)), metav1.PatchOptions{})
	denied(err)
}

// crowd is a set in another namespace.
const crowd = `
	children: crowd: {ORDER replicas: 2, template: {
		apiVersion: "v1", kind: "ConfigMap"
		metadata: {name: "\(object.metadata.name)-crowd", namespace: object.spec.text}
	}}
`

// Members of sets elsewhere are restored, and go with their object, as single children are.
func TestElsewhereRestoresDamagedMembers(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]string{"set": "", "ordered": "ordered: true,"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCleans(t)
			dir := c.kind(strings.ReplaceAll(crowd, "ORDER", order))
			o := c.start("--kinds", dir)
			members := func(name string) map[types.UID]*unstructured.Unstructured {
				list, err := c.a.objects(configMaps).List(t.Context(), metav1.ListOptions{})
				require.NoError(t, err)
				found := make(map[types.UID]*unstructured.Unstructured)
				for i := range list.Items {
					if strings.HasPrefix(list.Items[i].GetName(), name+"-crowd-") {
						found[list.Items[i].GetUID()] = &list.Items[i]
					}
				}
				return found
			}
			before := make(map[string]map[types.UID]*unstructured.Unstructured)
			for name := range damages {
				c.create(c.GroupVersionResource, "Clean", name, map[string]any{"spec": map[string]any{"text": c.a.namespace}})
				c.awaitReady(c.GroupVersionResource, name)
				before[name] = members(name)
				require.Len(t, before[name], 2)
			}
			damageAll := func() {
				for name, damage := range damages {
					for _, member := range before[name] {
						c.a.patch(configMaps, member.GetName(), damage)
					}
				}
			}
			restored := func(when string) {
				for name := range damages {
					require.True(t, testcluster.WaitUntil(func() bool {
						return maps.EqualFunc(before[name], members(name), func(a, b *unstructured.Unstructured) bool {
							return maps.Equal(a.GetLabels(), b.GetLabels()) && b.GetAnnotations()["fescue.dev/created-as"] == a.GetAnnotations()["fescue.dev/created-as"]
						})
					}), "%s: %s: %v", when, name, members(name))
				}
			}
			damageAll()
			restored("running")
			o.kill()
			damageAll()
			o = c.start("--kinds", dir)
			restored("after a start")
			o.kill()
			damageAll()
			for name := range damages {
				c.delete(c.GroupVersionResource, name)
			}
			c.start("--kinds", dir)
			for name := range damages {
				c.awaitGone(c.GroupVersionResource, name)
				require.Empty(t, members(name), name)
			}
		})
	}
}

// A child elsewhere that others took, or that lost all marks, while no operator ran is reported. It is left alone.
func TestLostChildrenElsewhereAreReported(t *testing.T) {
	t.Parallel()
	c := newCleans(t)
	dir := c.kind("")
	o := c.start("--kinds", dir)
	holder := c.a.create(configMaps, "ConfigMap", "holder", nil)
	losses := map[string]string{
		"taken":    fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"holder","uid":%q,"controller":true}]}}`, holder.GetUID()),
		"unmarked": `{"metadata":{"labels":null,"annotations":null}}`,
	}
	for name := range losses {
		for _, then := range []string{"kept", "dropped", "deleted"} {
			c.make(name+"-"+then, false, c.a)
			c.awaitReady(c.GroupVersionResource, name+"-"+then)
		}
	}
	o.kill()
	lost := make(map[string]*unstructured.Unstructured)
	for name, loss := range losses {
		for _, then := range []string{"kept", "dropped", "deleted"} {
			c.a.patch(configMaps, name+"-"+then, loss)
			child, err := c.a.get(configMaps, name+"-"+then)
			require.NoError(t, err)
			lost[name+"-"+then] = child
		}
		c.move(name+"-dropped", "1")
		c.delete(c.GroupVersionResource, name+"-deleted")
	}
	c.start("--kinds", dir)
	for name := range losses {
		_, reason, _ := c.awaitStalled(c.GroupVersionResource, name+"-kept")
		require.Equal(t, "ChildRejected", reason)
		require.Contains(t, c.eventNote(name+"-dropped", "ForeignObject"), "was created as a child, and")
		c.awaitGone(c.GroupVersionResource, name+"-deleted")
		require.Contains(t, c.eventNote(name+"-deleted", "ForeignObject"), "it is neither changed nor deleted")
	}
	for _, child := range lost {
		c.a.requireUntouched(configMaps, child)
	}
}

// Nobody but the operator changes where the children of an object are recorded. Other writes of the status pass.
func TestRecordsOfChildrenAreTheOperators(t *testing.T) {
	t.Parallel()
	c := newCleans(t)
	flags, _ := c.webhookURLFlags()
	c.start(append(flags, "--kinds", c.kind(""))...)
	c.awaitRegistration()
	c.make("x", false, c.a)
	c.awaitReady(c.GroupVersionResource, "x")
	write := func(patch string, o metav1.PatchOptions) error {
		_, err := c.objects(c.GroupVersionResource).Patch(t.Context(), "x", types.MergePatchType, []byte(patch), o, "status")
		return err
	}
	for _, patch := range []string{
		`{"status":null}`,
		`{"status":{"childInventory":null}}`,
		`{"status":{"childInventory":{"elsewhere":null}}}`,
		`{"status":{"childInventory":{"elsewhere":[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","children":{"a":"b"}}]}}}`,
		`{"status":{"childInventory":{"orphaned":true}}}`,
	} {
		err := write(patch, metav1.PatchOptions{})
		require.True(t, apierrors.IsInvalid(err), "%s: %v", patch, err)
		require.ErrorContains(t, err, "status.childInventory: Forbidden: only the account of the operator may change it")
		require.True(t, apierrors.IsInvalid(write(patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})), patch)
	}
	require.NoError(t, write(`{"status":{"observedGeneration":0}}`, metav1.PatchOptions{}))
	c.move("x", "2", c.b)
	c.b.await(configMaps, "x", "created", hasText("2"))
	c.a.awaitGone(configMaps, "x")
	c.delete(c.GroupVersionResource, "x")
	c.awaitGone(c.GroupVersionResource, "x")
	c.b.awaitGone(configMaps, "x")
}

// damages take marks off a child in another namespace. A child that has lost some is restored, and goes with its object.
var damages = map[string]string{
	"record":      `{"metadata":{"annotations":{"fescue.dev/created-as":null}}}`,
	"labels":      `{"metadata":{"labels":null}}`,
	"annotations": `{"metadata":{"annotations":null}}`,
	"all-but-one": `{"metadata":{"labels":null,"annotations":{"fescue.dev/created-as":null}}}`,
	"changed":     `{"metadata":{"labels":{"fescue.dev/owner-uid":"other"}}}`,
}

// A child elsewhere that lost marks, or has a label of others, is restored, whether an operator runs then or not. It goes with its
// object, also if it is damaged while none runs. One that lost all is reported, and left alone.
func TestElsewhereRestoresDamagedChildren(t *testing.T) {
	t.Parallel()
	c := newCleans(t)
	dir := c.kind("")
	o := c.start("--kinds", dir)
	original := make(map[string]*unstructured.Unstructured)
	for name := range damages {
		c.make(name, false, c.a)
	}
	c.make("all", false, c.a)
	for name := range damages {
		c.awaitReady(c.GroupVersionResource, name)
		child, err := c.a.get(configMaps, name)
		require.NoError(t, err)
		original[name] = child
	}
	isRestored := func(name string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			own, annotations := original[name], o.GetAnnotations()
			return o.GetUID() == own.GetUID() && maps.Equal(o.GetLabels(), own.GetLabels()) && annotations["fescue.dev/owner"] == own.GetAnnotations()["fescue.dev/owner"] &&
				annotations["fescue.dev/created-as"] == own.GetAnnotations()["fescue.dev/created-as"]
		}
	}
	for name, damage := range damages {
		c.a.patch(configMaps, name, damage)
		c.a.await(configMaps, name, "restored", isRestored(name))
	}

	o.kill()
	for name, damage := range damages {
		c.a.patch(configMaps, name, damage)
	}
	o = c.start("--kinds", dir)
	for name := range damages {
		c.a.await(configMaps, name, "restored after a start", isRestored(name))
	}

	o.kill()
	for name, damage := range damages {
		c.a.patch(configMaps, name, damage)
		c.delete(c.GroupVersionResource, name)
	}
	c.a.patch(configMaps, "all", `{"metadata":{"labels":null,"annotations":null}}`)
	c.start("--kinds", dir)
	for name := range damages {
		c.awaitGone(c.GroupVersionResource, name)
		_, err := c.a.get(configMaps, name)
		require.True(t, apierrors.IsNotFound(err), "%s: %v", name, err)
	}
	_, reason, message := c.awaitStalled(c.GroupVersionResource, "all")
	require.Equal(t, "ChildRejected", reason)
	require.Contains(t, message, `exists and was not created for this object`)
	_, err := c.a.get(configMaps, "all")
	require.NoError(t, err)
}
