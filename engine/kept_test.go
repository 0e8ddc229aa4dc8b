package engine

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// Kinds that read the same of their children share a cache, whichever starts first, and a kind that
// corrects its children has all of them.
func TestKeptOfChildren(t *testing.T) {
	t.Parallel()
	podType := corev1.SchemeGroupVersion.WithKind("Pod")
	at, cluster := enginetest.Shipped(t, "At"), enginetest.Shipped(t, "Customcluster")
	both := keptOfChildren(podType, []*kind.Kind{at, cluster})
	require.True(t, both.Covers(keptOfChildren(podType, []*kind.Kind{at})))
	require.True(t, keptOfChildren(podType, []*kind.Kind{at}).Covers(both))
	require.False(t, both.Covers(parts.Of([]string{"spec", "containers"})))
	require.True(t, both.Covers(keptOfStrays))

	corrects := enginetest.Kind(t, `package p

import "fescue.dev/cue/contract"

#Thing: {apiVersion: "example.com/v1", kind: "Thing", metadata: {name!: string, ...}, spec: {...}}
#ThingController: contract.#Controller & {
	object!: #Thing
	names: plural: "things"
	children: pod: template: {apiVersion: "v1", kind: "Pod", spec: containers: [{name: "c", image: "i"}]}
}
`)
	require.True(t, keptOfChildren(podType, []*kind.Kind{at, corrects}).Covers(parts.Everything()))
	require.False(t, keptOfChildren(corev1.SchemeGroupVersion.WithKind("ConfigMap"), []*kind.Kind{corrects}).Covers(parts.Everything()))
}

// BenchmarkCachedPod measures the live heap for each Pod of 5 KB in the cache of children, with its
// indexes: as the shipped kinds keep it, as text with all of its fields, and decoded by client-go.
func BenchmarkCachedPod(b *testing.B) {
	text, err := os.ReadFile("inject/testdata/typical.json")
	require.NoError(b, err)
	pod := &unstructured.Unstructured{}
	require.NoError(b, pod.UnmarshalJSON(text))
	const objects = 5000
	kept := projection.To(keptOfChildren(corev1.SchemeGroupVersion.WithKind("Pod"), []*kind.Kind{enginetest.Shipped(b, "At"), enginetest.Shipped(b, "Customcluster")}))
	whole := projection.To(parts.Everything())
	for name, read := range map[string]func([]byte) (any, error){
		"kept":  func(text []byte) (any, error) { return kept.Parse(text) },
		"whole": func(text []byte) (any, error) { return whole.Parse(text) },
		"maps": func(text []byte) (any, error) {
			u := &unstructured.Unstructured{}
			err := u.UnmarshalJSON(text)
			u.SetManagedFields(nil)
			return u, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := liveHeap()
				store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{
					cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, ownerIndex: informers.Index(indexByOwner),
				})
				for i := range objects {
					object, err := read(runningPod(b, pod, i))
					require.NoError(b, err)
					require.NoError(b, store.Add(object))
				}
				b.ReportMetric(float64(liveHeap()-before)/objects, "B/object")
				require.Len(b, store.List(), objects)
			}
		})
	}
}

// runningPod returns a Pod that runs, with a name, a UID and an owner of its own.
func runningPod(b *testing.B, pod *unstructured.Unstructured, i int) []byte {
	b.Helper()
	name, transition := fmt.Sprint("web-", i), "2026-01-01T00:00:00Z"
	pod.SetName(name)
	pod.SetUID(types.UID(fmt.Sprintf("6fb2ec40-9a5e-4f6c-8a51-%012d", i)))
	pod.SetResourceVersion(fmt.Sprint(100_000 + i))
	pod.SetAnnotations(map[string]string{"fescue.dev/template": "0123456789abcdef", "fescue.dev/owner": "ats.cnat.fescue.dev/" + name, "fescue.dev/created-as": "pod/RUNNING"})
	pod.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "fescue", "fescue.dev/owner-uid": name, "fescue.dev/child": "pod", "fescue.dev/phase": "RUNNING"})
	pod.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "cnat.fescue.dev/v1alpha1", Kind: "At", Name: name, UID: types.UID(fmt.Sprintf("4bb2ec40-9a5e-4f6c-8a51-%012d", i)),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	var conditions []any
	for _, condition := range []string{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		conditions = append(conditions, map[string]any{"type": condition, "status": "True", "lastProbeTime": nil, "lastTransitionTime": transition})
	}
	pod.Object["status"] = map[string]any{
		"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": transition, "qosClass": "Burstable",
		"containerStatuses": []any{map[string]any{"name": "c", "ready": true, "image": "checkout:2.17.0", "state": map[string]any{"running": map[string]any{"startedAt": transition}}}},
	}
	text, err := pod.MarshalJSON()
	require.NoError(b, err)
	return text
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // frees what the first has found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

const selectingKind = `
package selecting

import "fescue.dev/cue/contract"

#Thing: {
	apiVersion!: "selecting.example.com/v1"
	kind!:       "Thing"
	metadata!: {name!: string, ...}
	spec!: teams!: [...string]
	status?: {contract.#Status, n?: int}
}
#ThingController: contract.#Controller & {
	object!: #Thing
	observed: _
	names: plural: "things"
	reads: {for t in object.spec.teams {(t): {apiVersion: "v1", kind: "Node", selector: matchLabels: team: t}}}
	status: n: len([for name, nodes in observed for node in nodes if node.status.nodeInfo.machineID == "x" {1}])
}
`

// The cache of what is selected under computed names keeps what a loop over all of it reads.
func TestKeptOfComputedSelections(t *testing.T) {
	t.Parallel()
	k := enginetest.Kind(t, selectingKind)
	node := map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "a"}}, "status": map[string]any{"nodeInfo": map[string]any{"machineID": "x"}}}
	kept := keptOfLookups(corev1.SchemeGroupVersion.WithKind("Node"), []*kind.Kind{k})
	require.Equal(t, node, kept.In(node))
	require.Equal(t, map[string]any{"status": map[string]any{"nodeInfo": map[string]any{}}}, kept.In(map[string]any{"status": map[string]any{"nodeInfo": map[string]any{"bootID": "b"}}}))
}
