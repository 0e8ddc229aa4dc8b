package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// strictKind rejects objects that the API server stores, because its CRD is installed without its
// schema.
const strictKind = `
package strict

import "fescue.dev/cue:kinds"

#At: {
	apiVersion!: "strict.example.com/v1"
	kind!:       "At"
	metadata!: {...}
	spec!: {schedule!: =~"Z$", command!: string}
	status?: kinds.#AtStatus
}

#AtController: kinds.#AtBehaviour & {
	object!: #At
	phases: RUNNING: children: pod: template: spec: containers: [{image: "busybox"}]
}
`

func TestInvalidStoredObjectIsStalled(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, strictKind)
	open := *kinds[0]
	open.Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, []*kind.Kind{&open}, crds.Webhook{}))
	resource := open.GroupVersionResource()
	c.create(resource, "At", "bad", map[string]any{"spec": map[string]any{"schedule": "tomorrow", "command": "echo hello"}})

	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, kindtest.Shipped(t), crds.Webhook{}))
	c.keepCRDs = true
	c.start("--kinds", dir)
	object, reason, message := c.awaitStalled(resource, "bad")
	require.Equal(t, "InvalidObject", reason)
	require.Equal(t, `spec.schedule: Invalid value: "tomorrow": must satisfy =~"Z$"`, message)
	require.Empty(t, phaseOf(object))

	c.awaitEvent("bad", "InvalidObject")

	// There is no retry until the object changes; then it is reconciled at once.
	c.proxy.requests.reset()
	require.True(t, testcluster.HoldsFor(2*time.Second, func() bool { return len(c.proxy.requests.all()) == 0 }), "%v", c.proxy.requests.all())
	c.patch(resource, "bad", `{"spec":{"schedule":"`+longAgo+`"}}`)
	object = c.await(resource, "bad", "in phase DONE", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "DONE" })
	require.False(t, isTrue(object, "Stalled"))
}

func TestInstallUpgradesCRDs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	install := func(text string) *unstructured.Unstructured {
		kinds := kindtest.From(t, text)
		require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, kinds, crds.Webhook{}))
		definition, err := c.client.Resource(definitions).Get(t.Context(), "as.upgrade.example.com", metav1.GetOptions{})
		require.NoError(t, err)
		return definition
	}
	const before = `
package a

import "fescue.dev/cue/contract"

#A: {apiVersion!: "upgrade.example.com/v1", kind!: "A", metadata!: {...}, spec!: old!: string, status?: contract.#Status}
#AController: contract.#Controller & {object!: #A, names: plural: "as"}
`
	first := install(before)
	require.Equal(t, first.GetResourceVersion(), install(before).GetResourceVersion(), "installing twice changes nothing")
	text, err := install(strings.ReplaceAll(before, "old", "new")).MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(text), `"properties":{"new":{"type":"string"}}`)
	require.NotContains(t, string(text), `"old"`)
}

// Faults of a kind that only show when it runs are reported in the status and in the log.
func TestFaultyKinds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, `
package faulty

import (
	"encoding/json"

	"fescue.dev/cue/contract"
)

// The behaviour computes a status of another type than the schema.
#Wrong: {apiVersion!: "faulty.example.com/v1", kind!: "Wrong", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, number?: int}}
#WrongController: contract.#Controller & {
	object!: #Wrong
	names: plural: "wrongs"
	status: number: json.Unmarshal("\"\(object.spec.text)\"")
}

#Old: {apiVersion!: "faulty.example.com/v1", kind!: "Old", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, phase?: "ONLY"}}
#OldController: contract.#Controller & {
	object!: #Old
	names: plural: "olds"
	initial: "ONLY"
	phases: ONLY: next: []
}

// The template computes the name of a field that ConfigMaps do not have.
#Typo: {apiVersion!: "faulty.example.com/v1", kind!: "Typo", metadata!: {...}, spec!: text!: string, status?: contract.#Status}
#TypoController: contract.#Controller & {
	object!: #Typo
	names: plural: "typos"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", (object.spec.text): a: "b"}
}
`)
	require.Len(t, kinds, 3)
	wrong, typo := kinds[2], kinds[1]
	// The installed CRD of Old is older than its phases.
	old := *kinds[0]
	old.Schema = old.Schema.DeepCopy()
	delete(old.Schema.Properties["status"].Properties, "phase")
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, []*kind.Kind{&old, wrong, typo}, crds.Webhook{}))
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, kindtest.Shipped(t), crds.Webhook{}))
	c.keepCRDs = true
	o := c.start("--kinds", dir)
	for _, k := range kinds {
		c.create(k.GroupVersionResource(), k.GroupVersionKind.Kind, "a", map[string]any{"spec": map[string]any{"text": "x"}})
	}
	for _, tc := range []struct {
		kind            *kind.Kind
		reason, message string
	}{
		{wrong, "EvaluationFailed", `status.number: Invalid value: "string"`},
		{typo, "ChildRejected", `unknown field "x"`},
	} {
		_, reason, message := c.awaitStalled(tc.kind.GroupVersionResource(), "a")
		require.Equal(t, tc.reason, reason)
		require.Contains(t, message, tc.message)
	}
	o.awaitLog("the installed CRD is older than the kind; upgrade it")
}

// rightsKind has a child that is updated, and one that an if drops.
const rightsKind = `package kinds

import "fescue.dev/cue/contract"

#Thing: {
	apiVersion!: "rights.example.com/v1"
	kind!:       "Thing"
	metadata!: {...}
	spec!: {text: *"" | string, extra: *true | bool}
	status?: contract.#Status
}

#ThingController: contract.#Controller & {
	object!: #Thing
	names: plural: "things"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		applied: template: {apiVersion: "v1", kind: "ConfigMap", data: text: object.spec.text}
		if object.spec.extra {
			extra: template: {apiVersion: "v1", kind: "ConfigMap"}
		}
	}
}
`

// Anything that a kind needs and does not have is listed in one line of the log, and stops neither
// the process nor other kinds. The kind starts once it has all.
func TestKindStartsOnceItHasItsCRDAndRights(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped := kindtest.Shipped(t)
	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, shipped, crds.Webhook{}))
	late := strings.NewReplacer("rights.example.com", "late.example.com").Replace(rightsKind)
	dir, kinds := writeKind(t, late)
	c.deleteCRDs(kinds[0].Name())
	rules, _ := c.rolesOf(shipped)
	config := c.serviceAccount("fescue", rules)
	c.awaitRights(config, flatten(rules))
	o := c.launchAs(config, "--kinds", dir)
	o.awaitReady()
	o.awaitLog("kind waits for what it needs")
	var line string
	for text := range strings.Lines(o.log.String()) {
		if strings.Contains(text, "kind waits for what it needs") {
			line = text
		}
	}
	require.Contains(t, line, "kind=Thing ")
	require.Contains(t, line, "the API server does not serve things.late.example.com: install the CRDs")
	require.Contains(t, line, "missing rights: list things.late.example.com in "+c.namespace+", watch things.late.example.com in "+c.namespace+", update things.late.example.com/finalizers")
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")

	require.NoError(t, testcluster.InstallCRDs(t.Context(), c.client, kinds, crds.Webhook{}))
	rules, _ = c.rolesOf(append(shipped, kinds...))
	patch, err := json.Marshal(map[string]any{"rules": rules})
	require.NoError(t, err)
	c.patch(roles, "fescue", string(patch))
	things := kinds[0].GroupVersionResource()
	c.create(things, "Thing", "t", map[string]any{"spec": map[string]any{}})
	c.awaitReady(things, "t")
	require.Zero(t, o.stop())
}
