package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// object reads an object.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: corpus.Object(t, []byte(text))}
}

// get returns the only object that is selected.
func get(t *testing.T, c *Cluster, typ, name string) *unstructured.Unstructured {
	t.Helper()
	found := c.Select(Selection{typ, name})
	require.Len(t, found, 1, "%s/%s", typ, name)
	return found[0]
}

// Objects of the types that a cluster's own controllers run become Current, and again after a change.
func TestHealthyObjectsBecomeCurrent(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Pod":                   `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}`,
		"Deployment":            `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
		"ReplicaSet":            `{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {replicas: 3}}`,
		"StatefulSet":           `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 3}}`,
		"DaemonSet":             `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {}}`,
		"Job":                   `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {completions: 2}}`,
		"PersistentVolumeClaim": `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {}}`,
		"Service":               `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: LoadBalancer}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(nil, now)
			require.NoError(t, c.Apply(object(t, text)))
			if name != "Service" { // it has an address from the beginning
				require.Equal(t, "InProgress", conditionOf(get(t, c, name, "a")), "before the cluster has acted")
			}
			require.NoError(t, c.Settle())
			require.Contains(t, conditionOf(get(t, c, name, "a")), "Current")
			change := map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}}
			if strings.HasPrefix(text, "{apiVersion: apps/v1") {
				change = map[string]any{"spec": map[string]any{"replicas": int64(5)}}
			}
			require.NoError(t, c.Patch(get(t, c, name, "a"), change))
			require.NoError(t, c.Settle())
			require.Contains(t, conditionOf(get(t, c, name, "a")), "Current")
		})
	}
}

func TestJobsEndWhenTold(t *testing.T) {
	t.Parallel()
	for _, succeeded := range []bool{true, false} {
		c := New(nil, now)
		require.NoError(t, c.Apply(object(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {completions: 2}}`)))
		require.NoError(t, c.Settle())
		job := get(t, c, "job", "a")
		require.NoError(t, c.Patch(job, c.End(job, succeeded)))
		require.NoError(t, c.Settle())
		want := map[bool]string{true: "Current", false: "Failed"}
		require.Equal(t, want[succeeded], conditionOf(get(t, c, "job", "a")))
	}
	require.Nil(t, New(nil, now).End(object(t, `{apiVersion: v1, kind: ConfigMap}`), true))
}

// Applying removes what only the last manifest had, and keeps what others have added.
func TestApplyMerges(t *testing.T) {
	t.Parallel()
	c := New(nil, now)
	require.NoError(t, c.Apply(object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {mine: "1", old: "1"}}`)))
	require.NoError(t, c.Patch(get(t, c, "configmaps", "a"), map[string]any{"data": map[string]any{"theirs": "1"}}))
	require.NoError(t, c.Apply(object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {mine: "2"}}`)))
	require.Equal(t, map[string]any{"mine": "2", "theirs": "1"}, get(t, c, "configmaps", "a").Object["data"])
	require.EqualError(t, c.Patch(get(t, c, "configmaps", "a"), map[string]any{"kind": "Secret"}), "apiVersion, kind, name, namespace and uid cannot be changed")
}

// What an object controls is deleted with it; an object with a finalizer stays until that is gone.
func TestDelete(t *testing.T) {
	t.Parallel()
	c := New([]*kind.Kind{enginetest.Shipped(t, "Customcluster")}, now)
	require.NoError(t, c.Apply(customcluster(2)))
	require.NoError(t, c.Settle())
	member := c.Objects()[2]
	require.Equal(t, "Pod", member.GetKind())
	require.NoError(t, c.Patch(member, map[string]any{"metadata": map[string]any{"finalizers": []any{"example.com/hold"}}}))
	c.Delete(get(t, c, "cpod", "c"))
	require.NoError(t, c.Settle())
	require.Len(t, c.Objects(), 1)
	held := get(t, c, "pod", member.GetName())
	require.NotNil(t, held.GetDeletionTimestamp())
	require.NoError(t, c.Patch(held, map[string]any{"metadata": map[string]any{"finalizers": nil}}))
	require.Empty(t, c.Objects())
}

// A year with one reconcile a day costs no time.
func TestTimePasses(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, `package k

import "fescue.dev/cue/contract"

#Clock: {apiVersion!: "clocks.example.com/v1", kind!: "Clock", metadata!: {name!: string, ...}, status?: {contract.#Status, phase?: "TICK" | "TOCK"}}
#ClockController: contract.#Controller & {
	object!: #Clock
	names: plural: "clocks"
	initial: "TICK"
	phases: {
		TICK: next: [{to: "TOCK", after: "24h"}]
		TOCK: next: [{to: "TICK", after: "24h"}]
	}
}`)
	c := New([]*kind.Kind{k}, now)
	require.NoError(t, c.Apply(object(t, `{apiVersion: clocks.example.com/v1, kind: Clock, metadata: {name: a}}`)))
	require.NoError(t, c.Wait(365*24*time.Hour))
	require.Len(t, c.Take(), 1+365)
	clock := get(t, c, "clock", "a")
	require.Equal(t, now.Add(366*24*time.Hour), c.WakeAt(clock))
	require.Equal(t, "TOCK", StateOf(clock, nil).Status["phase"])
}

const blinker = `package k

import "fescue.dev/cue/contract"

#Blinker: {apiVersion!: "blinkers.example.com/v1", kind!: "Blinker", metadata!: {name!: string, ...}, status?: contract.#Status}
#BlinkerController: contract.#Controller & {
	object!: #Blinker
	observed: _
	names: plural: "blinkers"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}, {apiVersion: "apps/v1", kind: "Deployment"}, {apiVersion: "blinkers.example.com/v1", kind: "Blinker"}]
	children: {CHILDREN}
}`

// blink runs a Blinker until nothing happens.
func blink(t *testing.T, children string) (*Cluster, error) {
	k := enginetest.Kind(t, strings.ReplaceAll(blinker, "CHILDREN", children))
	c := New([]*kind.Kind{k}, now)
	require.NoError(t, c.Apply(object(t, `{apiVersion: blinkers.example.com/v1, kind: Blinker, metadata: {name: a}}`)))
	return c, c.Settle()
}

// A behaviour that undoes what it does is slowed down, as in the engine.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	c, err := blink(t, `if observed.light == _|_ {light: template: {apiVersion: "v1", kind: "ConfigMap"}}`)
	require.NoError(t, err)
	stalled := func() string { return StateOf(get(t, c, "blinker", "a"), nil).Conditions["Stalled"] }
	require.Contains(t, stalled(), `True NoProgress: `)
	require.Contains(t, stalled(), `created configmaps "a-light", deleted configmaps "a-light"`)
	require.Equal(t, now.Add(time.Second), c.WakeAt(get(t, c, "blinker", "a")))
	c.Take()
	require.NoError(t, c.Wait(time.Hour))
	require.Less(t, len(c.Take()), 50)
	require.Contains(t, stalled(), "NoProgress")
}

// A child that is deleted and created again because of what others do to it is slowed down, as in the engine.
func TestReplacedRepeatedly(t *testing.T) {
	t.Parallel()
	c, err := blink(t, `if observed.light.status.readyReplicas == _|_ {light: template: {apiVersion: "apps/v1", kind: "Deployment"}}`)
	require.NoError(t, err)
	c.Take()
	require.NoError(t, c.Wait(time.Hour))
	require.Less(t, len(c.Take()), 50)
	require.Equal(t, `True ReplacedRepeatedly: child "light": deployments "a-light" is deleted and recreated repeatedly; further deletions are delayed`,
		StateOf(get(t, c, "blinker", "a"), nil).Conditions["Stalled"])
}

// A child that someone else changes back after each correction is corrected less and less often, as in the engine.
func TestContested(t *testing.T) {
	t.Parallel()
	c, err := blink(t, `light: {update: "Apply", template: {apiVersion: "v1", kind: "ConfigMap", data: color: "red"}}`)
	require.NoError(t, err)
	color := func() string {
		text, _, _ := unstructured.NestedString(get(t, c, "configmap", "a-light").Object, "data", "color")
		return text
	}
	for range 5 {
		require.Equal(t, "red", color())
		require.NoError(t, c.Patch(get(t, c, "configmap", "a-light"), map[string]any{"data": map[string]any{"color": "green"}}))
		require.NoError(t, c.Settle())
	}
	require.NoError(t, c.Patch(get(t, c, "configmap", "a-light"), map[string]any{"data": map[string]any{"color": "green"}}))
	require.NoError(t, c.Settle())
	require.Equal(t, "green", color())
	require.Contains(t, StateOf(get(t, c, "blinker", "a"), nil).Conditions["Stalled"], "True Contested: ")
	require.NoError(t, c.Wait(time.Second))
	require.Equal(t, "red", color())
	require.NoError(t, c.Wait(2*time.Minute))
	require.NotContains(t, StateOf(get(t, c, "blinker", "a"), nil).Conditions, "Stalled")
}

// Writes without an end to which others contribute are an error, and not an endless loop: each member has another name.
func TestEndlessWritesAreAnError(t *testing.T) {
	t.Parallel()
	_, err := blink(t, `light: {replicas: 1, update: "Recreate", template: {
		apiVersion: "apps/v1", kind: "Deployment"
		metadata: labels: ready: "\(len([for l in observed.light if l.status.readyReplicas != _|_ {1}]))"
	}}`)
	require.ErrorContains(t, err, "at 2030-01-01T00:00:00Z, the same is written again and again: ")
}

// Children that lead back to their own type end after ten generations, as in the engine.
func TestChildrenThatLeadBackEnd(t *testing.T) {
	t.Parallel()
	c, err := blink(t, `if object.metadata.name != "z" {next: template: {apiVersion: "blinkers.example.com/v1", kind: "Blinker", metadata: {}}}`)
	require.NoError(t, err)
	require.Len(t, c.Select(Selection{"blinker", ""}), 11)
	last := StateOf(get(t, c, "blinker", "a"+strings.Repeat("-next", 10)), nil)
	require.Contains(t, last.Conditions["Stalled"], `True EndlessChildren: child "next": it is not created: 11 objects of type Blinker.blinkers.example.com lead to it`)
}

func TestKindsOfSelections(t *testing.T) {
	t.Parallel()
	c := New([]*kind.Kind{enginetest.Shipped(t, "Customcluster")}, now)
	for name, known := range map[string]bool{
		"Customcluster": true, "customclusters": true, "cpod": true, "customclusters.samplecontroller.fescue.dev": true,
		"customcluster.samplecontroller.fescue.dev": true, "customclusters.v1alpha1.samplecontroller.fescue.dev": true,
		"customclusters.v1.samplecontroller.fescue.dev": false, "customclusters.example.com": false,
		"pod": true, "PODS": true, "pods.v1": false, "configmap": false, "": false,
	} {
		require.Equal(t, known, c.Known(Selection{Type: name}), name)
	}
	require.NoError(t, c.Apply(object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`)))
	require.True(t, c.Known(Selection{Type: "configmap"}))
	require.Equal(t, metav1.NamespaceDefault, get(t, c, "configmap", "a").GetNamespace())
}
