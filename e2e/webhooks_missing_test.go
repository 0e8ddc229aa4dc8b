package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
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

// An injecting kind without its CRD does not delay other kinds. Once the CRD is installed, its
// objects are injected into Pods.
func TestInjectingKindWithoutCRD(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped := kindtest.Shipped(t)
	c.installCRDs(shipped)
	group := c.namespace + ".example.com"
	dir, added := writeKind(t, strings.ReplaceAll(agentKind, "GROUP", group))
	c.deleteCRDs("agents." + group)
	o := c.launchWebhooks(append(shipped, added...), nil, "--kinds", dir)
	c.awaitRegistration()
	o.awaitReady()
	require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(watchers, "Watcher", "w", map[string]any{"container": watchContainer}) }))
	injected := func(annotations map[string]string) string {
		pod, err := c.typed.CoreV1().Pods(c.namespace).Create(t.Context(), podWith(annotations), dryRun)
		require.NoError(t, err)
		return pod.Annotations[inject.StatusAnnotation]
	}
	require.True(t, testcluster.WaitUntil(func() bool {
		return strings.Contains(injected(map[string]string{"watch.fescue.dev/inject": "w"}), `/w":{"generation"`)
	}))
	annotated := map[string]string{"watch.fescue.dev/inject": "w", group + "/inject": "x"}
	text := injected(annotated)
	require.Contains(t, text, `/w":{"generation"`)
	require.Contains(t, text, `/x":{"reason":"Unavailable"`)

	c.installCRDs(added)
	agents := added[0].GroupVersionResource()
	require.True(t, testcluster.WaitUntil(func() bool { return c.tryCreate(agents, "Agent", "x", map[string]any{"value": "v"}) }))
	require.True(t, testcluster.WaitUntil(func() bool { return strings.Contains(injected(annotated), `/x":{"generation"`) }))
}

// Without the right to read namespaces, the operator does not know what Pod Security enforces: it
// is not ready, and rejects objects that inject.
func TestWebhooksWithoutRightToNamespaces(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped := kindtest.Shipped(t)
	c.installCRDs(shipped)
	o := c.launchWebhooks(shipped, []install.Right{{Resource: "namespaces", Verb: "list"}, {Resource: "namespaces", Verb: "watch"}})
	c.awaitRegistration()
	require.True(t, testcluster.WaitUntil(func() bool {
		_, body := get(t, o.address("--health-listen")+"/readyz")
		return strings.Contains(body, "[+]injection ok\n[-]namespaces failed: reason withheld\n[+]caches ok\n")
	}))
	require.True(t, testcluster.WaitUntil(func() bool {
		_, err := c.createBy(c.client, watchers, "Watcher", "w", map[string]any{"container": watchContainer}, dryRun)
		return apierrors.IsInternalError(err) && strings.Contains(o.log.String(), "pod security of the namespace")
	}))
	require.True(t, c.tryCreate(ats, "At", "a", map[string]any{"schedule": longAgo, "command": "echo"}), "kinds that do not inject do not need it")
}
