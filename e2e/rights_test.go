package e2e

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// scenario makes an operator with webhooks use each of its rights.
type scenario struct {
	*cluster
	operator *process
	use      *rightsUse
	rights   []*unstructured.Unstructured
}

// newScenario starts an operator with the rights of an installation with webhooks, except those
// that are removed.
func newScenario(t *testing.T, removed ...install.Right) *scenario {
	t.Helper()
	c := newCluster(t)
	s := &scenario{cluster: c, rights: c.installation(true).rights(t, kindtest.Shipped(t)), use: watchRights(c.proxy)}
	for i, right := range removed { // whose names have a placeholder
		removed[i].Name = strings.ReplaceAll(right.Name, "NAMESPACE", c.namespace)
	}
	config := c.grant(without(t, s.rights, removed...))
	flags, _ := c.webhookURLFlags()
	c.env = []string{"KUBE_FEATURE_WatchListClient=false"} // list first, as with API servers that cannot stream it
	// The Lease is renewed soon, and does not expire.
	s.operator = c.launchAs(c.proxy.through(config), append(flags, "--leader-elect", "--leader-elect-retry-period=200ms")...)
	return s
}

// all returns the rights of the installation.
func (s *scenario) all() sets.Set[install.Right] {
	all := sets.New[install.Right]()
	for _, object := range s.rights {
		all = all.Union(flatten(rulesOf(s.t, object)))
	}
	return all
}

// steps returns the steps of the scenario. Each is retried until it returns true.
func (s *scenario) steps() []func() bool {
	var broken []byte
	secrets := s.typed.CoreV1().Secrets(s.namespace)
	conditionIs := func(resource schema.GroupVersionResource, name, of string) bool {
		object, err := s.get(resource, name)
		return err == nil && isTrue(object, of)
	}
	return []func() bool{
		func() bool { return s.isRegistered() },
		// A certificate that cannot be read is replaced.
		func() bool {
			secret, err := secrets.Patch(context.Background(), operator.DefaultSecret, types.MergePatchType, []byte(`{"data":{"tls.crt":"YnJva2Vu"}}`), metav1.PatchOptions{})
			if err == nil {
				broken = secret.Data["tls.crt"]
			}
			return err == nil
		},
		func() bool {
			secret, err := secrets.Get(context.Background(), operator.DefaultSecret, metav1.GetOptions{})
			return err == nil && !bytes.Equal(secret.Data["tls.crt"], broken)
		},
		// Children of each kind, and unrelated objects with the names of children.
		func() bool { return s.tryCreate(pods, "Pod", "b-pod", sleeping("a")) },
		func() bool { return s.tryCreate(configMaps, "ConfigMap", "v-config", nil) },
		func() bool {
			return s.tryCreate(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"})
		},
		func() bool {
			return s.tryCreate(ats, "At", "b", map[string]any{"schedule": longAgo, "command": "echo"})
		},
		func() bool { return s.tryCreate(watchers, "Watcher", "w", map[string]any{"container": watchContainer}) },
		func() bool { return s.tryCreate(watchers, "Watcher", "v", map[string]any{"container": watchContainer}) },
		func() bool {
			return s.tryCreate(customclusters, "Customcluster", "c", map[string]any{"count": int64(2), "message": "m"})
		},
		func() bool { return conditionIs(ats, "a", "Succeeded") && conditionIs(ats, "b", "Stalled") },
		func() bool { return conditionIs(watchers, "w", "Ready") && conditionIs(watchers, "v", "Stalled") },
		func() bool {
			_, err := s.objects(watchers).Patch(context.Background(), "w", types.MergePatchType, []byte(`{"spec":{"configData":{"a":"b"}}}`), metav1.PatchOptions{})
			return err == nil
		},
		func() bool { // only a change of a child is an apply
			config, err := s.get(configMaps, "w-config")
			if err != nil {
				return false
			}
			value, _, _ := unstructured.NestedString(config.Object, "data", "a")
			return value == "b"
		},
		func() bool { return conditionIs(customclusters, "c", "Ready") },
		func() bool {
			_, err := s.objects(customclusters).Patch(context.Background(), "c", types.MergePatchType, []byte(`{"spec":{"count":1}}`), metav1.PatchOptions{})
			return err == nil
		},
		func() bool {
			list, err := s.objects(pods).List(context.Background(), metav1.ListOptions{LabelSelector: "controller=c"})
			return err == nil && len(list.Items) == 1
		},
		// A child that lost its label is adopted again.
		func() bool {
			list, err := s.objects(pods).List(context.Background(), metav1.ListOptions{LabelSelector: "controller=c"})
			if err != nil || len(list.Items) != 1 {
				return false
			}
			_, err = s.objects(pods).Patch(context.Background(), list.Items[0].GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`), metav1.PatchOptions{})
			return err == nil
		},
		func() bool {
			list, err := s.objects(pods).List(context.Background(), metav1.ListOptions{LabelSelector: "controller=c,fescue.dev/owner-uid"})
			return err == nil && len(list.Items) == 1
		},
		// Repeated failures to inject are one Event with a count.
		func() bool {
			pod := podWith(map[string]string{"watch.fescue.dev/inject": "w"})
			pod.Spec.Containers[0].Name = "watch"
			_, err := s.typed.CoreV1().Pods(s.namespace).Create(context.Background(), pod, metav1.CreateOptions{})
			list, listErr := s.typed.EventsV1().Events(s.namespace).List(context.Background(), metav1.ListOptions{})
			return err == nil && listErr == nil && slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "NotInjected" && e.Series != nil })
		},
	}
}

// walk takes the steps until one is broken, and returns how many it took.
func (s *scenario) walk(broken func() bool) (at int) {
	steps := s.steps()
	for at < len(steps) && testcluster.WaitUntil(func() bool { return broken() || steps[at]() }) && !broken() {
		at++
	}
	return at
}

// The generated rights suffice for everything that the operator does, and each of them is used.
// Without any one of them something fails, and the failure names the right.
func TestGeneratedRightsAreExact(t *testing.T) {
	t.Parallel()
	newCluster(t).installCRDs(kindtest.Shipped(t))
	s := newScenario(t)
	require.Equal(t, len(s.steps()), s.walk(func() bool { return false }), "step")
	require.Empty(t, s.use.missingAny())
	require.NotContains(t, s.operator.log.String(), "is forbidden: User")
	// No request shows the rights that only an admission plugin checks.
	checked := s.withoutPluginRights(t)
	var unused sets.Set[install.Right]
	testcluster.WaitUntil(func() bool {
		unused = s.use.unused(s.all()).Difference(checked)
		return unused.Len() == 0
	})
	require.Empty(t, unused)

	t.Run("without", func(t *testing.T) {
		for right := range s.all() {
			right.Name = strings.ReplaceAll(right.Name, s.namespace, "NAMESPACE")
			t.Run(strings.TrimSpace(fmt.Sprintf("%s %s %s", right.Verb, schema.GroupResource{Group: right.Group, Resource: right.Resource}, right.Name)), func(t *testing.T) {
				t.Parallel()
				s := newScenario(t, right)
				broken := func() bool {
					return s.use.missing(right) || strings.Contains(s.operator.log.String(), "missing rights: "+right.In(s.namespace)+";")
				}
				require.Less(t, s.walk(broken), len(s.steps()), "everything works")
				require.True(t, broken(), "something else is broken; log:\n%s", s.operator.log)
			})
		}
	})
}

// withoutPluginRights removes the rights that only the admission plugin
// OwnerReferencesPermissionEnforcement checks, and requires that children are rejected then. It
// returns these rights.
func (s *scenario) withoutPluginRights(t *testing.T) sets.Set[install.Right] {
	t.Helper()
	stalled := func(resource schema.GroupVersionResource, name, message string) {
		t.Helper()
		s.await(resource, name, "stalled", func(o *unstructured.Unstructured) bool {
			_, _, got := condition(o, "Stalled")
			return strings.Contains(got, message)
		})
	}
	var finalizers []install.Right
	for _, resource := range []schema.GroupVersionResource{ats, watchers, customclusters} {
		finalizers = append(finalizers, install.Right{Group: resource.Group, Resource: resource.Resource + "/finalizers", Verb: "update"})
	}
	s.grant(without(t, s.rights, finalizers...))
	const blocking = "cannot set blockOwnerDeletion"
	s.createAt("f", longAgo, "echo")
	stalled(ats, "f", blocking)
	s.createWatcher("f", nil)
	stalled(watchers, "f", blocking)
	s.createCustomcluster("f", 1, "m")
	stalled(customclusters, "f", blocking)

	// A ConfigMap without its owner is adopted.
	deletion := install.Right{Resource: "configmaps", Verb: "delete"}
	s.grant(without(t, s.rights, deletion))
	s.patch(configMaps, "w-config", `{"metadata":{"ownerReferences":null}}`)
	stalled(watchers, "w", "cannot set an ownerRef on a resource you can't delete")
	return sets.New(append(finalizers, deletion)...)
}

// The same for the rights that --install-crds needs: without one of them, the kind does not run.
func TestRightsToInstallCRDs(t *testing.T) {
	t.Parallel()
	for _, removed := range []string{"", "create", "patch"} {
		t.Run("without "+removed, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			dir, added := writeKind(t, strings.ReplaceAll(rightsKind, "rights.example.com", c.namespace+".example.com"))
			definition := added[0].Name()
			crd := install.Right{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Name: definition}
			c.deleteCRDs(definition)
			wanted := c.installation(false)
			wanted.InstallCRDs = true
			missing := crd
			missing.Verb = removed
			use := watchRights(c.proxy)
			config := c.grant(without(t, wanted.rights(t, append(kindtest.Shipped(t), added...)), missing))
			o := c.launchAs(c.proxy.through(config), "--install-crds", "--kinds", dir)
			if removed != "" {
				o.awaitLog("kind waits for what it needs\" kind=Thing ")
				require.Contains(t, o.log.String(), "CRD "+definition)
				require.True(t, use.missing(missing), "%v", use.missingAny())
				return
			}
			things := added[0].GroupVersionResource()
			c.create(things, "Thing", "t", map[string]any{"spec": map[string]any{}})
			c.awaitReady(things, "t")
			rights := sets.New[install.Right]()
			for _, verb := range []string{"create", "patch"} {
				crd.Verb = verb
				rights.Insert(crd)
			}
			require.Empty(t, use.unused(rights))
			require.Empty(t, use.missingAny())
		})
	}
}
