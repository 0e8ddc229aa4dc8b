package kind_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
)

var (
	podType       = apischema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	configMapType = apischema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
)

// The caches of children of the shipped kinds hold what these read.
func TestWhatIsReadOfChildren(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]*kind.Kind{
		"At":            kindtest.Named(t, kindtest.Shipped(t), "At"),
		"Customcluster": kindtest.Named(t, kindtest.Shipped(t), "Customcluster"),
	} {
		require.False(t, k.Corrected.Has(podType), name)
		require.Equal(t, parts.Of([]string{"status", "phase"}), k.ReadOfChildren(), name)
	}

	k := kindtest.From(t, childrenText)[0]
	require.True(t, k.Corrected.Has(configMapType))
	require.False(t, k.Corrected.Has(podType))
	require.Equal(t, parts.Of([]string{"data", "done"}, []string{"spec", "containers", parts.Each, "image"},
		[]string{"status", "phase"}), k.ReadOfChildren())
}

// A loop over all that is observed reads children, and the members of sets.
func TestWhatALoopOverAllReads(t *testing.T) {
	t.Parallel()
	text := strings.Replace(childrenText, "\t\timages:", "\t\tnodes: [for _, list in observed for m in list {m.spec.nodeName}]\n\t\timages:", 1)
	k := kindtest.From(t, text)[0]
	pod := map[string]any{"spec": map[string]any{"nodeName": "n", "hostname": "h"}}
	require.Equal(t, map[string]any{"spec": map[string]any{"nodeName": "n"}}, k.ReadOfChild("pods", pod))
	require.Equal(t, "n", k.ReadOfChildren().In(pod).(map[string]any)["spec"].(map[string]any)["nodeName"])
}

// The fields of a child are compared if its update policy may be Apply for some object.
func TestConditionalUpdatePolicy(t *testing.T) {
	t.Parallel()
	for update, want := range map[string]bool{
		`update: "Recreate"`:                                                           false,
		`if object.spec.on {update: "Recreate"}`:                                       true,
		`update: [if object.spec.on {"Never"}, "Apply"][0]`:                            true,
		`if object.spec.on {update: "Never"}, if !object.spec.on {update: "Recreate"}`: true, // it could be known to be false
		`{update: "Never"}`:                                                            false,
	} {
		for _, around := range []string{"children: config: {UPDATE, ", "if object.spec.on {children: config: {UPDATE, ", "children: {if object.spec.on {config: {UPDATE, "} {
			child := strings.Replace(around, "UPDATE", update, 1) + `template: {apiVersion: "v1", kind: "ConfigMap"}` + strings.Repeat("}", strings.Count(around, "{"))
			text := strings.Replace(childrenText, "\t\tif object.spec.on {\n\t\t\tchildren: config: template: {apiVersion: \"v1\", kind: \"ConfigMap\", data: n: \"\\(len(observed.pods))\"}\n\t\t}\n", child+"\n", 1)
			require.Contains(t, text, child)
			require.Equal(t, want, kindtest.From(t, text)[0].Corrected.Has(configMapType), child)
		}
	}
}

// A field of the status is the controller's own unless the engine writes it.
func TestReadsOwnStatus(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"At": false, "Customcluster": false, "Watcher": false} {
		require.Equal(t, want, kindtest.Named(t, kindtest.Shipped(t), name).ReadsOwnStatus(), name)
	}
	for read, want := range map[string]bool{
		"object.status.phase": false, "object.status.observedGeneration": false, "object.metadata.name": false,
		"object.status.last": true, "object.status.conditions[0].reason": true, "len(object.status)": true, "[for _, v in object.status {v}][0]": true,
	} {
		text := strings.Replace(childrenText, "\tstatus: {\n", "\tstatus: {\n\t\tlast: \"\\("+read+")\"\n", 1)
		require.Equal(t, want, kindtest.From(t, text)[0].ReadsOwnStatus(), read)
	}
}

// Conditions, loops, definitions and phases contribute children too.
const childrenText = `package p

import "fescue.dev/cue/contract"

#Thing: {
	apiVersion: "example.com/v1"
	kind:       "Thing"
	metadata: {name!: string, ...}
	spec: on: *false | bool
}
#ThingController: contract.#Controller & {
	object!: #Thing
	observed: _
	names: plural: "things"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "v1", kind: "Pod"}]
	initial: "A"
	children: kept: _kept
	phases: A: {
		if object.spec.on {
			children: config: template: {apiVersion: "v1", kind: "ConfigMap", data: n: "\(len(observed.pods))"}
		}
		children: pods: {
			update: "Recreate", replicas: 2, strays: "Ignore"
			template: {apiVersion: "v1", kind: "Pod"}
		}
		next: [{to: "B", when: observed.config.data.done == "yes" && observed.kept.status != _|_}]
	}
	phases: B: terminal: true
	status: {
		images: [for p in observed.pods for c in p.spec.containers {c.image}]
		if observed.kept.status.phase != _|_ {phase: observed.kept.status.phase}
	}
}
_kept: {update: "Never", template: {apiVersion: "v1", kind: "Pod"}}
`
