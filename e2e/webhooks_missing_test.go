package e2e

import (
	"context"
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
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/testcluster"
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
	o := c.launchWebhooks(append(shipped, added...), nil, "--kinds", dir)
	c.awaitRegistration(c.installation(true).ClusterName())
	require.True(t, testcluster.WaitUntil(func() bool {
		code, _ := get(t, o.address("--health-listen")+"/readyz")
		return code == http.StatusOK
	}))
	require.True(t, testcluster.WaitUntil(func() bool { return c.try(watchers, "Watcher", "w", map[string]any{"container": watching}) }))
	typed, err := kubernetes.NewForConfig(testcluster.Config(t))
	require.NoError(t, err)
	injected := func(annotations map[string]string) string {
		pod, err := typed.CoreV1().Pods(c.namespace).Create(t.Context(), podWith(annotations), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		return pod.Annotations[inject.StatusAnnotation]
	}
	require.True(t, testcluster.WaitUntil(func() bool {
		return strings.Contains(injected(map[string]string{"watch.fescue.dev/inject": "w"}), `/w":{"generation"`)
	}))
	asking := map[string]string{"watch.fescue.dev/inject": "w", group + "/inject": "x"}
	text := injected(asking)
	require.Contains(t, text, `/w":{"generation"`)
	require.Contains(t, text, `/x":{"reason":"Unavailable"`)

	c.installCRDs(added)
	agents := added[0].GroupVersionResource()
	require.True(t, testcluster.WaitUntil(func() bool { return c.try(agents, "Agent", "x", map[string]any{"value": "v"}) }))
	require.True(t, testcluster.WaitUntil(func() bool { return strings.Contains(injected(asking), `/x":{"generation"`) }))
}

// Who may not read the namespaces does not know what they enforce, is not ready, and lets no
// object inject.
func TestWebhooksWithoutNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	c.installCRDs(shipped)
	o := c.launchWebhooks(shipped, []install.Right{{Resource: "namespaces", Verb: "list"}, {Resource: "namespaces", Verb: "watch"}})
	c.awaitRegistration(c.installation(true).ClusterName())
	require.True(t, testcluster.WaitUntil(func() bool {
		_, body := get(t, o.address("--health-listen")+"/readyz")
		return strings.Contains(body, "[+]injection ok\n[-]namespaces failed: reason withheld\n[+]caches ok\n")
	}))
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err := c.client.Resource(watchers).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": watchers.GroupVersion().String(), "kind": "Watcher", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"container": watching},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInternalError(err) && strings.Contains(o.log.String(), "pod security of the namespace")
	}))
	require.True(t, c.try(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}), "kinds that inject nothing do not need it")
}
