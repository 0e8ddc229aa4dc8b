package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	idleWatchers = flag.Int("idle-watchers", 50, "Watchers of TestIdleSetsSendNoRequests")
	replacements = flag.Int("replacements", 1, "how often TestReplacementMakesEachPodOnce replaces all Pods")
	replacedSets = flag.Int("replaced-sets", 2, "the number of sets in TestReplacementMakesEachPodOnce")
	idleTime     = flag.Duration("idle-time", 5*time.Second, "how long TestIdleSetsSendNoRequests counts requests")
)

// census watches the Pods of a namespace and counts them.
type census struct {
	mu    sync.Mutex
	alive map[types.UID]*unstructured.Unstructured
	all   map[types.UID]*unstructured.Unstructured
	// most is the highest number of Pods at any time. fewest is the lowest number of ready Pods
	// since countFrom.
	most, fewest int
}

func (c *cluster) takeCensus(selector string) *census {
	c.t.Helper()
	s := &census{alive: make(map[types.UID]*unstructured.Unstructured), all: make(map[types.UID]*unstructured.Unstructured)}
	present, events := c.watch(pods, metav1.ListOptions{LabelSelector: selector})
	for i := range present {
		s.alive[present[i].GetUID()] = &present[i]
	}
	go func() {
		for event := range events {
			s.count(event)
		}
	}()
	return s
}

func (s *census) count(event watch.Event) {
	pod, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[pod.GetUID()] = pod
	if event.Type == watch.Deleted || pod.GetDeletionTimestamp() != nil {
		delete(s.alive, pod.GetUID())
	} else {
		s.alive[pod.GetUID()] = pod
	}
	s.most, s.fewest = max(s.most, len(s.alive)), min(s.fewest, s.ready())
}

func (s *census) ready() int {
	n := 0
	for _, pod := range s.alive {
		if isTrue(pod, "Ready") {
			n++
		}
	}
	return n
}

// created returns how many Pods were created since the census began.
func (s *census) created() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// requireCreated requires that exactly this many Pods were created, as soon as the census has seen them.
func (s *census) requireCreated(t *testing.T, want int, message ...any) {
	t.Helper()
	testcluster.WaitUntil(func() bool { return s.created() >= want })
	require.Equal(t, want, s.created(), message...)
}

// countFrom starts the count of the fewest ready Pods.
func (s *census) countFrom(fewest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fewest = fewest
}

func (s *census) counts() (alive, most, fewest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.alive), s.most, s.fewest
}

// awaitPod waits until the census has seen a Pod that exists.
func (s *census) awaitPod(t *testing.T, name string) {
	t.Helper()
	require.True(t, testcluster.WaitUntil(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, pod := range s.alive {
			if pod.GetName() == name {
				return true
			}
		}
		return false
	}), "the census has not seen %s", name)
}

// await waits until this many Pods are alive, as long as their number changes: a thousand take a minute on a slow machine.
func (s *census) await(t *testing.T, want int) {
	t.Helper()
	for alive, _, _ := s.counts(); alive != want; {
		before := alive
		require.True(t, testcluster.WaitUntil(func() bool { alive, _, _ = s.counts(); return alive != before }), "not %d Pods but %d", want, before)
	}
}

func TestCustomclusterKeepsItsPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.createCustomcluster("c", 8, "one")
	require.Equal(t, int64(8), statusCount(c.awaitReady(customclusters, "c")))
	census := c.takeCensus("controller=c")

	// A changed message replaces all Pods, at most a quarter at a time.
	census.countFrom(8)
	c.patch(customclusters, "c", `{"spec":{"message":"two"}}`)
	c.awaitReady(customclusters, "c")
	census.await(t, 8)
	_, most, fewest := census.counts()
	require.GreaterOrEqual(t, fewest, 6)
	require.LessOrEqual(t, most, 8)
	for _, pod := range c.list(pods, "controller=c") {
		containers, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
		if pod.GetDeletionTimestamp() == nil { // the node may take longer to remove one than to start its successor
			require.Contains(t, fmt.Sprint(containers), "value:two")
		}
	}

	for _, count := range []int{11, 2, 0, 3} {
		_, err := c.objects(customclusters).Patch(t.Context(), "c", types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, count), metav1.PatchOptions{}, "scale")
		require.NoError(t, err)
		object := c.awaitReady(customclusters, "c")
		require.Equal(t, int64(count), statusCount(object))
		_, _, message := condition(object, "Ready")
		require.Equal(t, fmt.Sprintf("pods: %d of %d ready", count, count), message)
		census.await(t, count)
	}
}

// An unmanaged Pod with the set's labels is deleted; the Pods of another owner are not.
func TestUnmanagedPodsOfASet(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	template := func(labels map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}}}
	}
	labels := map[string]any{"controller": "c", "mine": "yes"}
	c.create(replicaSets, "ReplicaSet", "other", map[string]any{"spec": map[string]any{
		"replicas": int64(2), "selector": map[string]any{"matchLabels": map[string]any{"mine": "yes"}}, "template": template(labels),
	}})
	awaitCount(t, 2, pods, "mine=yes", c)
	c.createCustomcluster("c", 2, "m")
	c.awaitReady(customclusters, "c")
	unmanaged := c.create(pods, "Pod", "unmanaged", map[string]any{
		"metadata": map[string]any{"name": "unmanaged", "labels": map[string]any{"controller": "c"}}, "spec": template(nil)["spec"],
	})
	require.Eventually(t, func() bool {
		live, err := c.get(pods, "unmanaged")
		return apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() != nil && live.GetUID() == unmanaged.GetUID()
	}, testcluster.Timeout, testcluster.Poll)
	c.awaitEvent("c", "StrayDeleted")
	list := c.list(pods, "mine=yes")
	require.Len(t, list, 2, "the Pods of the ReplicaSet are left alone")
	for _, pod := range list {
		require.Nil(t, pod.GetDeletionTimestamp())
	}
}

// Twenty sets of fifty: exactly a thousand Pods and never more, even if the operator is killed
// again and again while it creates them.
func TestNeverTooManyPods(t *testing.T) {
	t.Parallel()
	const objects, members = 20, 50
	for name, tc := range map[string]struct {
		kills int
		args  []string
	}{
		"undisturbed": {},
		"killed":      {20, []string{"--workers", "4"}}, // more workers create all Pods before the first kills
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			o := c.start(tc.args...)
			census := c.takeCensus("")
			for i := range objects {
				c.createCustomcluster(fmt.Sprintf("c-%d", i), members, "m")
			}
			random := rand.New(rand.NewPCG(1, 2))
			kills := 0
			for range tc.kills {
				// The moment is a number of writes, so that the operator is at work.
				killed, at := make(chan struct{}), random.Int64N(40)+1
				c.proxy.writes.Store(0)
				hook := func(n int64) {
					if n == at {
						_ = o.cmd.Process.Kill()
						close(killed)
					}
				}
				c.proxy.afterWrite.Store(&hook)
				isKilled := false
				require.True(t, testcluster.WaitUntil(func() bool {
					select {
					case <-killed:
						isKilled = true
					default:
					}
					alive, _, _ := census.counts()
					return isKilled || alive == objects*members
				}), "the operator writes nothing")
				c.proxy.afterWrite.Store(nil)
				if !isKilled {
					break // the work is done
				}
				kills++
				o.kill()
				o = c.launch(tc.args...)
			}
			require.GreaterOrEqual(t, kills, tc.kills/4)
			census.await(t, objects*members)
			for i := range objects {
				c.awaitReady(customclusters, fmt.Sprintf("c-%d", i))
			}
			alive, most, _ := census.counts()
			require.Equal(t, objects*members, alive)
			require.Equal(t, objects*members, most)
		})
	}
}

// A changed template replaces each member by exactly one. Here the node, kwok, may delete each Pod
// twice by its name, so a successor of the same name would be deleted as well, and so on.
func TestReplacementMakesEachPodOnce(t *testing.T) {
	const members = 50
	c := newCluster(t)
	_, err := c.typed.CoreV1().Namespaces().Patch(t.Context(), c.namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"devcluster.fescue.dev/kwok-deletes-twice":"true"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	c.start()
	census := c.takeCensus("")
	for i := range *replacedSets {
		c.createCustomcluster(fmt.Sprintf("c-%d", i), members, "0")
	}
	all := *replacedSets * members
	census.await(t, all)
	for n := 1; n <= *replacements; n++ {
		for i := range *replacedSets {
			c.patch(customclusters, fmt.Sprintf("c-%d", i), fmt.Sprintf(`{"spec":{"message":"%d"}}`, n))
		}
		for i := range *replacedSets {
			c.awaitReady(customclusters, fmt.Sprintf("c-%d", i))
		}
		c.createPod(fmt.Sprintf("marker-%d", n), "Always", nil, nil)
		census.awaitPod(t, fmt.Sprintf("marker-%d", n)) // it has seen everything before
		created := census.created() - n
		require.Equal(t, all*(n+1), created, "Pods that were created in all")
		t.Logf("replacement %d: %d Pods for %d", n, created-all*n, all)
	}
}

// The number of requests that the children of an object take.
func TestRequestsOfChildren(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	// Until the API server knows a kind everywhere, it forbids children.
	c.createWatcher("first", map[string]any{"a": "b"})
	c.createCustomcluster("first", 1, "m")
	c.awaitReady(watchers, "first")
	c.awaitReady(customclusters, "first")
	c.proxy.requests.reset()
	c.createWatcher("w", map[string]any{"a": "b"})
	c.awaitReady(watchers, "w")
	require.Equal(t, []string{
		"POST /api/v1/namespaces/" + c.namespace + "/configmaps",
		"PUT /apis/watch.fescue.dev/v1alpha1/namespaces/" + c.namespace + "/watchers/w/status",
	}, c.requestPaths())

	const members = 10
	c.proxy.requests.reset()
	began := time.Now()
	c.createCustomcluster("c", members, "m")
	c.awaitReady(customclusters, "c")
	// One report when the Pods are created, and then one a second until they are ready.
	most := 2 + int(time.Since(began)/time.Second)
	counts := make(map[string]int)
	for _, request := range c.requestPaths() {
		method, path, _ := strings.Cut(request, " ")
		counts[method+" "+path[strings.LastIndexByte(path, '/')+1:]]++
	}
	reports := counts["PUT status"]
	require.LessOrEqual(t, reports, most, counts)
	require.Equal(t, members, counts["POST pods"], counts)
	require.Len(t, c.requestPaths(), members+reports)
	t.Logf("%d Pods took %d writes in %s", members, members+reports, time.Since(began))
}

func TestIdleSetsSendNoRequests(t *testing.T) {
	c := newCluster(t)
	c.start()
	for i := range *idleWatchers {
		c.createWatcher(fmt.Sprintf("w-%d", i), map[string]any{"a": "b"})
	}
	for i := range 20 {
		c.createCustomcluster(fmt.Sprintf("c-%d", i), 2, "m")
	}
	for i := range *idleWatchers {
		c.awaitReady(watchers, fmt.Sprintf("w-%d", i))
	}
	for i := range 20 {
		c.awaitReady(customclusters, fmt.Sprintf("c-%d", i))
	}
	c.createPod("asks", "Always", nil, map[string]any{"watch.fescue.dev/inject": "w-0"})
	c.awaitInjectedPods("w-0", 0, 0, 1)
	c.proxy.requests.reset()
	require.True(t, testcluster.HoldsFor(*idleTime, func() bool { return len(c.proxy.requests.all()) == 0 }), "requests while idle: %v", c.proxy.requests.all())
}

func TestWatcherKeepsItsConfigMap(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.start()
	c.create(watchers, "Watcher", "w", map[string]any{"spec": map[string]any{
		"container": map[string]any{"name": "watch"}, "configData": map[string]any{"a": "1", "b": "2"}, "configBinaryData": map[string]any{"c": "AAEC"},
	}})
	object := c.awaitReady(watchers, "w")
	name, _, _ := unstructured.NestedString(object.Object, "status", "configMapName")
	require.Equal(t, "w-config", name)
	has := func(want string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			text, err := json.Marshal([]any{o.Object["data"], o.Object["binaryData"]})
			return err == nil && string(text) == want
		}
	}
	c.await(configMaps, name, "created", has(`[{"a":"1","b":"2"},{"c":"AAEC"}]`))
	c.patch(watchers, "w", `{"spec":{"configData":{"a":"3","b":null}}}`)
	c.await(configMaps, name, "changed", has(`[{"a":"3"},{"c":"AAEC"}]`))
	c.patch(configMaps, name, `{"data":{"a":"by hand"}}`)
	c.await(configMaps, name, "reverted", has(`[{"a":"3"},{"c":"AAEC"}]`))

	// Objects that are restored from a backup have another UID and no owner references.
	require.NoError(t, c.objects(watchers).Delete(t.Context(), "w", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	orphan := c.await(configMaps, name, "orphaned", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 0 })
	c.await(configMaps, name, "left", has(`[{"a":"3"},{"c":"AAEC"}]`))
	c.awaitGone(watchers, "w")
	restored := c.createWatcher("w", map[string]any{"a": "4"})
	adopted := c.await(configMaps, name, "adopted", func(o *unstructured.Unstructured) bool { return metav1.IsControlledBy(o, restored) })
	require.Equal(t, orphan.GetUID(), adopted.GetUID())
	c.await(configMaps, name, "that of the restored Watcher", has(`[{"a":"4"},null]`))

	c.delete(configMaps, name)
	c.await(configMaps, name, "recreated", func(o *unstructured.Unstructured) bool { return o.GetUID() != adopted.GetUID() })
}

// awaitQuota waits until a quota of Pods is enforced.
func (c *cluster) awaitQuota(name, limit string) {
	c.t.Helper()
	c.await(quotas, name, "enforced", func(o *unstructured.Unstructured) bool {
		hard, _, _ := unstructured.NestedString(o.Object, "status", "hard", "pods")
		return hard == limit
	})
}

// awaitQuotaExceeded waits until an object shows that a quota rejects its children, which is expected to pass.
func (c *cluster) awaitQuotaExceeded(resource schema.GroupVersionResource, name string) {
	c.t.Helper()
	object := c.await(resource, name, "at its quota", func(o *unstructured.Unstructured) bool {
		_, reason, message := condition(o, "Reconciling")
		return reason == "QuotaExceeded" && strings.Contains(message, "exceeded quota: pods")
	})
	require.False(c.t, isTrue(object, "Stalled"))
	status, reason, _ := condition(object, "Ready")
	require.Equal(c.t, []string{"False", "QuotaExceeded"}, []string{status, reason})
}

// The log has one line a minute for what a quota rejects, however many objects it rejects.
func TestRejectionsOfAQuotaAreLoggedOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(quotas, "ResourceQuota", "pods", map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": "0"}}})
	c.awaitQuota("pods", "0")
	o, began := c.start(), time.Now()
	for i := range 20 {
		c.createCustomcluster(fmt.Sprint("c-", i), 2, "m")
	}
	for i := range 20 {
		c.awaitQuotaExceeded(customclusters, fmt.Sprint("c-", i))
	}
	lines := strings.Count(o.log.String(), "was rejected; retrying")
	require.Positive(t, lines)
	require.LessOrEqual(t, lines, 1+int(time.Since(began)/time.Minute))
}

// The status reports each reason why a child is rejected, until the reason is gone.
func TestRejectedChildrenAreReported(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group := "g" + c.group()
	dir := corpus.Folder(t, `
package late

import "fescue.dev/cue/contract"

#Late: {apiVersion!: "`+group+`/v1", kind!: "Late", metadata!: {...}, spec?: {...}, status?: contract.#Status}
#LateController: contract.#Controller & {
	object!: #Late
	names: plural: "lates"
	children: x: template: {apiVersion: "`+group+`/v1", kind: "Thing", spec: size: 1}
}
`)
	c.types = []string{"Thing." + group + "=things"}
	c.start("--kinds", dir)
	stalled := func(resource schema.GroupVersionResource, name, want string) {
		t.Helper()
		object := c.await(resource, name, "stalled", func(o *unstructured.Unstructured) bool {
			_, _, message := condition(o, "Stalled")
			return strings.Contains(message, want)
		})
		status, reason, _ := condition(object, "Ready")
		require.Equal(t, []string{"False", "ChildRejected"}, []string{status, reason})
	}

	// A ConfigMap that is too large.
	c.createWatcher("large", map[string]any{"a": strings.Repeat("x", 1<<20+1)})
	stalled(watchers, "large", "may not be more than 1048576 bytes")
	c.patch(watchers, "large", `{"spec":{"configData":{"a":"small"}}}`)
	c.awaitReady(watchers, "large")

	// A quota.
	c.create(quotas, "ResourceQuota", "pods", map[string]any{"spec": map[string]any{"hard": map[string]any{"pods": "3"}}})
	c.awaitQuota("pods", "3")
	c.createCustomcluster("c", 5, "m")
	c.awaitQuotaExceeded(customclusters, "c")
	c.await(customclusters, "c", "at its quota", func(o *unstructured.Unstructured) bool { return statusCount(o) == 3 })
	c.patch(quotas, "pods", `{"spec":{"hard":{"pods":"9"}}}`)
	c.awaitReady(customclusters, "c")

	// A type that is installed later.
	lates := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "lates"}
	c.create(lates, "Late", "l", nil)
	stalled(lates, "l", "its type is not served by the cluster")
	c.deleteCRDs("things."+group, "lates."+group)
	_, err := c.client.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.awaitReady(lates, "l")

	// A name that is nearly as long as is allowed.
	long := strings.Repeat("l", 250)
	c.create(lates, "Late", long, nil)
	c.awaitReady(lates, long)
	require.Len(t, c.list(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}, ""), 2)
}

// Children of a kind without phases are reverted, recreated, and deleted when an if drops them.
func TestChildrenFollowTheirTemplates(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir := corpus.Unpack(t, corpus.Read(t, corpus.Path(t, kindtest.Corpus+"/features.txtar")))
	c.start("--kinds", dir)
	features := schema.GroupVersionResource{Group: "features.example.com", Version: "v1", Resource: "features"}
	c.create(features, "Feature", "f", map[string]any{"spec": map[string]any{"required": "x", "optional": true}})
	hasName := func(name string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			text, _, _ := unstructured.NestedString(o.Object, "data", "name")
			return text == name
		}
	}
	c.await(configMaps, "f-config", "created", hasName("x"))
	secret := c.await(secrets, "f-extra", "created", exists)
	c.await(features, "f", "ready", func(o *unstructured.Unstructured) bool {
		seen, _, _ := unstructured.NestedInt64(o.Object, "status", "seen")
		return isTrue(o, "Ready") && seen == 3
	})

	c.patch(configMaps, "f-config", `{"data":{"name":"by hand","other":"stays"}}`)
	reverted := c.await(configMaps, "f-config", "reverted", hasName("x"))
	other, _, _ := unstructured.NestedString(reverted.Object, "data", "other")
	require.Equal(t, "stays", other, "fields that the template does not set are left alone")

	c.patch(features, "f", `{"spec":{"required":"y"}}`)
	c.await(configMaps, "f-config", "changed", hasName("y"))

	// A child without its owner reference is found by its label.
	c.patch(secrets, "f-extra", `{"metadata":{"ownerReferences":null}}`)
	adopted := c.await(secrets, "f-extra", "adopted", func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) == 1 })
	require.Equal(t, secret.GetUID(), adopted.GetUID())

	// A child with the update Recreate is recreated when its template changes, and only then.
	c.patch(features, "f", `{"spec":{"extra":"changed"}}`)
	c.await(secrets, "f-extra", "recreated", func(o *unstructured.Unstructured) bool {
		extra, _, _ := unstructured.NestedString(o.Object, "data", "extra")
		return o.GetUID() != secret.GetUID() && extra == "Y2hhbmdlZA=="
	})

	// A field that is dropped from the template is removed.
	c.patch(features, "f", `{"spec":{"note":"short-lived"}}`)
	hasNote := func(o *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedString(o.Object, "data", "note")
		return found
	}
	c.await(configMaps, "f-config", "with a note", hasNote)
	c.patch(features, "f", `{"spec":{"note":null}}`)
	c.await(configMaps, "f-config", "without a note", func(o *unstructured.Unstructured) bool { return !hasNote(o) })

	c.patch(features, "f", `{"spec":{"optional":null}}`)
	c.awaitGone(secrets, "f-extra")
}

// droppingKind has a child whose template drops fields, items of lists and keys.
const droppingKind = `package kinds

import "fescue.dev/cue/contract"

#Web: {
	apiVersion!: "dropping.example.com/v1"
	kind!:       "Web"
	metadata!: {name!: string, ...}
	spec!: {image!: string, host?: string, sidecar?: string}
	status?: contract.#Status
}
#WebController: contract.#Controller & {
	object!: #Web
	names: plural: "webs"
	children: web: template: {
		apiVersion: "apps/v1"
		kind:       "Deployment"
		spec: {
			selector: matchLabels: app: object.metadata.name
			template: {
				metadata: labels: app: object.metadata.name
				spec: {
					if object.spec.host != _|_ {hostname: object.spec.host}
					containers: [
						{name: "web", image: object.spec.image},
						if object.spec.sidecar != _|_ {{name: "sidecar", image: object.spec.sidecar}},
					]
				}
			}
		}
	}
}
`

// A child is created by a POST, and corrected by apply nevertheless: what its template drops is
// removed, and what others and the API server set stays.
func TestDroppedFieldsAreRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, droppingKind)
	webs := kinds[0].GroupVersionResource()
	c.start("--kinds", dir)
	c.create(webs, "Web", "w", map[string]any{"spec": map[string]any{"image": "a", "host": "h", "sidecar": "s"}})
	c.await(deployments, "w-web", "created", exists)
	c.patch(deployments, "w-web", `{"metadata":{"annotations":{"theirs":"stays"}},"spec":{"replicas":3,"template":{"spec":{"terminationGracePeriodSeconds":7}}}}`)

	for _, step := range []struct {
		patch string
		// want are the hostname and the images.
		want []string
	}{
		{`{"spec":{"host":"other"}}`, []string{"other", "a", "s"}},
		{`{"spec":{"sidecar":null,"image":"b"}}`, []string{"other", "b"}},
		{`{"spec":{"host":null}}`, []string{"", "b"}},
		{`{"spec":{"sidecar":"t"}}`, []string{"", "b", "t"}},
		{`{"spec":{"sidecar":null}}`, []string{"", "b"}},
	} {
		c.patch(webs, "w", step.patch)
		changed := c.await(deployments, "w-web", "as after "+step.patch, func(o *unstructured.Unstructured) bool {
			spec, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
			host, _ := spec["hostname"].(string)
			is := []string{host}
			containers, _ := spec["containers"].([]any)
			for _, container := range containers {
				is = append(is, container.(map[string]any)["image"].(string))
			}
			return slices.Equal(is, step.want)
		})
		require.Equal(t, "stays", changed.GetAnnotations()["theirs"])
		replicas, _, _ := unstructured.NestedInt64(changed.Object, "spec", "replicas")
		grace, _, _ := unstructured.NestedInt64(changed.Object, "spec", "template", "spec", "terminationGracePeriodSeconds")
		restart, _, _ := unstructured.NestedString(changed.Object, "spec", "template", "spec", "restartPolicy")
		require.Equal(t, []any{int64(3), int64(7), "Always"}, []any{replicas, grace, restart})
	}
}

// turningKind has children of which the API server defaults fields by others, which cannot stay when those change.
const turningKind = `package kinds

import "fescue.dev/cue/contract"

#Turn: {
	apiVersion!: "turning.example.com/v1"
	kind!:       "Turn"
	metadata!: {name!: string, ...}
	spec!: {on!: bool}
	status?: contract.#Status
}
#TurnController: contract.#Controller & {
	object!: #Turn
	names: plural: "turns"
	let labels = {app: object.metadata.name}
	let on = object.spec.on
	let pod = {
		metadata: {"labels": labels}
		spec: {
			if on {hostNetwork: true}
			containers: [{name: "c", ports: [{containerPort: 8080}], image: [if on {"nginx:2"}, "nginx"][0]}]
		}
	}
	children: {
		deployment: {
			ready: true
			template: {
				apiVersion: "apps/v1", kind: "Deployment"
				spec: {replicas: 0, selector: matchLabels: labels, template: pod, if on {strategy: type: "Recreate"}}
			}
		}
		set: {
			ready: true
			template: {
				apiVersion: "apps/v1", kind: "StatefulSet"
				spec: {replicas: 0, serviceName: "s", selector: matchLabels: labels, template: pod, updateStrategy: type: [if on {"OnDelete"}, "RollingUpdate"][0]}
			}
		}
		policy: template: {
			apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy"
			spec: {podSelector: {}, ingress: [{}], if on {egress: [{}]}}
		}
		service: template: {
			apiVersion: "v1", kind: "Service"
			spec: {selector: labels, ports: [{port: 80}], if on {type: "NodePort", sessionAffinity: "ClientIP"}}
		}
		claim: {
			ready: true
			template: {
				apiVersion: "v1", kind: "PersistentVolumeClaim"
				if on {metadata: annotations: turned: "true"}
				spec: {accessModes: ["ReadWriteOnce"], resources: requests: storage: "1Gi"}
			}
		}
	}
}
`

// A changed template gives a child what its creation would give, with the defaults that follow from it, and its
// reverse gives the first child again: a Deployment returns to its first ReplicaSet.
func TestReversedChangesGiveTheFirstChild(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, turningKind)
	turns := kinds[0].GroupVersionResource()
	c.start("--kinds", dir)
	apps := schema.GroupVersion{Group: "apps", Version: "v1"}
	children := map[string]schema.GroupVersionResource{
		"deployment": apps.WithResource("deployments"), "set": apps.WithResource("statefulsets"),
		"policy":  {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		"service": {Version: "v1", Resource: "services"}, "claim": {Version: "v1", Resource: "persistentvolumeclaims"},
	}
	specs := func(name string) string {
		found := make(map[string]any)
		for child, resource := range children {
			live, err := c.get(resource, name+"-"+child)
			require.NoError(t, err)
			spec := live.Object["spec"].(map[string]any)
			delete(spec, "clusterIP")
			delete(spec, "clusterIPs")
			if ports, _, _ := unstructured.NestedSlice(spec, "ports"); len(ports) > 0 {
				delete(ports[0].(map[string]any), "nodePort")
				spec["ports"] = ports
			}
			found[child] = spec
		}
		text, err := json.Marshal(found)
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), `"`+name+`"`, `"NAME"`)
	}
	create := func(name string, on bool) string {
		c.create(turns, "Turn", name, map[string]any{"spec": map[string]any{"on": on}})
		c.awaitReady(turns, name)
		return specs(name)
	}
	off, on := create("off", false), create("on", true)
	require.NotEqual(t, off, on)
	for _, turn := range []bool{true, false, true, false} {
		c.patch(turns, "off", fmt.Sprintf(`{"spec":{"on":%t}}`, turn))
		c.awaitReady(turns, "off")
		want := off
		if turn {
			want = on
		}
		require.JSONEq(t, want, specs("off"))
		c.await(children["deployment"], "off-deployment", "observed", func(o *unstructured.Unstructured) bool {
			observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return observed == o.GetGeneration()
		})
	}
	require.Len(t, c.list(replicaSets, "app=off"), 2)
}

// filesKind has children whose keys and names come from the object.
const filesKind = `package kinds

import "fescue.dev/cue/contract"

#Files: {
	apiVersion!: "files.example.com/v1"
	kind!:       "Files"
	metadata!: {name!: string, ...}
	spec!: files!: [string]: string
	status?: contract.#Status
}
#FilesController: contract.#Controller & {
	object!: #Files
	names: plural: "filess"
	owns: [{apiVersion: "v1", kind: "ConfigMap"}]
	children: {
		for key, called in object.spec.files {
			"\(key)": template: {apiVersion: "v1", kind: "ConfigMap", metadata: name: called, data: owner: object.metadata.name}
		}
	}
}
`

// A child may have any key if its template has a name, and objects that exchange the names of their children get them.
func TestNamesOfChildrenFromTheObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	dir, kinds := writeKind(t, filesKind)
	files := kinds[0].GroupVersionResource()
	c.start("--kinds", dir)
	long := strings.Repeat("x", 64)
	for name, of := range map[string]map[string]any{"a": {"etc/hosts": "x", long: "z"}, "b": {"file": "y"}} {
		c.create(files, "Files", name, map[string]any{"spec": map[string]any{"files": of}})
		c.awaitReady(files, name)
	}
	last := c.await(configMaps, "z", "created", exists)
	c.patch(configMaps, "z", `{"metadata":{"labels":null,"annotations":null}}`)
	restored := c.await(configMaps, "z", "restored", func(o *unstructured.Unstructured) bool { return len(o.GetLabels()) > 0 })
	require.Equal(t, last.GetUID(), restored.GetUID())
	require.Equal(t, last.GetLabels(), restored.GetLabels())

	c.patch(files, "a", `{"spec":{"files":{"etc/hosts":"y"}}}`)
	c.awaitStalled(files, "a")
	c.patch(files, "b", `{"spec":{"files":{"file":"x"}}}`)
	for child, owner := range map[string]string{"x": "b", "y": "a", "z": "a"} {
		c.await(configMaps, child, "of "+owner, func(o *unstructured.Unstructured) bool {
			is, _, _ := unstructured.NestedString(o.Object, "data", "owner")
			return is == owner
		})
	}
	c.awaitReady(files, "a")
	c.awaitReady(files, "b")
	c.patch(files, "a", `{"spec":{"files":{"`+long+`":null}}}`)
	c.awaitGone(configMaps, "z")
}
