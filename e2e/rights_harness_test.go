package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// installation is the output of `fescue manifests` for the operator of a test. The namespace of the
// test is both the operator's own and the one that it works in.
type installation struct {
	install.Options
	webhooks bool
}

func (c *cluster) installation(webhooks bool) *installation {
	types := make(install.Types)
	for _, text := range c.types {
		groupKind, plural, err := install.ParseType(text)
		require.NoError(c.t, err)
		types[groupKind] = plural
	}
	i := &installation{
		Options:  install.Options{Namespace: c.namespace, Namespaces: []string{c.namespace}, Image: "fescue", Types: types},
		webhooks: webhooks,
	}
	if c.everywhere {
		i.Namespaces = nil
	}
	return i
}

// parts returns the objects of the installation of kinds, some of which are mounted.
func (i *installation) parts(kinds []*kind.Kind, mounted []install.Source) ([]install.Part, error) {
	options := i.Options
	options.Sources = mounted
	if i.webhooks {
		options.Webhooks = operator.InstalledWebhooks(kind.WithoutDecorators(kinds), options)
	}
	return install.Parts(kinds, options)
}

// rights returns the objects that give an operator its rights for kinds.
func (i *installation) rights(t testing.TB, kinds []*kind.Kind) []*unstructured.Unstructured {
	t.Helper()
	parts, err := i.parts(kinds, nil)
	require.NoError(t, err)
	rights := rightsIn(install.Objects(parts))
	if len(i.Namespaces) == 0 { // the names of cluster roles are then the same for all tests
		for _, object := range rights {
			if object.GetNamespace() == "" {
				object.SetName(object.GetName() + "-" + i.Namespace)
			}
			if role, _, _ := unstructured.NestedString(object.Object, "roleRef", "name"); object.GetKind() == "ClusterRoleBinding" {
				require.NoError(t, unstructured.SetNestedField(object.Object, role+"-"+i.Namespace, "roleRef", "name"))
			}
		}
	}
	return rights
}

// keepRights adds earlier rules to roles, for operators with other flags that may still run.
func (c *cluster) keepRights(rights []*unstructured.Unstructured) {
	for _, object := range rights {
		rules, _ := object.Object["rules"].([]any)
		for _, before := range c.granted {
			if before.GetKind() == object.GetKind() && before.GetName() == object.GetName() && before.Object["rules"] != nil {
				rules = append(rules, before.Object["rules"].([]any)...)
			}
		}
		if rules != nil {
			object.Object["rules"] = rules
		}
	}
	c.granted = rights
}

// rightsIn returns the objects of an installation that give the operator its rights.
func rightsIn(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool {
		of := object.GroupVersionKind().GroupKind()
		isRight := of.Group == rbacv1.GroupName || of.Kind == rbacv1.ServiceAccountKind
		// Aggregated roles are for users.
		return !isRight || strings.Contains(fmt.Sprint(object.GetLabels()), "aggregate-to-")
	})
}

// grant applies a service account and its roles, and returns a configuration with its token once
// the API server knows the roles. Cluster-scoped objects are deleted after the test.
func (c *cluster) grant(rights []*unstructured.Unstructured) *rest.Config {
	c.t.Helper()
	wanted := sets.New[install.Right]()
	for _, object := range rights {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		client := c.client.Resource(resource).Namespace(object.GetNamespace())
		_, err := client.Apply(c.t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "test", Force: true})
		require.NoError(c.t, err)
		if object.GetNamespace() == "" {
			c.t.Cleanup(func() { _ = client.Delete(context.Background(), object.GetName(), metav1.DeleteOptions{}) })
		}
		wanted = wanted.Union(flatten(rulesOf(c.t, object)))
	}
	config := c.configOf("fescue")
	c.awaitRights(config, wanted)
	return config
}

// configOf returns a configuration with a token of a service account.
func (c *cluster) configOf(account string) *rest.Config {
	c.t.Helper()
	token, err := c.typed.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	config := rest.AnonymousClientConfig(testcluster.Config(c.t))
	config.BearerToken = token.Status.Token
	return config
}

// rulesOf returns the rules of a role; other objects have none.
func rulesOf(t testing.TB, object *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.Role // a ClusterRole has the same rules
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"rules": object.Object["rules"]}, &role))
	return role.Rules
}

// awaitRights waits until the user of a configuration has exactly these rights, and those of every
// user.
func (c *cluster) awaitRights(config *rest.Config, wanted sets.Set[install.Right]) {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(c.t, err)
	var has sets.Set[install.Right]
	require.True(c.t, testcluster.WaitUntil(func() bool {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: c.namespace}}
		review, err = client.AuthorizationV1().SelfSubjectRulesReviews().Create(c.t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			return false
		}
		var rules []rbacv1.PolicyRule
		for _, rule := range review.Status.ResourceRules {
			rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames})
		}
		has = flatten(rules)
		for right := range has {
			// Since Kubernetes 1.37, everyone may read what certificates the cluster trusts.
			if strings.HasPrefix(right.Resource, "selfsubject") || right.Resource == "clustertrustbundles" {
				has.Delete(right)
			}
		}
		return has.Equal(wanted)
	}), "%v: missing %v, unexpected %v", err, wanted.Difference(has), has.Difference(wanted))
}

// flatten splits rules into single rights.
func flatten(rules []rbacv1.PolicyRule) sets.Set[install.Right] {
	flat := sets.New[install.Right]()
	for _, rule := range rules {
		for _, name := range append(rule.ResourceNames, "")[:max(1, len(rule.ResourceNames))] {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					flat.Insert(install.Right{Group: rule.APIGroups[0], Resource: resource, Verb: verb, Name: name})
				}
			}
		}
	}
	return flat
}

// without returns the objects with these rights removed from their roles.
func without(t testing.TB, objects []*unstructured.Unstructured, removed ...install.Right) []*unstructured.Unstructured {
	t.Helper()
	var left []*unstructured.Unstructured
	for _, object := range objects {
		object = object.DeepCopy()
		if _, isRole := object.Object["rules"]; isRole {
			rules := []any{}
			for right := range flatten(rulesOf(t, object)) {
				if slices.Contains(removed, right) {
					continue
				}
				rule := map[string]any{"apiGroups": []any{right.Group}, "resources": []any{right.Resource}, "verbs": []any{right.Verb}}
				if right.Name != "" {
					rule["resourceNames"] = []any{right.Name}
				}
				rules = append(rules, rule)
			}
			object.Object["rules"] = rules
		}
		left = append(left, object)
	}
	return left
}

// serviceAccount creates a service account and its role in the namespace, which can be changed
// later, and returns a configuration with its token.
func (c *cluster) serviceAccount(name string, rules []rbacv1.PolicyRule) *rest.Config {
	c.t.Helper()
	meta := metav1.ObjectMeta{Name: name, Namespace: c.namespace}
	_, err := c.typed.CoreV1().ServiceAccounts(c.namespace).Create(c.t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = c.typed.RbacV1().Roles(c.namespace).Create(c.t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = c.typed.RbacV1().RoleBindings(c.namespace).Create(c.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: c.namespace}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	return c.configOf(name)
}

// clusterRole grants rules to a service account until the test ends.
func (c *cluster) clusterRole(account string, rules []rbacv1.PolicyRule) {
	c.t.Helper()
	roles, bindings := c.typed.RbacV1().ClusterRoles(), c.typed.RbacV1().ClusterRoleBindings()
	meta := metav1.ObjectMeta{Name: c.namespace + "-" + account}
	_, err := roles.Create(c.t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	_, err = bindings.Create(c.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account, Namespace: c.namespace}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		_ = bindings.Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
		_ = roles.Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
	})
}

// rolesOf returns the rules that an installation has for kinds in the namespace where it works, and
// those that it has in its own namespace.
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

// rightsUse records the rights that an operator needs for its requests through the proxy.
type rightsUse struct {
	mu sync.Mutex
	// allowed are the rights of requests, each with the name of the object.
	allowed sets.Set[install.Right]
	// denied are the messages of requests without the right.
	denied []string
}

// watchRights records the rights of all requests from now on.
func watchRights(p *proxy) *rightsUse {
	u := &rightsUse{allowed: sets.New[install.Right]()}
	p.answered.Store(new(u.record))
	return u
}

var requestInfo = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (u *rightsUse) record(r *http.Response) {
	info, err := requestInfo.NewRequestInfo(r.Request)
	if err != nil || !info.IsResourceRequest {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.StatusCode == http.StatusForbidden {
		body, _ := io.ReadAll(r.Body) // the test notices that it is missing
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.denied = append(u.denied, strings.ReplaceAll(string(body), `\"`, `"`)) // JSON, or Protobuf
		return
	}
	right := install.Right{Group: info.APIGroup, Resource: info.Resource, Verb: info.Verb, Name: info.Name}
	if info.Subresource != "" {
		right.Resource += "/" + info.Subresource
	}
	u.allowed.Insert(right)
	if info.Verb == "patch" && r.StatusCode == http.StatusCreated { // this needs both
		right.Verb = "create"
		u.allowed.Insert(right)
	}
}

// unused returns the rights that no request has needed.
func (u *rightsUse) unused(rights sets.Set[install.Right]) sets.Set[install.Right] {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := rights.Clone()
	for used := range u.allowed {
		left.Delete(used)
		used.Name = ""
		left.Delete(used)
	}
	return left
}

// missing reports whether a request was denied for want of a right.
func (u *rightsUse) missing(right install.Right) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	text := fmt.Sprintf("cannot %s resource %q in API group %q", right.Verb, right.Resource, right.Group)
	return slices.ContainsFunc(u.denied, func(message string) bool { return strings.Contains(message, text) })
}

// missingAny returns the messages of requests that were denied for want of a right, without those
// of admission plugins.
func (u *rightsUse) missingAny() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.denied), func(message string) bool {
		return !strings.Contains(message, " cannot ") || strings.Contains(message, "blockOwnerDeletion")
	})
}
