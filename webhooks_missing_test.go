package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/informers"
)

// agentKind injects an environment variable.
const agentKind = `package agent

import (
	"fescue.dev/cue/contract"
	"fescue.dev/cue/k8s"
)

#Agent: {
	apiVersion!: "GROUP/v1"
	kind!:       "Agent"
	metadata!:   k8s.#ObjectMeta
	spec!: value!: string
	status?: contract.#Status
}

#AgentController: contract.#Controller & {
	object!: #Agent
	names: plural: "agents"
	inject: {
		annotation: "GROUP/inject"
		add: spec: containers: [{name: "a", env: [{name: "AGENT", value: object.spec.value}]}]
	}
}
`

// launchWebhooks starts an operator with webhooks and health, with the rights of an installation
// for kinds but those that are removed.
func (c *cluster) launchWebhooks(kinds []*kind.Kind, removed []install.Right, args ...string) *operator {
	c.t.Helper()
	typed, err := kubernetes.NewForConfig(restConfig(c.t))
	require.NoError(c.t, err)
	parts, err := c.installation(true).partsFor(kinds, nil)
	require.NoError(c.t, err)
	config := c.grant(without(c.t, rightsIn(install.Objects(parts)), removed...))
	address, name := freePort(c.t, "127.0.0.1"), c.installation(true).ClusterName()
	c.t.Cleanup(func() { removeWebhooks(c.t, typed, name) })
	return c.launchAs(c.proxy.through(config), append(args, "--health-listen", "127.0.0.1:0", "--webhook-listen", address,
		"--webhook-url", "https://"+address, "--webhook-configuration", name, "--webhook-secret", c.namespace+"/"+defaultSecret)...)
}

// A kind that injects and whose CRD is not there holds up no other; when it is, Pods get it.
func TestInjectingKindWithoutCRD(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	c.installCRDs(shipped)
	dir, group := t.TempDir(), c.namespace+".example.com"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agent.cue"), []byte(strings.ReplaceAll(agentKind, "GROUP", group)), 0o600))
	added, err := kind.FromDir(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		err := c.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Delete(context.Background(), "agents."+group, metav1.DeleteOptions{})
		require.True(t, err == nil || apierrors.IsNotFound(err), "%v", err)
	})
	operator := c.launchWebhooks(append(shipped, added...), nil, "--kinds", dir)
	operator.awaitLog("webhooks are registered")
	require.True(t, waitUntil(func() bool {
		code, _ := get(t, operator.address("--health-listen")+"/readyz")
		return code == http.StatusOK
	}))
	require.True(t, waitUntil(func() bool { return c.try(watchers, "Watcher", "w", map[string]any{"container": watching}) }))
	typed, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	injected := func(annotations map[string]string) string {
		pod, err := typed.CoreV1().Pods(c.namespace).Create(t.Context(), podWith(annotations), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return pod.Annotations[inject.StatusAnnotation]
	}
	require.True(t, waitUntil(func() bool {
		return strings.Contains(injected(map[string]string{"watch.fescue.dev/inject": "w"}), `/w":{"generation"`)
	}))
	asking := map[string]string{"watch.fescue.dev/inject": "w", group + "/inject": "x"}
	text := injected(asking)
	require.Contains(t, text, `/w":{"generation"`)
	require.Contains(t, text, `/x":{"reason":"Unavailable"`)

	c.installCRDs(added)
	agents := added[0].GroupVersionResource()
	require.True(t, waitUntil(func() bool { return c.try(agents, "Agent", "x", map[string]any{"value": "v"}) }))
	require.True(t, waitUntil(func() bool { return strings.Contains(injected(asking), `/x":{"generation"`) }))
}

// Who may not read the namespaces does not know what they enforce, is not ready, and lets no
// object inject.
func TestWebhooksWithoutNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	c.installCRDs(shipped)
	operator := c.launchWebhooks(shipped, []install.Right{{Resource: "namespaces", Verb: "list"}, {Resource: "namespaces", Verb: "watch"}})
	operator.awaitLog("webhooks are registered")
	require.True(t, waitUntil(func() bool {
		_, body := get(t, operator.address("--health-listen")+"/readyz?verbose")
		return strings.Contains(body, "[+]injection ok\n[-]namespaces failed: the namespaces are still being read\n[+]caches ok\n")
	}))
	require.True(t, waitUntil(func() bool {
		_, err := c.client.Resource(watchers).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": watchers.GroupVersion().String(), "kind": "Watcher", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"container": watching},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInternalError(err) && strings.Contains(operator.log.String(), "pod security of the namespace")
	}))
	require.True(t, c.try(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}), "kinds that inject nothing do not need it")
}

// What could not be found out about a kind does not pass for something that is missing for it.
func TestFollowTellsFailureFromAbsence(t *testing.T) {
	t.Parallel()
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	client, err := dynamic.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	require.NoError(t, err)
	pods, err := admission.NewPods(admission.PodsConfig{Informers: informers.New(t.Context(), client, nil), Kinds: kinds})
	require.NoError(t, err)
	w := &webhooks{pods: pods}
	follow := func(missing error) {
		for _, k := range kinds {
			w.follow(k, missing)
		}
	}
	follow(errors.New("ask for our rights: context deadline exceeded"))
	require.ErrorContains(t, pods.Ready(), "are still being read")
	follow(errors.Join(errors.New("ask for the types of children: no answer"), absent("missing rights: list watchers.watch.fescue.dev")))
	require.NoError(t, pods.Ready())
}
