package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

// find returns the one object of a kind and a name, or nil.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, of, called string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == of && o.GetName() == called })
	if i < 0 {
		return nil
	}
	typed := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, typed))
	return typed
}

// example returns what admission may add.
func example() *Webhooks {
	return &Webhooks{
		Port: 9443, Args: []string{"--webhook-listen=:9443"}, Service: "fescue-webhooks", Secret: "fescue-certificate",
		Configurations: []runtime.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{
			TypeMeta: typeMeta(admissionregistrationv1.SchemeGroupVersion, "ValidatingWebhookConfiguration"), ObjectMeta: objectMeta("fescue", ""),
		}},
	}
}

// The rights of the operator name every verb and resource, and name single objects where
// only one exists. CRDs may be listed: those without a kind are reported, and discovery shows all of them to everyone.
func TestRightsAreNarrow(t *testing.T) {
	t.Parallel()
	onlyByName := []string{"secrets", "leases", "customresourcedefinitions", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"}
	for name, o := range map[string]Options{
		"plain":      {},
		"namespaced": {Namespaces: []string{"b", "a", "a"}},
		"all":        {InstallCRDs: true, Webhooks: example(), MetricsAuth: true},
		"shards":     {Shards: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Image = "fescue"
			parts, err := Parts(kindtest.Shipped(t), o)
			require.NoError(t, err)
			for _, object := range Objects(parts) {
				var role rbacv1.Role // a ClusterRole has the same rules
				if !strings.HasSuffix(object.GetKind(), "Role") || object.GetLabels()["rbac.authorization.k8s.io/aggregate-to-edit"] != "" {
					continue
				}
				require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role))
				for _, rule := range role.Rules {
					require.NotContains(t, fmt.Sprint(rule.Verbs, rule.Resources, rule.APIGroups), "*")
					require.NotSubset(t, []string{"escalate", "bind", "impersonate"}, rule.Verbs)
					if slices.Equal(rule.Resources, []string{"customresourcedefinitions"}) && slices.Equal(rule.Verbs, []string{"list"}) {
						continue
					}
					if slices.ContainsFunc(rule.Resources, func(r string) bool { return slices.Contains(onlyByName, r) }) && !slices.Contains([]string{"create", "create,list"}, strings.Join(rule.Verbs, ",")) {
						require.NotEmpty(t, rule.ResourceNames, "%s: %v", object.GetName(), rule)
					}
				}
			}
		})
	}
}

// An admin may write the status, to repair an object, except of kinds whose status records where the children are:
// the operator forgets those that are not listed.
func TestWhoWritesTheStatus(t *testing.T) {
	t.Parallel()
	const text = `
package kinds

import "fescue.dev/cue/contract"

#Thing: {apiVersion!: "things.example.com/v1", kind!: "Thing", metadata!: {name!: string, namespace?: string, ...}, spec: in: *"x" | string, status?: contract.#Status}
#ThingController: contract.#Controller & {object!: #Thing, names: plural: "things", SCOPE, children: child: template: CHILD}
`
	const (
		configMap   = `{apiVersion: "v1", kind: "ConfigMap", metadata: {NAMESPACE}}`
		clusterRole = `{apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: name: object.metadata.name, rules: []}`
	)
	elsewhere := strings.ReplaceAll(configMap, "NAMESPACE", "name: object.metadata.name, namespace: object.spec.in")
	for name, tc := range map[string]struct {
		scope, child string
		records      bool
	}{
		"in its namespace":                      {"Namespaced", strings.ReplaceAll(configMap, "NAMESPACE", ""), false},
		"in others":                             {"Namespaced", elsewhere, true},
		"of the cluster":                        {"Namespaced", clusterRole, true},
		"cluster-scoped, children in some":      {"Cluster", elsewhere, true},
		"cluster-scoped, children of a cluster": {"Cluster", clusterRole, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := load.All(false, corpus.Folder(t, strings.NewReplacer("SCOPE", fmt.Sprintf("scope: %q", tc.scope), "CHILD", tc.child).Replace(text)))
			require.NoError(t, errors.Join(err, set.BrokenError()))
			parts, err := Parts(set.All(), Options{Image: "fescue"})
			require.NoError(t, err)
			want := []rbacv1.PolicyRule{{APIGroups: []string{"things.example.com"}, Resources: []string{"things/status"}, Verbs: []string{"patch", "update"}}}
			if tc.records {
				want = []rbacv1.PolicyRule{} // so that applying it takes away earlier rules
			}
			require.Equal(t, want, find[rbacv1.ClusterRole](t, Objects(parts), "ClusterRole", "fescue-things.things.example.com-admin").Rules)
		})
	}
}

// The operator may bind the role that all RoleBindings of a kind name, and no other. Nobody is asked for a decorator,
// so it gets no such right.
func TestRightToBindIsForOneRole(t *testing.T) {
	t.Parallel()
	const text = `
package kinds

import "fescue.dev/cue/contract"

#Thing: {apiVersion!: "things.example.com/v1", kind!: "Thing", metadata!: {name!: string, namespace?: string, ...}, spec: role: *"x" | string, status?: contract.#Status}
#ThingController: contract.#Controller & {
	object!: #Thing
	names: plural: "things"
	children: binding: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: ROLE}}
}
`
	const decorator = `
package kinds

import "fescue.dev/cue/contract"

#BinderDecorator: contract.#Decorator & {
	object: _
	target: {apiVersion: "v1", kind: "ServiceAccount", annotation: "example.com/view"}
	children: binding: template: {apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", roleRef: {apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view"}}
}
`
	for name, tc := range map[string]struct {
		text string
		want []Right
	}{
		"one":       {strings.ReplaceAll(text, "ROLE", `"view"`), []Right{{rbacv1.GroupName, "clusterroles", "bind", "view"}}},
		"any":       {strings.ReplaceAll(text, "ROLE", "object.spec.role"), nil},
		"decorator": {decorator, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := load.All(false, corpus.Folder(t, tc.text))
			require.NoError(t, errors.Join(err, set.BrokenError()))
			rights, err := ForKind(set.Behaviours()[0], offline(nil, set.All()))
			require.NoError(t, err)
			require.Contains(t, rights, Right{rbacv1.GroupName, "rolebindings", "create", ""})
			require.ElementsMatch(t, tc.want, slices.DeleteFunc(rights, func(r Right) bool { return r.Resource == "rolebindings" || r.Group != rbacv1.GroupName }))
		})
	}
}

func TestNamespacesGetRoles(t *testing.T) {
	t.Parallel()
	parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Namespaces: []string{"b", "a", "a"}})
	require.NoError(t, err)
	objects := Objects(parts)
	var bindings []string
	for _, object := range objects {
		if object.GetKind() == "RoleBinding" {
			bindings = append(bindings, object.GetNamespace()+"/"+object.GetName())
		}
	}
	require.Equal(t, []string{"a/fescue", "b/fescue", "fescue-system/fescue-self"}, bindings)
	require.Nil(t, find[rbacv1.ClusterRole](t, objects, "ClusterRole", "fescue"), "no right is needed in all namespaces")
	deployment := find[appsv1.Deployment](t, objects, "Deployment", "fescue")
	require.Contains(t, deployment.Spec.Template.Spec.Containers[0].Args, "--namespace=a,b")
	require.Equal(t, []string{"a", "b"}, WorksIn(deployment))
}

// Several installations that are limited to namespaces can have webhooks on one cluster.
func TestWebhooksOfNamespaces(t *testing.T) {
	t.Parallel()
	o := Options{Image: "fescue", Namespace: "own", Namespaces: []string{"a"}, Webhooks: example()}
	parts, err := Parts(kindtest.Shipped(t), o)
	require.NoError(t, err)
	require.Equal(t, "fescue-own", o.ClusterName())
	role := find[rbacv1.ClusterRole](t, Objects(parts), "ClusterRole", "fescue-own")
	require.NotNil(t, role)
	for _, rule := range role.Rules {
		require.NotContains(t, rule.Resources, "pods", "what the kinds need is granted in the namespaces")
	}
	require.Equal(t, "fescue-own", find[rbacv1.ClusterRoleBinding](t, Objects(parts), "ClusterRoleBinding", "fescue-own").RoleRef.Name)
	require.Equal(t, "fescue", Options{}.ClusterName())
	selects, err := labels.Parse(OperatorSelector())
	require.NoError(t, err)
	for _, object := range Objects(parts) {
		require.Equal(t, object.GetKind() == "Deployment", selects.Matches(labels.Set(object.GetLabels())), object.GetKind())
	}
	require.Equal(t, "fescue-"+DefaultNamespace, Options{Namespaces: o.Namespaces}.ClusterName())
}

// Built-in namespaces are shared with others: no limits are set for their Pods, and they are
// never removed.
func TestNamespacesOfTheClusterAreLeft(t *testing.T) {
	t.Parallel()
	for namespace, want := range map[string]bool{"": true, "own": true, "default": false, "kube-system": false, "kube-addons": false} {
		parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Namespace: namespace})
		require.NoError(t, err)
		kinds := make(map[string]bool)
		for _, object := range Objects(parts) {
			kinds[object.GetKind()] = true
		}
		require.Equal(t, want, kinds["Namespace"], namespace)
		require.True(t, kinds["Deployment"])
	}
}

// The image has programs for Linux only.
func TestOperatorRunsOnLinux(t *testing.T) {
	t.Parallel()
	parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue"})
	require.NoError(t, err)
	deployment := find[appsv1.Deployment](t, Objects(parts), "Deployment", "fescue")
	require.Equal(t, map[string]string{"kubernetes.io/os": "linux"}, deployment.Spec.Template.Spec.NodeSelector)
}

// One replica at a time is evicted, and those that are not ready always are.
func TestDisruptionBudget(t *testing.T) {
	t.Parallel()
	parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue"})
	require.NoError(t, err)
	budget := find[policyv1.PodDisruptionBudget](t, Objects(parts), "PodDisruptionBudget", "fescue").Spec
	require.Equal(t, int32(1), budget.MaxUnavailable.IntVal)
	require.Equal(t, new(policyv1.AlwaysAllow), budget.UnhealthyPodEvictionPolicy)
}

func TestWebhooksHaveTheirRights(t *testing.T) {
	t.Parallel()
	parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Webhooks: example()})
	require.NoError(t, err)
	objects := Objects(parts)
	require.Contains(t, find[rbacv1.ClusterRole](t, objects, "ClusterRole", "fescue").Rules, rbacv1.PolicyRule{
		APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"},
		ResourceNames: []string{"fescue"}, Verbs: []string{"create", "list", "patch", "watch"},
	})
	require.Contains(t, find[rbacv1.Role](t, objects, "Role", "fescue-self").Rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"fescue-certificate"},
		Verbs: []string{"get", "list", "update", "watch"},
	})
	container := find[appsv1.Deployment](t, objects, "Deployment", "fescue").Spec.Template.Spec.Containers[0]
	require.Contains(t, container.Args, "--webhook-listen=:9443")
	require.Equal(t, int32(9443), container.Ports[2].ContainerPort)
	require.NotNil(t, find[unstructured.Unstructured](t, objects, "Service", "fescue-webhooks"))
	require.NotNil(t, find[unstructured.Unstructured](t, objects, "NetworkPolicy", "fescue-webhooks"))
	require.NotNil(t, find[unstructured.Unstructured](t, objects, "ValidatingWebhookConfiguration", "fescue"))
}

// No object of a kind can be created before the API server knows the webhook for it.
func TestWebhooksComeBeforeCRDs(t *testing.T) {
	t.Parallel()
	parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Webhooks: example()})
	require.NoError(t, err)
	var kinds []string
	for _, object := range Objects(parts) {
		kinds = append(kinds, object.GetKind())
	}
	require.Equal(t, "Namespace", kinds[0])
	require.Less(t, slices.Index(kinds, "ValidatingWebhookConfiguration"), slices.Index(kinds, "CustomResourceDefinition"))
}

// A tool that does not find a CRD any more would delete all objects of its kind.
func TestCRDsAreKept(t *testing.T) {
	t.Parallel()
	shipped := kindtest.Shipped(t)
	parts, err := Parts(shipped, Options{Image: "fescue"})
	require.NoError(t, err)
	for _, k := range shipped {
		annotations := find[apiextensionsv1.CustomResourceDefinition](t, Objects(parts), "CustomResourceDefinition", k.Name()).Annotations
		require.Equal(t, map[string]string{
			"fescue.dev/kind-hash": k.Hash, "helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false,Delete=false",
			"kustomize.toolkit.fluxcd.io/prune": "disabled",
		}, annotations)
	}
}

// Webhooks are open unless the addresses of the API server are given.
func TestClientsOfWebhooks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cidrs []string
		want  []networkingv1.NetworkPolicyPeer
	}{
		"not given": {},
		"given": {[]string{"10.0.0.4/32", "2001:db8::/64"}, []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.4/32"}}, {IPBlock: &networkingv1.IPBlock{CIDR: "2001:db8::/64"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Webhooks: example(), APIServers: tc.cidrs})
			require.NoError(t, err)
			rules := find[networkingv1.NetworkPolicy](t, Objects(parts), "NetworkPolicy", "fescue-webhooks").Spec.Ingress
			require.Len(t, rules, 1)
			require.Equal(t, "webhooks", rules[0].Ports[0].Port.StrVal)
			require.Equal(t, tc.want, rules[0].From)
		})
	}
}

// Shards bring a replica for each, and rights to these Leases by name.
func TestShards(t *testing.T) {
	t.Parallel()
	for shards, want := range map[int]struct {
		flag     string
		replicas int32
		leases   []rbacv1.PolicyRule
	}{
		0: {"--leader-elect", 2, []rbacv1.PolicyRule{rule("create"), rule("get,update", "fescue")}},
		1: {"--leader-elect", 2, []rbacv1.PolicyRule{rule("create"), rule("get,update", "fescue")}},
		3: {"--shards=3", 3, []rbacv1.PolicyRule{
			rule("create,list"),
			rule("update", "fescue", "fescue-member-0", "fescue-member-1", "fescue-member-2", "fescue-shard-0", "fescue-shard-1", "fescue-shard-2"),
		}},
	} {
		parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Shards: shards})
		require.NoError(t, err)
		deployment := find[appsv1.Deployment](t, Objects(parts), "Deployment", "fescue")
		require.Equal(t, want.flag, deployment.Spec.Template.Spec.Containers[0].Args[1])
		require.Equal(t, want.replicas, *deployment.Spec.Replicas)
		require.Equal(t, want.leases, find[rbacv1.Role](t, Objects(parts), "Role", "fescue-self").Rules)
	}
}

// rule returns one about Leases, of all or of some.
func rule(verbs string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: names, Verbs: strings.Split(verbs, ",")}
}

func TestMetricsAuthHasItsRights(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {MetricsAuth: true}, {MetricsAuth: true, Namespaces: []string{"a"}}} {
		auth := o.MetricsAuth
		o.Image, o.Monitoring = "fescue", true
		parts, err := Parts(kindtest.Shipped(t), o)
		require.NoError(t, err)
		objects := Objects(parts)
		args := find[appsv1.Deployment](t, objects, "Deployment", "fescue").Spec.Template.Spec.Containers[0].Args
		monitor := find[unstructured.Unstructured](t, objects, "ServiceMonitor", "fescue")
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		require.NoError(t, err)
		if !auth {
			require.Nil(t, find[rbacv1.ClusterRole](t, objects, "ClusterRole", "fescue-metrics-auth"))
			require.Contains(t, args, "--metrics-listen=:8080")
			require.Equal(t, []any{map[string]any{"port": "metrics", "path": "/metrics"}}, endpoints)
			continue
		}
		require.Contains(t, args, "--metrics-auth")
		require.Contains(t, args, "--metrics-listen=:8443")
		require.Equal(t, int32(8443), find[corev1.Service](t, objects, "Service", "fescue-metrics").Spec.Ports[0].Port)
		require.Equal(t, []any{map[string]any{
			"port": "metrics", "path": "/metrics", "scheme": "https", "tlsConfig": map[string]any{"insecureSkipVerify": true},
			"bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
		}}, endpoints)
		require.NotNil(t, find[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding", o.ClusterName()+"-metrics-auth"))
		require.Equal(t, []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
			find[rbacv1.ClusterRole](t, objects, "ClusterRole", o.ClusterName()+"-metrics-reader").Rules)
	}
}

func TestSourcesAreMountedAndRollTheDeployment(t *testing.T) {
	t.Parallel()
	pods := make(map[string]bool)
	for _, text := range []string{"package a", "package a // changed"} {
		parts, err := Parts(kindtest.Shipped(t), Options{Image: "fescue", Sources: []Source{{"a.cue": text, "cue.mod/module.cue": "module: \"a\""}}})
		require.NoError(t, err)
		pod := find[appsv1.Deployment](t, Objects(parts), "Deployment", "fescue").Spec.Template
		pods[pod.Annotations[annotationKinds]] = true
		require.Equal(t, "cue.mod/module.cue", pod.Spec.Volumes[0].ConfigMap.Items[1].Path)
		require.Equal(t, "cue.mod__module.cue", pod.Spec.Volumes[0].ConfigMap.Items[1].Key)
		require.Contains(t, pod.Spec.Containers[0].Args, "--kinds=/etc/fescue/kinds/0")
	}
	require.Len(t, pods, 2)
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := Parts(nil, Options{})
	require.ErrorContains(t, err, "image: Required value")
	_, cidrErr := Parts(nil, Options{Image: "fescue", Webhooks: example(), APIServers: []string{"10.0.0.1/24", "10.0.0.1", "::/0"}})
	require.EqualError(t, cidrErr, `api-server-cidr: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length
api-server-cidr: Invalid value: "10.0.0.1": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`)
	_, noWebhooksErr := Parts(nil, Options{Image: "fescue", APIServers: []string{"::/0"}})
	require.EqualError(t, noWebhooksErr, "api-server-cidr: Forbidden: it limits webhooks, but none are installed")
	clustered := *kindtest.Shipped(t)[0]
	clustered.Scope = apiextensionsv1.ClusterScoped
	_, scopeErr := Parts([]*kind.Kind{&clustered}, Options{Image: "fescue", Namespaces: []string{"a"}})
	require.EqualError(t, scopeErr, "kind At: it is cluster-scoped, so it cannot be limited to namespaces")
}

func TestSourcesAreChecked(t *testing.T) {
	t.Parallel()
	err := Source{"a b.cue": strings.Repeat("x", maxSource)}.Validate()
	require.ErrorContains(t, err, `invalid file name "a b.cue": a valid config key must consist of`)
	require.ErrorContains(t, err, "its files have 1044487 bytes: must be at most 1044480")
	require.NoError(t, Source{"a.cue": "package a", "cue.mod/module.cue": ""}.Validate())
}

func TestParseType(t *testing.T) {
	t.Parallel()
	of, plural, err := ParseType("Certificate.cert-manager.io=certificates")
	require.NoError(t, err)
	require.Equal(t, schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"}, of)
	require.Equal(t, "certificates", plural)
	for _, bad := range []string{"", "Certificate", "=a", "A.b="} {
		_, _, err := ParseType(bad)
		require.EqualError(t, err, fmt.Sprintf("invalid value %q: must be KIND.GROUP=PLURAL, as in Certificate.cert-manager.io=certificates", bad))
	}
}

// Every object is as a person would write it, and the same each time.
func TestObjectsAreClean(t *testing.T) {
	t.Parallel()
	o := Options{Image: "fescue", Monitoring: true, InstallCRDs: true, Webhooks: example()}
	parts, err := Parts(kindtest.Shipped(t), o)
	require.NoError(t, err)
	text, err := YAML(Objects(parts))
	require.NoError(t, err)
	again, err := Parts(kindtest.Shipped(t), o)
	require.NoError(t, err)
	textAgain, err := YAML(Objects(again))
	require.NoError(t, err)
	require.Equal(t, string(text), string(textAgain))
	seen := make(map[string]bool)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(document), &object))
		require.NotContains(t, object, "status")
		require.NotContains(t, object["metadata"], "creationTimestamp")
		require.NotContains(t, document, ": null")
		id := fmt.Sprint(object["kind"], object["metadata"])
		require.False(t, seen[id], "twice: %s", id)
		seen[id] = true
	}
}
