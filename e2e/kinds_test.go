package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/crds"
	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testcluster"
)

// strictKind is a kind of a group of its own whose CRD is installed without its
// schema, so that the API server stores what the kind refuses.
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
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "strict.cue"), []byte(strictKind), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	open := *kinds[0]
	open.Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	require.NoError(t, crds.Install(t.Context(), c.client, []*kind.Kind{&open}))
	resource := open.GroupVersionResource()
	_, err = c.client.Resource(resource).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "strict.example.com/v1", "kind": "At", "metadata": map[string]any{"name": "bad"},
		"spec": map[string]any{"schedule": "tomorrow", "command": "echo hello"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)

	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	c.keepCRDs = true
	c.start("--kinds", dir)
	isStalled := func(o *unstructured.Unstructured) bool {
		status, _, _ := condition(o, "Stalled")
		return status == "True"
	}
	object := c.await(resource, "bad", "stalled", isStalled)
	_, reason, message := condition(object, "Stalled")
	require.Equal(t, "InvalidObject", reason)
	require.Equal(t, `spec.schedule: Invalid value: "tomorrow": must satisfy =~"Z$"`, message)
	require.Empty(t, phaseOf(object))

	require.Eventually(t, func() bool { return slices.Contains(c.eventReasonsOf("bad"), "InvalidObject") }, testcluster.Timeout, testcluster.Poll)

	// Nothing is tried again until the object changes; then it goes on at once.
	c.proxy.requests.reset()
	require.Never(t, func() bool { return len(c.proxy.requests.all()) > 0 }, 2*time.Second, testcluster.Poll)
	fixed := object.DeepCopy()
	fixed.Object["spec"] = map[string]any{"schedule": longAgo, "command": "echo hello"}
	_, err = c.client.Resource(resource).Namespace(c.namespace).Update(t.Context(), fixed, metav1.UpdateOptions{})
	require.NoError(t, err)
	object = c.await(resource, "bad", "in phase DONE", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "DONE" })
	require.False(t, isStalled(object))
}

// An installed CRD is upgraded.
func TestInstallUpgradesCRDs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.cue")
	install := func(text string) *unstructured.Unstructured {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		kinds, err := kind.FromDir(dir)
		require.NoError(t, err)
		require.NoError(t, crds.Install(t.Context(), c.client, kinds))
		definition, err := c.client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).Get(t.Context(), "as.upgrade.example.com", metav1.GetOptions{})
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

// What is wrong with a kind, and only shows when it runs, is said where people look.
func TestFaultyKinds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "faulty.cue"), []byte(`
package faulty

import "fescue.dev/cue/contract"

// The status that it projects is not of the type that its schema has.
#Wrong: {apiVersion!: "faulty.example.com/v1", kind!: "Wrong", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, number?: int}}
#WrongController: contract.#Controller & {
	object!: #Wrong
	names: plural: "wrongs"
	status: number: object.spec.text
}

#Old: {apiVersion!: "faulty.example.com/v1", kind!: "Old", metadata!: {...}, spec!: text!: string, status?: {contract.#Status, phase?: "ONLY"}}
#OldController: contract.#Controller & {
	object!: #Old
	names: plural: "olds"
	initial: "ONLY"
	phases: ONLY: next: []
}

// The template has a field that ConfigMaps do not.
#Typo: {apiVersion!: "faulty.example.com/v1", kind!: "Typo", metadata!: {...}, spec!: text!: string, status?: contract.#Status}
#TypoController: contract.#Controller & {
	object!: #Typo
	names: plural: "typos"
	children: config: template: {apiVersion: "v1", kind: "ConfigMap", dta: a: "b"}
}
`), 0o600))
	kinds, err := kind.FromDir(dir)
	require.NoError(t, err)
	require.Len(t, kinds, 3)
	wrong, typo := kinds[2], kinds[1]
	// The installed CRD of Old is from before it had phases.
	old := *kinds[0]
	old.Schema = old.Schema.DeepCopy()
	delete(old.Schema.Properties["status"].Properties, "phase")
	require.NoError(t, crds.Install(t.Context(), c.client, []*kind.Kind{&old, wrong, typo}))
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	c.keepCRDs = true
	o := c.start("--kinds", dir)
	for _, k := range kinds {
		_, err := c.client.Resource(k.GroupVersionResource()).Namespace(c.namespace).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "faulty.example.com/v1", "kind": k.GroupVersionKind.Kind, "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"text": "x"},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, tc := range []struct {
		kind            *kind.Kind
		reason, message string
	}{
		{wrong, "EvaluationFailed", `status.number: Invalid value: "string"`},
		{typo, "ChildRefused", `.dta: field not declared in schema`},
	} {
		object := c.await(tc.kind.GroupVersionResource(), "a", "stalled", func(o *unstructured.Unstructured) bool {
			status, _, _ := condition(o, "Stalled")
			return status == "True"
		})
		_, reason, message := condition(object, "Stalled")
		require.Equal(t, tc.reason, reason)
		require.Contains(t, message, tc.message)
	}
	o.awaitLog("the installed CRD is older than the kind; upgrade it")
}

// rightsKind uses every verb that kinds are granted: it has a child of each way of
// updating, and one that an if drops.
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

// What a kind lacks stops neither the process nor other kinds, is one list in the log,
// and when it is there the kind starts.
func TestKindStartsWhenItsCRDAndRightsAreThere(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shipped, err := kind.Shipped()
	require.NoError(t, err)
	require.NoError(t, crds.Install(t.Context(), c.client, shipped))
	late := strings.NewReplacer("rights.example.com", "late.example.com").Replace(rightsKind)
	dir, kinds := writeKind(t, late)
	rules, _ := c.rolesOf(shipped)
	o := c.launchAs(c.serviceAccount("fescue", rules), "--kinds", dir)
	o.awaitLog("kind=At group=cnat.fescue.dev workers=")
	o.awaitLog("kinds are not run until what they need is there")
	var line string
	for text := range strings.Lines(o.log.String()) {
		if strings.Contains(text, "kinds are not run") {
			line = text
		}
	}
	require.Contains(t, line, "kinds=1")
	require.Contains(t, line, "kind Thing: the API server does not serve things.late.example.com: install the CRDs")
	require.Contains(t, line, "missing rights: list things.late.example.com in "+c.namespace+", watch things.late.example.com in "+c.namespace+", update things.late.example.com/finalizers")
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")

	require.NoError(t, crds.Install(t.Context(), c.client, kinds))
	rules, _ = c.rolesOf(append(shipped, kinds...))
	patch, err := json.Marshal(map[string]any{"rules": rules})
	require.NoError(t, err)
	c.patch(rbacv1.SchemeGroupVersion.WithResource("roles"), "fescue", string(patch))
	o.awaitLog("kind=Thing group=late.example.com workers=")
	require.Zero(t, o.stop())
}
