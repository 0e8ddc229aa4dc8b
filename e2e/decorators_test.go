package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	statefulSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}
	services     = schema.GroupVersionResource{Version: "v1", Resource: "services"}
)

// servicePerPod is a decorator of StatefulSets.
const (
	servicePerPod      = "../examples/serviceperpod"
	servicePorts       = "service-per-pod-ports"
	withoutPorts       = `{"metadata":{"annotations":{"` + servicePorts + `":null}}}`
	ofServicePerPod    = "fescue.dev/decorator=ServicePerPod"
	servicePerPodLabel = "fescue.dev/decorator"
)

// createSet creates a StatefulSet, with the annotation if ports are given.
func (c *cluster) createSet(name string, replicas int64, ports string) *unstructured.Unstructured {
	c.t.Helper()
	metadata := map[string]any{"name": name}
	if ports != "" {
		metadata["annotations"] = map[string]any{servicePorts: ports}
	}
	return c.create(statefulSets, "StatefulSet", name, map[string]any{
		"metadata": metadata,
		"spec": map[string]any{
			"replicas": replicas, "serviceName": name, "selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}},
			},
		},
	})
}

// awaitServices waits until exactly these Services of the decorator exist.
func (c *cluster) awaitServices(names ...string) {
	c.t.Helper()
	var found []string
	require.True(c.t, testcluster.WaitUntil(func() bool {
		found = nil
		for _, s := range c.list(services, ofServicePerPod) {
			found = append(found, s.GetName())
		}
		slices.Sort(found)
		return slices.Equal(found, names)
	}), "there are %v instead of %v", found, names)
}

// targetPort returns the port of the Pod of a Service with one port; 0 if it has others.
func targetPort(service *unstructured.Unstructured) int64 {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	if len(ports) != 1 {
		return 0
	}
	port, _ := ports[0].(map[string]any)
	target, _ := port["targetPort"].(int64)
	return target
}

// statusOfDecorated returns what fescue status prints of the objects of the decorator.
func (c *cluster) statusOfDecorated() string {
	c.t.Helper()
	kubeconfig := filepath.Join(c.t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(c.t, kubeconfig, testcluster.Config(c.t), c.namespace)
	out, err := exec.CommandContext(c.t.Context(), "fescue", "status", "--kubeconfig", kubeconfig, "--kinds", servicePerPod, "--shipped-kinds=false").CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return string(out)
}

// eventNote waits for an Event about an object with a reason, and returns its note.
func (c *cluster) eventNote(name, reason string) (note string) {
	c.t.Helper()
	require.True(c.t, testcluster.WaitUntil(func() bool {
		list, err := c.objects(events).List(c.t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=" + name + ",reason=" + reason})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		note, _, _ = unstructured.NestedString(list.Items[len(list.Items)-1].Object, "note")
		return true
	}), "%s has no Event %s", name, reason)
	return note
}

// Existing objects get children, which follow them and go with the annotation, and with the object. The
// objects themselves are not written.
func TestDecorator(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--kinds", servicePerPod)
	c.createSet("plain", 1, "")
	c.createSet("web", 2, "80:8080")
	c.awaitServices("web-0", "web-1")
	require.Contains(t, c.eventNote("web", "Decorated"), "ServicePerPod created 2 children")

	c.patch(statefulSets, "web", `{"spec":{"replicas":3}}`)
	c.awaitServices("web-0", "web-1", "web-2")
	c.patch(services, "web-1", `{"spec":{"ports":[{"name":"port-80","port":80,"targetPort":81}]}}`)
	c.await(services, "web-1", "corrected", func(o *unstructured.Unstructured) bool { return targetPort(o) == 8080 })
	c.patch(statefulSets, "web", `{"metadata":{"annotations":{"`+servicePorts+`":"90"}}}`)
	c.await(services, "web-1", "changed", func(o *unstructured.Unstructured) bool { return targetPort(o) == 90 })
	c.delete(services, "web-0")
	c.awaitServices("web-0", "web-1", "web-2")
	c.patch(services, "web-1", `{"metadata":{"labels":{"`+servicePerPodLabel+`":"Other"}}}`)
	isLabelled := func(o *unstructured.Unstructured) bool { return o.GetLabels()[servicePerPodLabel] == "ServicePerPod" }
	c.await(services, "web-1", "labelled again", isLabelled)
	o.kill()
	c.patch(services, "web-2", `{"metadata":{"labels":{"`+servicePerPodLabel+`":"Other"}}}`)
	o = c.start("--kinds", servicePerPod)
	c.await(services, "web-2", "labelled again after a start", isLabelled)
	c.patch(statefulSets, "plain", `{"metadata":{"annotations":{"`+servicePorts+`":"90"}}}`)
	c.awaitServices("plain-0", "web-0", "web-1", "web-2")

	require.Regexp(t, `StatefulSet/web \(ServicePerPod\) +Current +- +- +\S+ +Reconciled`, c.statusOfDecorated())

	c.patch(statefulSets, "web", withoutPorts)
	c.awaitServices("plain-0")
	require.NotContains(t, c.statusOfDecorated(), "StatefulSet/web")
	require.Contains(t, c.eventNote("web", "Undecorated"), "the object no longer has the annotation "+servicePorts)
	require.NoError(t, c.objects(statefulSets).Delete(t.Context(), "plain", metav1.DeleteOptions{}))
	c.awaitServices()

	for _, request := range c.proxy.requests.all() {
		if strings.Contains(request, "/statefulsets") {
			require.True(t, strings.HasPrefix(request, "GET "), request)
		}
	}
	require.NotContains(t, o.log.String(), "level=ERROR")
}

// A decorator neither takes over nor deletes what it did not create: a Service of the name of a child,
// a copy of a child, and what someone labels as its own.
func TestDecoratorDeletesNothingElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--kinds", servicePerPod)
	spec := map[string]any{"ports": []any{map[string]any{"port": int64(1)}}}
	taken := c.create(services, "Service", "web-0", map[string]any{"spec": spec})
	set := c.createSet("web", 2, "80")
	c.awaitServices("web-1")
	require.Contains(t, c.eventNote("web", "ChildRejected"), `services "web-0" exists and was not created for this object`)

	require.Regexp(t, `StatefulSet/web \(ServicePerPod\) +InProgress .*service-0.*; last Warning: child "service-0": services "web-0" exists`, c.statusOfDecorated())

	child, err := c.get(services, "web-1")
	require.NoError(t, err)
	metadata := child.Object["metadata"].(map[string]any)
	copied := c.create(services, "Service", "copied", map[string]any{
		"metadata": map[string]any{"name": "copied", "labels": metadata["labels"], "annotations": metadata["annotations"], "ownerReferences": metadata["ownerReferences"]},
		"spec":     spec,
	})
	labelled := c.create(services, "Service", "labelled", map[string]any{
		"metadata": map[string]any{
			"name": "labelled", "labels": map[string]any{servicePerPodLabel: "ServicePerPod", "fescue.dev/owner-uid": string(set.GetUID()), "fescue.dev/child": "service-5"},
		},
		"spec": spec,
	})
	o.kill()
	c.patch(statefulSets, "web", withoutPorts)
	c.start("--kinds", servicePerPod)
	c.awaitGone(services, "web-1")
	c.eventNote("web", "ForeignObject")
	for _, other := range []*unstructured.Unstructured{taken, copied, labelled} {
		c.requireUntouched(services, other)
	}
}

// What an object loses while no process runs is noticed by the next one: the annotation, or its life.
func TestDecoratorAfterDowntime(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start("--kinds", servicePerPod)
	for _, name := range []string{"gone", "lost", "stays"} {
		c.createSet(name, 1, "80")
	}
	c.awaitServices("gone-0", "lost-0", "stays-0")
	o.kill()
	c.patch(statefulSets, "lost", withoutPorts)
	require.NoError(t, c.objects(statefulSets).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	require.NoError(t, c.objects(statefulSets).Delete(t.Context(), "stays", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	c.await(services, "stays-0", "orphaned", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 0 })
	c.awaitGone(statefulSets, "stays")
	again := c.createSet("stays", 1, "80")
	c.start("--kinds", servicePerPod)
	c.awaitServices("stays-0")
	c.await(services, "stays-0", "adopted", func(o *unstructured.Unstructured) bool { return metav1.IsControlledBy(o, again) })
}

// rivals are decorators of the same objects. Both want a child of the same name, and each has others.
const rivals = `
package rivals

import "fescue.dev/cue/contract"

#OneDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", selector: matchLabels: rivals: "yes"}
	object: _
	children: {
		same: template: {apiVersion: "v1", kind: "Secret", metadata: name: object.metadata.name + "-same", stringData: by: "one"}
		own: template: {apiVersion: "v1", kind: "Secret", metadata: name: object.metadata.name + "-one"}
		echo: template: {apiVersion: "v1", kind: "ConfigMap", metadata: labels: rivals: "yes", data: object.data}
	}
}
#TwoDecorator: contract.#Decorator & {
	target: {apiVersion: "v1", kind: "ConfigMap", annotation: "two"}
	object: _
	children: {
		same: template: {apiVersion: "v1", kind: "Secret", metadata: name: object.metadata.name + "-same", stringData: by: "two"}
		own: template: {apiVersion: "v1", kind: "Secret", metadata: name: object.metadata.name + "-two"}
	}
}
`

// Two decorators of one object leave each other's children alone, and one does not decorate what it has
// created itself.
func TestDecoratorsOfOneObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, _ := writeKind(t, rivals)
	o := c.start("--kinds", dir)
	c.create(configMaps, "ConfigMap", "a", map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"rivals": "yes"}}, "data": map[string]any{"x": "1"},
	})
	exists := func(*unstructured.Unstructured) bool { return true }
	c.await(secrets, "a-same", "of One", func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/decorator"] == "One" })
	c.await(configMaps, "a-echo", "created", exists)
	c.patch(configMaps, "a", `{"metadata":{"annotations":{"two":""}}}`)
	c.await(secrets, "a-two", "created", exists)
	require.Contains(t, c.eventNote("a", "ChildRejected"), `secrets "a-same" exists and was created by the decorator One for ConfigMap "a"`)

	// What the object has no generation for is followed as well.
	c.patch(configMaps, "a", `{"data":{"x":"2"}}`)
	c.await(configMaps, "a-echo", "2", func(o *unstructured.Unstructured) bool {
		x, _, _ := unstructured.NestedString(o.Object, "data", "x")
		return x == "2"
	})
	require.Len(t, c.list(configMaps, "rivals=yes"), 2, "the echo has no echo")

	// When One is over, Two gets the child.
	one, err := c.get(secrets, "a-same")
	require.NoError(t, err)
	o.kill()
	c.patch(configMaps, "a", `{"metadata":{"labels":{"rivals":null}}}`)
	c.start("--kinds", dir)
	c.awaitGone(secrets, "a-one")
	c.awaitGone(configMaps, "a-echo")
	c.await(secrets, "a-same", "of Two", func(o *unstructured.Unstructured) bool {
		return o.GetLabels()["fescue.dev/decorator"] == "Two" && o.GetUID() != one.GetUID()
	})
	c.await(secrets, "a-two", "kept", exists)
}

// The rights of a decorator are needed, and no others: without one of them, it does not run and names it.
func TestRightsOfDecoratorsAreExact(t *testing.T) {
	t.Parallel()
	needed := []install.Right{
		{Group: "apps", Resource: "statefulsets", Verb: "list"}, {Group: "apps", Resource: "statefulsets", Verb: "watch"},
		{Resource: "services", Verb: "create"}, {Resource: "services", Verb: "delete"}, {Resource: "services", Verb: "get"},
		{Resource: "services", Verb: "list"}, {Resource: "services", Verb: "patch"}, {Resource: "services", Verb: "watch"},
		{Group: "events.k8s.io", Resource: "events", Verb: "create"},
	}
	for _, missing := range append([]install.Right{{}}, needed...) {
		t.Run("without "+strings.TrimSpace(missing.Verb+" "+missing.Resource), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.env = []string{"KUBE_FEATURE_WatchListClient=false"} // list first, as with API servers that cannot stream it
			rights := c.installation(false).rights(t, kindtest.FromDir(t, servicePerPod))
			use := watchRights(c.proxy)
			o := c.launchAs(c.proxy.through(c.grant(without(t, rights, missing))), "--kinds", servicePerPod, "--shipped-kinds=false")
			if missing.Verb != "" {
				o.awaitLog("missing rights: " + missing.In(c.namespace) + ";")
				return
			}
			o.awaitReady()
			c.create(services, "Service", "web-0", map[string]any{"spec": map[string]any{"ports": []any{map[string]any{"port": int64(1)}}}})
			c.createSet("web", 2, "80")
			c.awaitServices("web-1")
			c.patch(services, "web-1", `{"spec":{"ports":[{"name":"port-80","port":80,"targetPort":81}]}}`)
			c.await(services, "web-1", "corrected", func(o *unstructured.Unstructured) bool { return targetPort(o) == 80 })
			c.eventNote("web", "ChildRejected")
			c.patch(statefulSets, "web", withoutPorts)
			c.awaitServices()
			all := flatten(nil)
			for _, object := range rights {
				for right := range flatten(rulesOf(t, object)) {
					if !strings.HasPrefix(right.Resource, "lease") && right.Resource != "secrets" {
						all.Insert(right)
					}
				}
			}
			require.ElementsMatch(t, needed, all.UnsortedList())
			require.True(t, testcluster.WaitUntil(func() bool { return use.unused(all).Len() == 0 }), "%v", use.unused(all))
			require.Empty(t, use.missingAny())
		})
	}
}
