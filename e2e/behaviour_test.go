package e2e

import (
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// behaviours are kinds as a user may write them, each with something that once went wrong silently.
const behaviours = `
package behaviours

import (
	"strings"

	"fescue.dev/cue/contract"
)

#Meta: {name!: string, ...}
#ConfigMap: {apiVersion: "v1", kind: "ConfigMap", ...}

// Dropping drops its child by the phase, and leaves each phase by what exists.
#Dropping: {apiVersion!: "behaviours.example.com/v1", kind!: "Dropping", metadata!: #Meta, status?: {...}}
#DroppingController: contract.#Controller & {
	object!: #Dropping
	observed: _
	names: plural: "droppings"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {if object.status.phase == "A" {x: template: #ConfigMap}}
	initial: "A"
	phases: {
		A: next: [{to: "B", when: observed.x != _|_}]
		B: next: [{to: "C", when: observed.x == _|_}]
		C: terminal: true
	}
}

// Timed names its child by the time when the phase was entered.
#Timed: {
	apiVersion!: "behaviours.example.com/v1", kind!: "Timed", metadata!: #Meta
	status?: {contract.#Status, lastPhaseTransitionTime?: strings.MaxRunes(40)}
}
#TimedController: contract.#Controller & {
	object!: #Timed
	observed: _
	names: plural: "timeds"
	initial: "A"
	phases: {
		A: next: [{to: "B", after: "1s"}]
		B: children: x: template: #ConfigMap & {metadata: name: "\(object.metadata.name)-\(strings.Join(strings.Split(strings.ToLower(object.status.lastPhaseTransitionTime), ":"), "-"))"}
	}
}

// Shaped declares a shape that Deployments do not fit.
#Shaped: {apiVersion!: "behaviours.example.com/v1", kind!: "Shaped", metadata!: #Meta, status?: {...}}
#ShapedController: contract.#Controller & {
	object!: #Shaped
	observed: db?: {status?: {replicas?: string, ...}, ...}
	names: plural: "shapeds"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		db: template: {apiVersion: "apps/v1", kind: "Deployment", spec: {
			selector: matchLabels: app: object.metadata.name
			template: {metadata: labels: app: object.metadata.name, spec: containers: [{name: "db", image: "db"}]}
		}}
		if observed.db != _|_ {web: template: #ConfigMap}
	}
}

// Waiting has a child that depends on the end of a Job.
#Waiting: {apiVersion!: "behaviours.example.com/v1", kind!: "Waiting", metadata!: #Meta, spec!: by!: "when" | "if", status?: {...}}
#WaitingController: contract.#Controller & {
	object!: #Waiting
	observed: _
	names: plural: "waitings"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		job: template: {apiVersion: "batch/v1", kind: "Job", spec: template: spec: {
			restartPolicy: "Never"
			containers: [{name: "job", image: "job", command: ["true"]}]
		}}
		if object.spec.by == "when" {
			web: {when: observed.job.status.succeeded == 1, template: #ConfigMap}
		}
		if object.spec.by == "if" if observed.job.status.succeeded == 1 {
			web: template: #ConfigMap
		}
	}
}

// Dropped has a field of the status that its schema does not have, or a condition of the engine.
#Dropped: {apiVersion!: "behaviours.example.com/v1", kind!: "Dropped", metadata!: #Meta, spec!: {field?: string, type?: string}, status?: {contract.#Status}}
#DroppedController: contract.#Controller & {
	object!: #Dropped
	names: plural: "droppeds"
	status: {if object.spec.field != _|_ {(object.spec.field): 1}}
	conditions: {if object.spec.type != _|_ {(object.spec.type): status: true}}
}

// Endless undoes what it does, or does more each time.
#Endless: {apiVersion!: "behaviours.example.com/v1", kind!: "Endless", metadata!: #Meta, spec!: grows!: bool, status?: {...}}
#EndlessController: contract.#Controller & {
	object!: #Endless
	observed: _
	names: plural: "endlesses"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		if object.spec.grows {x: template: #ConfigMap & {data: n: "i\(*observed.x.data.n | "")"}}
		if !object.spec.grows if object.status.phase == "A" {y: template: #ConfigMap}
	}
	initial: "A"
	phases: {
		A: next: [{to: "B", when: observed.y != _|_}]
		B: next: [{to: "A", when: observed.y == _|_}]
	}
}
`

// What a behaviour means holds on a real API server: nothing goes wrong silently.
func TestBehaviours(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, behaviours)
	resources := make(map[string]schema.GroupVersionResource)
	for _, k := range kinds {
		resources[k.GroupVersionKind.Kind] = k.GroupVersionResource()
	}
	o := c.start("--kinds", dir)
	create := func(kind, name string, spec map[string]any) schema.GroupVersionResource {
		var fields map[string]any
		if spec != nil {
			fields = map[string]any{"spec": spec}
		}
		c.create(resources[kind], kind, name, fields)
		return resources[kind]
	}
	configMap := func(name string) *unstructured.Unstructured {
		object, err := c.objects(configMaps).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return nil
		}
		return object
	}
	awaitConfigMap := func(name string) *unstructured.Unstructured {
		t.Helper()
		require.True(t, testcluster.WaitUntil(func() bool { return configMap(name) != nil }), "no ConfigMap %s", name)
		return configMap(name)
	}

	writesOf := func(name, verb string) (paths []string) {
		for _, path := range c.requestPaths() {
			if strings.HasPrefix(path, verb) && strings.Contains(path, name) {
				paths = append(paths, path)
			}
		}
		return paths
	}

	dropping := create("Dropping", "d", nil)
	timed := create("Timed", "t", nil)
	shaped := create("Shaped", "s", nil)
	waiting := create("Waiting", "when", map[string]any{"by": "when"})
	health := c.followHealth(waiting)
	create("Waiting", "if", map[string]any{"by": "if"})
	dropped := create("Dropped", "field", map[string]any{"field": "nope"})
	create("Dropped", "condition", map[string]any{"type": "Ready"})

	// A phase is stored before its children are dropped, so one deletion ends in the last phase.
	c.await(dropping, "d", "in phase C", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "C" })
	require.Len(t, writesOf("d-x", "DELETE"), 1)
	c.awaitEvent("d", "C") // B may have one of its own, or be passed in the same reconcile
	for _, passed := range []string{`from="" to=A`, "from=A to=B", "from=B to=C"} {
		o.awaitLog("object=" + c.namespace + "/d " + passed)
	}

	// A child is named by the time that is stored with the phase.
	c.await(timed, "t", "in phase B", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "B" })
	named := func() (n int) {
		for _, object := range c.list(configMaps, "fescue.dev/child") {
			if strings.HasPrefix(object.GetName(), "t-") {
				n++
			}
		}
		return n
	}
	require.True(t, testcluster.WaitUntil(func() bool { return named() > 0 }))
	require.Equal(t, 1, named())

	// A child that does not fit its declared shape is an error; nothing that depends on it is deleted.
	_, reason, message := c.awaitStalled(shaped, "s")
	require.Equal(t, "EvaluationFailed", reason)
	require.Contains(t, message, "observed.db.status.replicas: conflicting values ")
	require.Contains(t, message, "kind.cue:49)")

	// A child that waits keeps the object from being ready, and stays when what it waited for is gone.
	for _, name := range []string{"when", "if"} {
		web := awaitConfigMap(name + "-web")
		c.awaitReady(waiting, name)
		seen := health.after(t, name, kstatus.CurrentStatus, func() {
			c.delete(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, name+"-job")
		})
		require.Equal(t, []kstatus.Status{kstatus.InProgressStatus, kstatus.CurrentStatus}, seen)
		require.Equal(t, web.GetUID(), configMap(name+"-web").GetUID())
	}

	// What the API server would drop is an error.
	_, _, message = c.awaitStalled(dropped, "field")
	require.Contains(t, message, "status.nope: is not a field of #Dropped.status: the API server would drop it")
	_, _, message = c.awaitStalled(dropped, "condition")
	require.Contains(t, message, "conditions.Ready: is a condition of the engine")

	// A behaviour that never becomes idle is stalled and slowed down.
	create("Endless", "grows", map[string]any{"grows": true})
	create("Endless", "toggles", map[string]any{"grows": false})
	for name, want := range map[string]string{"grows": `changed configmaps "grows-x"`, "toggles": "phase A → B"} {
		_, reason, message := c.awaitStalled(resources["Endless"], name)
		require.Equal(t, "NoProgress", reason)
		require.Contains(t, message, want)
		c.awaitEvent(name, "NoProgress")
	}
	began := time.Now()
	c.proxy.requests.reset()
	require.True(t, testcluster.WaitUntil(func() bool { return time.Since(began) > 4*time.Second }))
	writes := len(slices.Concat(writesOf("grows-", "PATCH"), writesOf("/configmaps", "POST"), writesOf("toggles-", "DELETE")))
	elapsed := int(time.Since(began) / time.Second)
	require.Less(t, writes, 3*(1+bits.Len(uint(elapsed))), "writes in %d s", elapsed) // of 3 sorts, after 1, 2, 4, … s
	require.Zero(t, o.stop())
}
