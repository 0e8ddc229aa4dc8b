package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/internal/testcluster"
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
	group := strings.ReplaceAll(c.namespace, "-", "") + ".example.com"
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

// A cluster-scoped object has its children, in each namespace once, whenever the operator is killed, and they go
// when the spec drops them and with the object.
func TestClusterKindKilledAfterAnyWrite(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	dir := s.kind("")
	s.start("--kinds", dir).kill()
	for n := int64(1); ; n++ {
		name := fmt.Sprintf("killed-%d", n)
		o := s.launch("--kinds", dir)
		s.proxy.writes.Store(0)
		hook := func(written int64) {
			if written == n {
				_ = o.cmd.Process.Kill()
			}
		}
		s.proxy.afterWrite.Store(&hook)
		s.make(name, s.a, s.b)
		wasKilled, moved := false, false
		require.True(t, testcluster.WaitUntil(func() bool {
			wasKilled = o.hasEnded()
			object, err := s.root.get(s.GroupVersionResource, name)
			if wasKilled || err != nil || !isTrue(object, "Ready") {
				return wasKilled
			}
			if !moved {
				moved = true
				s.move(name, "2", s.b)
			}
			_, errA := s.a.get(configMaps, name)
			inB, errB := s.b.get(configMaps, name)
			return apierrors.IsNotFound(errA) && errB == nil && hasText("2")(inB)
		}), "neither killed nor done")
		s.proxy.afterWrite.Store(nil)
		o.kill()
		if !moved {
			s.move(name, "2", s.b)
		}
		o = s.start("--kinds", dir)
		s.b.await(configMaps, name, "changed", hasText("2"))
		s.a.awaitGone(configMaps, name)
		s.root.awaitReady(s.GroupVersionResource, name)
		o.kill()
		s.root.delete(s.GroupVersionResource, name)
		s.b.awaitGone(configMaps, name)
		if !wasKilled {
			require.Greater(t, n, int64(4), "it takes the writes of the children and of the status")
			return
		}
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

	all := flatten(nil)
	for _, object := range s.granted {
		for right := range flatten(rulesOf(t, object)) {
			if right.Resource == "configmaps" {
				all.Insert(right)
			}
		}
	}
	require.Empty(t, use.unused(all))
	require.Empty(t, use.missingAny())
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

// Who may create objects of a cluster-scoped kind, and children in one namespace, gets children in no other: not by
// a new object, by a change of one, nor by a kind whose namespaces follow from what others write.
func TestChildrenInNamespacesOfOthersAreDenied(t *testing.T) {
	t.Parallel()
	s := newSpreads(t)
	flags, _ := s.webhookURLFlags()
	s.start(append(flags, "--kinds", s.kind(`if object.status.observedGeneration > 1 {later: template: {apiVersion: "v1", kind: "Secret", metadata: {name: "x", namespace: "kube-system"}}}`))...)
	s.awaitRegistration()
	config := testcluster.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ada-" + s.namespace}
	ada, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	grant := func(namespace string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		name := "ada-" + s.namespace
		subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}}
		reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name + namespace}
		_, err := s.typed.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reference.Name}, Rules: rules}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, s.typed.RbacV1().ClusterRoles().Delete(context.Background(), reference.Name, metav1.DeleteOptions{}))
		})
		if namespace != "" {
			_, err = s.typed.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
			require.NoError(t, err)
			return
		}
		_, err = s.typed.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: reference, Subjects: subjects}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, s.typed.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
	}
	grant("", rbacv1.PolicyRule{APIGroups: []string{s.Group}, Resources: []string{"spreads"}, Verbs: []string{"create", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}})
	grant(s.a.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"create"}})

	make := func(options metav1.CreateOptions, in ...*cluster) error {
		_, err := s.root.createBy(ada, s.GroupVersionResource, "Spread", "x", map[string]any{"namespaces": namespacesOf(in)}, options)
		return err
	}
	denied := func(err error, resource, where string) {
		t.Helper()
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf(`cannot create resource %q in API group "" %s, which the kind Spread does on behalf of the author`, resource, where))
	}
	require.True(t, testcluster.WaitUntil(func() bool { // RBAC and the webhooks are known a little later
		err = make(dryRun, s.a)
		return err != nil && strings.Contains(err.Error(), "at the cluster scope") && !strings.Contains(err.Error(), "configmaps")
	}), "%v", err)
	denied(err, "secrets", "at the cluster scope") // it depends on the status
	denied(make(dryRun, s.b, s.a), "configmaps", fmt.Sprintf(`in the namespace %q; user "ada-%s" cannot create resource "secrets" in API group "" at the cluster scope`, s.b.namespace, s.namespace))

	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}
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
