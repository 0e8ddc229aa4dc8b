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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/operator"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// scenario has an operator with webhooks use every right that it has. Each step is tried until
// it returns true.
type scenario struct {
	*cluster
	operator *process
	use      *rightsUse
	rights   []*unstructured.Unstructured
	typed    kubernetes.Interface
}

// newScenario starts an operator with the rights of an installation with webhooks, but for
// those that are removed.
func newScenario(t *testing.T, removed ...install.Right) *scenario {
	t.Helper()
	c := newCluster(t)
	typed, err := kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	parts, err := c.installation(true).parts(kinds, nil)
	require.NoError(t, err)
	s := &scenario{cluster: c, rights: rightsIn(install.Objects(parts)), typed: typed, use: watchRights(c.proxy)}
	for i, right := range removed { // the names are those of another namespace
		removed[i].Name = strings.ReplaceAll(right.Name, "NAMESPACE", c.namespace)
	}
	config := c.grant(without(t, s.rights, removed...))
	address := testcluster.FreePort(t, "127.0.0.1")
	name := c.installation(true).ClusterName()
	t.Cleanup(func() { removeWebhooks(t, typed, name) })
	c.env = []string{"KUBE_FEATURE_WatchListClient=false"} // list first, as with API servers that cannot stream it
	s.operator = c.launchAs(c.proxy.through(config),
		"--leader-elect", "--leader-elect-retry-period=200ms", // the lease is renewed soon, and does not run out
		"--webhook-listen", address, "--webhook-url", "https://"+address, "--webhook-configuration", name, "--webhook-secret", c.namespace+"/"+operator.DefaultSecret)
	return s
}

// all are the rights of the installation, with NAMESPACE for the one of the test.
func (s *scenario) all() sets.Set[install.Right] {
	all := sets.New[install.Right]()
	for _, object := range s.rights {
		all = all.Union(flatten(rulesOf(s.t, object)))
	}
	return all
}

func (s *scenario) steps() []func() bool {
	var broken []byte
	secrets := s.typed.CoreV1().Secrets(s.namespace)
	conditionIs := func(resource schema.GroupVersionResource, name, of string) bool {
		object, err := s.get(resource, name)
		if err != nil {
			return false
		}
		status, _, _ := condition(object, of)
		return status == "True"
	}
	return []func() bool{
		func() bool { return s.isRegistered(s.installation(true).ClusterName()) },
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
		// Children of each kind, and objects that have the names of children.
		func() bool { return s.try(pods, "Pod", "b-pod", sleeping("a")) },
		func() bool { return s.try(configMaps, "ConfigMap", "v-config", nil) },
		func() bool { return s.try(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}) },
		func() bool { return s.try(ats, "At", "b", map[string]any{"schedule": longAgo, "command": "echo"}) },
		func() bool { return s.try(watchers, "Watcher", "w", map[string]any{"container": watching}) },
		func() bool { return s.try(watchers, "Watcher", "v", map[string]any{"container": watching}) },
		func() bool {
			return s.try(customclusters, "Customcluster", "c", map[string]any{"count": int64(2), "message": "m"})
		},
		func() bool { return conditionIs(ats, "a", "Succeeded") && conditionIs(ats, "b", "Stalled") },
		func() bool { return conditionIs(watchers, "w", "Ready") && conditionIs(watchers, "v", "Stalled") },
		func() bool { return conditionIs(customclusters, "c", "Ready") },
		func() bool {
			_, err := s.client.Resource(customclusters).Namespace(s.namespace).Patch(context.Background(), "c", types.MergePatchType, []byte(`{"spec":{"count":1}}`), metav1.PatchOptions{})
			return err == nil
		},
		func() bool {
			list, err := s.client.Resource(pods).Namespace(s.namespace).List(context.Background(), metav1.ListOptions{LabelSelector: "controller=c"})
			return err == nil && len(list.Items) == 1
		},
		// What cannot be injected again is one Event with a count.
		func() bool {
			pod := podWith(map[string]string{"watch.fescue.dev/inject": "w"})
			pod.Spec.Containers[0].Name = "watch"
			_, err := s.typed.CoreV1().Pods(s.namespace).Create(context.Background(), pod, metav1.CreateOptions{})
			list, listErr := s.typed.EventsV1().Events(s.namespace).List(context.Background(), metav1.ListOptions{})
			return err == nil && listErr == nil && slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "NotInjected" && e.Series != nil })
		},
	}
}

// walk takes the steps, and gives up as soon as something is found to be broken.
func (s *scenario) walk(broken func() bool) (at int) {
	steps := s.steps()
	for at < len(steps) && testcluster.WaitUntil(func() bool { return broken() || steps[at]() }) && !broken() {
		at++
	}
	return at
}

// The rights that are generated are enough for all that the operator does, and each of them
// is used; and without any one of them, something does not work and says so.
func TestGeneratedRightsAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	newCluster(t).installCRDs(shipped)
	s := newScenario(t)
	require.Equal(t, len(s.steps()), s.walk(func() bool { return false }), "step")
	require.Empty(t, s.use.lackedAny())
	require.NotContains(t, s.operator.log.String(), "is forbidden: User")
	// What only an admission plugin asks for, no request shows.
	asked := s.withoutWhatIsAsked(t)
	var unused sets.Set[install.Right]
	require.Eventually(t, func() bool {
		unused = s.use.unused(s.all()).Difference(asked)
		return unused.Len() == 0
	}, testcluster.Timeout, testcluster.Poll, "superfluous: %v", unused)

	t.Run("without", func(t *testing.T) {
		for right := range s.all() {
			right.Name = strings.ReplaceAll(right.Name, s.namespace, "NAMESPACE")
			t.Run(strings.TrimSpace(fmt.Sprintf("%s %s %s", right.Verb, schema.GroupResource{Group: right.Group, Resource: right.Resource}, right.Name)), func(t *testing.T) {
				t.Parallel()
				s := newScenario(t, right)
				broken := func() bool {
					return s.use.lacked(right) || strings.Contains(s.operator.log.String(), "missing rights: "+right.In(s.namespace)+";")
				}
				require.Less(t, s.walk(broken), len(s.steps()), "everything works")
				require.True(t, broken(), "something else is broken; log:\n%s", s.operator.log)
			})
		}
	})
}

// withoutWhatIsAsked takes the rights away that only the admission plugin
// OwnerReferencesPermissionEnforcement asks for, and sees children be refused. It returns them.
func (s *scenario) withoutWhatIsAsked(t *testing.T) sets.Set[install.Right] {
	t.Helper()
	stalled := func(resource schema.GroupVersionResource, name, message string) {
		t.Helper()
		s.await(resource, name, "refused", func(o *unstructured.Unstructured) bool {
			_, _, is := condition(o, "Stalled")
			return strings.Contains(is, message)
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

	// A ConfigMap that has lost its owner is adopted.
	deletion := install.Right{Resource: "configmaps", Verb: "delete"}
	s.grant(without(t, s.rights, deletion))
	s.patch(configMaps, "w-config", `{"metadata":{"ownerReferences":null}}`)
	stalled(watchers, "w", "cannot set an ownerRef on a resource you can't delete")
	return sets.New(append(finalizers, deletion)...)
}

// The same for what --install-crds takes: without one of these rights, the kind is not run.
func TestRightsToInstallCRDs(t *testing.T) {
	t.Parallel()
	for _, removed := range []string{"", "create", "get", "patch"} {
		t.Run("without "+removed, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			dir, added := writeKind(t, strings.ReplaceAll(rightsKind, "rights.example.com", c.namespace+".example.com"))
			definition := added[0].Name()
			crd := install.Right{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions", Name: definition}
			t.Cleanup(func() {
				err := c.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource(crd.Resource)).Delete(context.Background(), definition, metav1.DeleteOptions{})
				require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
			})
			shipped, err := kind.Shipped()
			require.NoError(t, err)
			wanted := c.installation(false)
			wanted.InstallCRDs = true
			parts, err := wanted.parts(append(shipped, added...), nil)
			require.NoError(t, err)
			lacking := crd
			lacking.Verb = removed
			use := watchRights(c.proxy)
			config := c.grant(without(t, rightsIn(install.Objects(parts)), lacking))
			o := c.launchAs(c.proxy.through(config), "--install-crds", "--kinds", dir)
			if removed != "" {
				o.awaitLog("missing=\"kind Thing: ")
				require.Contains(t, o.log.String(), "CRD "+definition)
				require.True(t, use.lacked(lacking), "%v", use.lackedAny())
				return
			}
			o.awaitLog("kind=Thing group=" + c.namespace + ".example.com workers=")
			rights := sets.New[install.Right]()
			for _, verb := range []string{"create", "get", "patch"} {
				crd.Verb = verb
				rights.Insert(crd)
			}
			require.Empty(t, use.unused(rights))
			require.Empty(t, use.lackedAny())
		})
	}
}
