package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// copyOf creates a copy of an object under another name, as
// `kubectl get -o yaml | sed | kubectl create -f -` does: with its labels, annotations and owner
// references, unless keepReferences is false.
func (c *cluster) copyOf(resource schema.GroupVersionResource, name, as string, keepReferences bool) *unstructured.Unstructured {
	c.t.Helper()
	original, err := c.get(resource, name)
	require.NoError(c.t, err)
	copied := original.DeepCopy()
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(copied.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(copied.Object, "spec", "nodeName")
	delete(copied.Object, "status")
	copied.SetName(as)
	if !keepReferences {
		copied.SetOwnerReferences(nil)
	}
	created, err := c.objects(resource).Create(c.t.Context(), copied, metav1.CreateOptions{})
	require.NoError(c.t, err)
	return created
}

// requireUntouched fails if an object is being deleted, is gone, or has other metadata.
func (c *cluster) requireUntouched(resource schema.GroupVersionResource, created *unstructured.Unstructured) {
	c.t.Helper()
	live, err := c.get(resource, created.GetName())
	require.NoError(c.t, err, "%s is gone", created.GetName())
	require.Nil(c.t, live.GetDeletionTimestamp(), "%s is being deleted", created.GetName())
	require.Equal(c.t, created.GetUID(), live.GetUID())
	require.Equal(c.t, created.GetOwnerReferences(), live.GetOwnerReferences())
	require.Equal(c.t, created.GetLabels(), live.GetLabels())
	require.Equal(c.t, created.GetAnnotations(), live.GetAnnotations())
}

// Copies of a child under other names are neither deleted nor adopted nor taken for the child,
// whatever metadata they have, and each is reported once.
func TestCopiesAreLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start()
	c.createWatcher("w", map[string]any{"a": "1"})
	c.awaitReady(watchers, "w")
	child, err := c.get(configMaps, "w-config")
	require.NoError(t, err)
	owner, err := c.get(watchers, "w")
	require.NoError(t, err)
	byHand := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "by-hand"}}}
	byHand.SetLabels(child.GetLabels())
	byHand.SetAnnotations(map[string]string{"fescue.dev/owner": child.GetAnnotations()["fescue.dev/owner"]})
	byHand, err = c.objects(configMaps).Create(t.Context(), byHand, metav1.CreateOptions{})
	require.NoError(t, err)
	copies := []*unstructured.Unstructured{byHand}
	for name, keepReferences := range map[string]bool{"copy": true, "copy-without-references": false} {
		// Several that one reconcile finds are reported by one Event.
		require.Equal(t, 1, c.eventsAbout(owner, "ForeignObject", copies[len(copies)-1].GetName()))
		copies = append(copies, c.copyOf(configMaps, "w-config", name, keepReferences))
	}
	// Several reconciles: the third template is written after the copies were seen.
	for _, value := range []string{"2", "3", "4"} {
		c.patch(watchers, "w", `{"spec":{"configData":{"a":"`+value+`"}}}`)
		c.await(configMaps, "w-config", "changed", func(o *unstructured.Unstructured) bool {
			text, _, _ := unstructured.NestedString(o.Object, "data", "a")
			return text == value
		})
	}
	c.awaitReady(watchers, "w")
	for _, copied := range copies {
		c.requireUntouched(configMaps, copied)
		require.Equal(t, 1, c.eventsAbout(owner, "ForeignObject", copied.GetName()), "Events about %s", copied.GetName())
	}
	require.Zero(t, o.stop())
}

// eventsAbout waits for an Event of an object that is related to another, and returns how many
// there are.
func (c *cluster) eventsAbout(owner *unstructured.Unstructured, reason, related string) (n int) {
	c.t.Helper()
	testcluster.WaitUntil(func() bool {
		list, err := c.objects(events).List(context.Background(), metav1.ListOptions{FieldSelector: "regarding.name=" + owner.GetName() + ",reason=" + reason})
		require.NoError(c.t, err)
		n = 0
		for _, event := range list.Items {
			if name, _, _ := unstructured.NestedString(event.Object, "related", "name"); name == related {
				n++
				if count, found, _ := unstructured.NestedInt64(event.Object, "series", "count"); found {
					n += int(count)
				}
			}
		}
		return n > 0
	})
	return n
}

// A copy of the Pod of a running At is not its Pod: the end of the copy does not end the At.
func TestCopyOfAPodIsNotThePod(t *testing.T) {
	t.Parallel()
	for name, keepReferences := range map[string]bool{"whole": true, "without references": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.start()
			at := c.createAt("a", longAgo, forLong)
			c.await(pods, "a-pod", "running", isRunning)
			c.awaitPhase("a", "RUNNING")
			copied := c.copyOf(pods, "a-pod", "a-pod-copy", keepReferences)
			c.await(pods, "a-pod-copy", "running", isRunning)
			c.patch(pods, "a-pod-copy", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
			c.await(pods, "a-pod-copy", "failed", func(o *unstructured.Unstructured) bool { return phaseOf(o) == "Failed" })
			require.Equal(t, 1, c.eventsAbout(at, "ForeignObject", "a-pod-copy"))
			// The reconcile after the end of the copy: one of an object that was queued later.
			c.createAt("later", longAgo, "true")
			c.awaitPhase("later", "DONE")
			object, err := c.get(ats, "a")
			require.NoError(t, err)
			require.Equal(t, "RUNNING", phaseOf(object), "the real Pod still runs")
			live, err := c.get(pods, "a-pod-copy")
			require.NoError(t, err)
			require.Equal(t, copied.GetOwnerReferences(), live.GetOwnerReferences())
			c.patch(pods, "a-pod", `{"metadata":{"annotations":{"devcluster.fescue.dev/fail":"true"}}}`)
			c.awaitPhase("a", "DONE")
		})
	}
}

// A member of a set whose labels, annotations or references were changed stays a member: all are
// deleted at count 0, also if it happened while no operator was running.
func TestDamagedMembersStayMembers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patch string
		// down is whether no operator runs meanwhile.
		down bool
	}{
		"managed-by removed":                 {patch: `{"labels":{"app.kubernetes.io/managed-by":null}}`},
		"managed-by of another tool":         {patch: `{"labels":{"app.kubernetes.io/managed-by":"Helm"}}`},
		"owner UID removed":                  {patch: `{"labels":{"fescue.dev/owner-uid":null}}`},
		"owner UID of another":               {patch: `{"labels":{"fescue.dev/owner-uid":"another"}}`},
		"child removed":                      {patch: `{"labels":{"fescue.dev/child":null}}`},
		"child of another":                   {patch: `{"labels":{"fescue.dev/child":"another"}}`},
		"a phase added":                      {patch: `{"labels":{"fescue.dev/phase":"RUNNING"}}`},
		"all labels removed":                 {patch: `{"labels":null}`},
		"all annotations removed":            {patch: `{"annotations":null}`},
		"owner changed":                      {patch: `{"annotations":{"fescue.dev/owner":"others/another"}}`},
		"references removed":                 {patch: `{"ownerReferences":null}`},
		"labels and annotations removed":     {patch: `{"labels":null,"annotations":null}`},
		"managed-by removed while down":      {patch: `{"labels":{"app.kubernetes.io/managed-by":null}}`, down: true},
		"all annotations removed while down": {patch: `{"annotations":null}`, down: true},
		"references removed while down":      {patch: `{"ownerReferences":null}`, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			dir, _ := writeKind(t, quietSet)
			o := c.start("--kinds", dir)
			c.create(quietSets, "QuietSet", "s", map[string]any{"spec": map[string]any{"count": int64(3)}})
			c.awaitReady(quietSets, "s")
			owner, err := c.get(quietSets, "s")
			require.NoError(t, err)
			var names []string
			for _, member := range c.list(configMaps, "set=s") {
				names = append(names, member.GetName())
			}
			require.Len(t, names, 3)
			damaged := slices.Max(names) // the first that is deleted
			if tc.down {
				o.kill()
				c.patch(quietSets, "s", `{"spec":{"count":1}}`)
			}
			c.patch(configMaps, damaged, `{"metadata":`+tc.patch+`}`)
			if tc.down {
				c.start("--kinds", dir)
			} else {
				c.await(configMaps, damaged, "restored", func(o *unstructured.Unstructured) bool {
					return o.GetLabels()["app.kubernetes.io/managed-by"] == "fescue" && o.GetLabels()["fescue.dev/owner-uid"] == string(owner.GetUID()) &&
						o.GetLabels()["fescue.dev/child"] == "x" && o.GetLabels()["fescue.dev/phase"] == "" &&
						o.GetAnnotations()["fescue.dev/owner"] == "quietsets.quiet.example.com/s" && metav1.IsControlledBy(o, owner)
				})
			}
			c.patch(quietSets, "s", `{"spec":{"count":0}}`)
			for _, name := range names {
				c.awaitGone(configMaps, name)
			}
			c.awaitReady(quietSets, "s")
		})
	}
}

// Of children that lose the label by which they are watched while no operator runs, one with a fixed name is found
// when it is created again. A member of a set is released: another takes its place, and it goes with its object.
func TestLabelLostWhileDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, _ := writeKind(t, quietSet)
	o := c.start("--kinds", dir)
	c.create(quietSets, "QuietSet", "s", map[string]any{"spec": map[string]any{"count": int64(3)}})
	c.awaitReady(quietSets, "s")
	members := c.list(configMaps, "set=s")
	require.Len(t, members, 3)
	first := slices.MinFunc(members, func(a, b unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	o.kill()

	const unlabelled = `{"metadata":{"labels":{"fescue.dev/owner-uid":null}}}`
	c.patch(configMaps, first.GetName(), unlabelled)
	c.patch(configMaps, "s-single", unlabelled)
	c.proxy.requests.reset()
	c.start("--kinds", dir)
	isLabelled := func(o *unstructured.Unstructured) bool { return o.GetLabels()["fescue.dev/owner-uid"] != "" }
	c.await(configMaps, "s-single", "labelled", isLabelled)
	require.True(t, testcluster.WaitUntil(func() bool { return len(c.list(configMaps, "set=s")) == 4 }), "another member takes its place")
	c.awaitReady(quietSets, "s")
	released, err := c.get(configMaps, first.GetName())
	require.NoError(t, err)
	require.False(t, isLabelled(released))
	for _, request := range c.proxy.requests.all() {
		require.NotContains(t, request, "managed-by", "nobody searches for them")
	}
	c.delete(quietSets, "s")
	c.awaitGone(configMaps, first.GetName())
}

var quietSets = schema.GroupVersionResource{Group: "quiet.example.com", Version: "v1", Resource: "quietsets"}

// quietSet is a set that ignores unmanaged objects, and a single child.
const quietSet = `
package quiet

import "fescue.dev/cue/contract"

#QuietSet: {apiVersion!: "quiet.example.com/v1", kind!: "QuietSet", metadata!: {name!: string, ...}, spec!: count!: int & >=0 & <=10, status?: contract.#Status}
#QuietSetController: contract.#Controller & {
	object!: #QuietSet
	names: plural: "quietsets"
	children: {
		x: {replicas: object.spec.count, template: {apiVersion: "v1", kind: "ConfigMap", metadata: {name: object.metadata.name, labels: set: object.metadata.name}}}
		single: template: {apiVersion: "v1", kind: "ConfigMap"}
	}
}
`
