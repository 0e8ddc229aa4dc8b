package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// installation is what `fescue manifests` prints for the operator of a test, which works and
// lives in the namespace of the test.
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
	return &installation{
		Options:  install.Options{Namespace: c.namespace, Namespaces: []string{c.namespace}, Image: "fescue", Types: types},
		webhooks: webhooks,
	}
}

// parts are the objects of the installation of kinds, some of which are mounted.
func (i *installation) parts(kinds []*kind.Kind, mounted []install.Source) ([]install.Part, error) {
	options := i.Options
	options.Sources = mounted
	if i.webhooks {
		options.Webhooks = operator.InstalledWebhooks(kinds, options)
	}
	return install.Parts(kinds, options)
}

// prepare installs, as an administrator, what an operator with these flags takes: the CRDs and
// the rights that `fescue manifests` prints, and no others.
func (c *cluster) prepare(args []string) {
	c.t.Helper()
	var dirs []string
	webhooks, shards := false, 1
	for i, arg := range args {
		webhooks = webhooks || arg == "--webhook-url" || arg == "--webhook-service"
		if arg == "--kinds" {
			dirs = append(dirs, args[i+1])
		}
		if n, ok := strings.CutPrefix(arg, "--shards="); ok {
			var err error
			shards, err = strconv.Atoi(n)
			require.NoError(c.t, err)
		}
	}
	key := fmt.Sprint(dirs, webhooks, shards)
	if key == c.prepared {
		return
	}
	kinds, err := kind.Load(true, dirs...)
	require.NoError(c.t, errors.Join(err, kinds.BrokenError()))
	if !c.keepCRDs {
		c.installCRDs(kinds.All())
	}
	o := c.installation(webhooks)
	o.Shards = shards
	parts, err := o.parts(kinds.All(), nil)
	require.NoError(c.t, err)
	rights := rightsIn(install.Objects(parts))
	c.keepRights(rights)
	c.config = c.grant(rights)
	c.prepared = key
}

// keepRights adds to roles what operators with other flags, which may still run, were granted.
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

// installCRDs returns when the API server serves the kinds, and says so.
func (c *cluster) installCRDs(kinds []*kind.Kind) {
	c.t.Helper()
	require.NoError(c.t, crds.Install(c.t.Context(), c.client, kinds))
	served, err := discovery.NewDiscoveryClientForConfig(testcluster.Config(c.t))
	require.NoError(c.t, err)
	require.True(c.t, testcluster.WaitUntil(func() bool {
		return !slices.ContainsFunc(kinds, func(k *kind.Kind) bool {
			list, err := served.ServerResourcesForGroupVersion(k.GroupVersionKind.GroupVersion().String())
			return err != nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Names.Plural })
		})
	}))
}

// rightsIn are the objects of an installation that give the operator its rights.
func rightsIn(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objects), func(object *unstructured.Unstructured) bool {
		of := object.GroupVersionKind().GroupKind()
		isRight := of.Group == rbacv1.GroupName || of.Kind == rbacv1.ServiceAccountKind
		// What is aggregated is for people.
		return !isRight || strings.Contains(fmt.Sprint(object.GetLabels()), "aggregate-to-")
	})
}

// grant applies a service account and its roles, and returns a configuration with its token
// once the API server knows the roles. What lives in no namespace goes after the test.
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
	client, err := kubernetes.NewForConfig(testcluster.Config(c.t))
	require.NoError(c.t, err)
	token, err := client.CoreV1().ServiceAccounts(c.namespace).CreateToken(c.t.Context(), "fescue", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	config := rest.AnonymousClientConfig(testcluster.Config(c.t))
	config.BearerToken = token.Status.Token
	c.awaitRights(config, wanted)
	return config
}

// rulesOf are those of a role; other objects have none.
func rulesOf(t testing.TB, object *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.Role // a ClusterRole has the same rules
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"rules": object.Object["rules"]}, &role))
	return role.Rules
}

// awaitRights returns when whoever has the token has exactly these rights, beside those that
// everyone has.
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
			if strings.HasPrefix(right.Resource, "selfsubject") {
				has.Delete(right)
			}
		}
		return has.Equal(wanted)
	}), "%v: has not %v, has also %v", err, wanted.Difference(has), has.Difference(wanted))
}

// flatten splits rules into one right each.
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

// without are the objects with all roles but for these rights.
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
