package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
)

// agentController is a controller of Agents that follows the Pods of a fake API server.
func agentController(t *testing.T, existing ...*metav1.PartialObjectMetadata) (*controller, fake.MetadataClient) {
	t.Helper()
	scheme := fake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := fake.NewSimpleMetadataClient(scheme)
	api := client.Resource(pods).Namespace("team").(fake.MetadataClient)
	for _, pod := range existing {
		createPod(t, api, pod)
	}
	k := corpusKind(t, "inject")
	injections := *known
	injections.Pods = client
	p, err := newPodWatch(&injections, []*kind.Kind{shippedAt(t), k}, informers.New(t.Context(), nil, nil))
	require.NoError(t, err)
	c := newController(k, &Config{Mapper: mapper(), Log: quiet(), Metrics: NewMetrics()}, newShards(0))
	giveUp := time.AfterFunc(time.Minute, c.queue.ShutDown) // queued waits no longer
	t.Cleanup(func() { giveUp.Stop(); c.queue.ShutDown() })
	c.pods = p
	p.start()
	require.NoError(t, handle(t.Context(), p.Handle, c.podHandler()))
	return c, api
}

func createPod(t *testing.T, api fake.MetadataClient, pod *metav1.PartialObjectMetadata) {
	t.Helper()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	_, err := api.CreateFake(pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

// queued takes objects from the queue until all that are wanted have come.
func queued(t *testing.T, c *controller, want ...string) {
	t.Helper()
	var got []string
	for range want {
		name, shutdown := c.queue.Get()
		require.False(t, shutdown)
		c.queue.Done(name)
		got = append(got, name.Name)
	}
	require.ElementsMatch(t, want, got)
}

func agent(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "inject.example.com/v1", "kind": "Agent",
		"metadata": map[string]any{"name": name, "namespace": "team", "uid": name, "resourceVersion": "1", "generation": int64(3)},
		"spec":     spec,
	}}
}

// Events of Pods queue the objects that they name, that were injected into them, and that
// select them.
func TestPodsQueueObjects(t *testing.T) {
	t.Parallel()
	c, api := agentController(t, agentPod("existing", "first", ""))
	selecting := agent("selecting", map[string]any{"image": "i", "replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}})
	var p plan
	require.NoError(t, c.takeUp(&p, selecting))
	require.Nil(t, p.stalled)
	require.True(t, p.uptake.isEmpty())

	createPod(t, api, agentPod("p", "named", `{"carried":1}`))
	queued(t, c, "named", "carried")
	createPod(t, api, labelled(agentPod("q", "", ""), "app", "web"))
	queued(t, c, "selecting")
	require.NoError(t, c.takeUp(&p, selecting))
	require.Equal(t, uptake{missing: []string{"q"}}, p.uptake)

	changed := agentPod("p", "other", "")
	changed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	_, err := api.UpdateFake(changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	queued(t, c, "named", "carried", "other")
	require.NoError(t, api.Delete(t.Context(), "p", metav1.DeleteOptions{}))
	queued(t, c, "other")
	require.NoError(t, c.takeUp(&p, agent("other", map[string]any{"image": "i"})))
	require.True(t, p.uptake.isEmpty())

	// What was there from the start is counted by the first pass, and queues nothing.
	require.Zero(t, c.queue.Len())
	require.NoError(t, c.takeUp(&p, agent("first", map[string]any{"image": "i", "replicas": int64(1)})))
	require.Equal(t, uptake{missing: []string{"existing"}}, p.uptake)

	c.selections.forget(cache.MetaObjectToName(selecting))
	require.Empty(t, c.selections.namespaces["team"]["selecting"])
}

func TestSelectionsAreAskedOncePerVersion(t *testing.T) {
	t.Parallel()
	var s selections
	object := agent("a", nil)
	asked := 0
	of := func() error {
		_, err := s.of(object, func() (labels.Selector, error) { asked++; return nil, errors.New("no answer") })
		return err
	}
	require.EqualError(t, of(), "no answer")
	require.EqualError(t, of(), "no answer")
	require.Equal(t, 1, asked)
	object.SetResourceVersion("2")
	require.Error(t, of())
	require.Equal(t, 2, asked)
	object.SetUID("another")
	require.Error(t, of())
	require.Equal(t, 3, asked)
	s.forget(cache.MetaObjectToName(object))
	require.Empty(t, s.namespaces)
}

// An object whose injection cannot be evaluated is stalled; an invalid one is already.
func TestBrokenSelectionStalls(t *testing.T) {
	t.Parallel()
	c, _ := agentController(t)
	var p plan
	require.NoError(t, c.takeUp(&p, agent("a", map[string]any{"image": "i", "replicas": int64(1), "selector": map[string]any{"matchLabels": "x"}})))
	require.NotNil(t, p.stalled)
	require.Equal(t, reasonEvaluation, p.stalled.reason)
	require.Contains(t, p.stalled.message, "inject.selector")
	var q plan
	require.NoError(t, c.takeUp(&q, agent("b", map[string]any{})))
	require.Nil(t, q.stalled)
}

func TestSameUptake(t *testing.T) {
	t.Parallel()
	before := labelled(agentPod("p", "a", `{"a":1}`), "app", "web")
	for name, tc := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		want   bool
	}{
		"version":    {func(p *metav1.PartialObjectMetadata) { p.ResourceVersion = "2" }, true},
		"uid":        {func(p *metav1.PartialObjectMetadata) { p.UID = types.UID("2") }, false},
		"label":      {func(p *metav1.PartialObjectMetadata) { p.Labels["app"] = "db" }, false},
		"annotation": {func(p *metav1.PartialObjectMetadata) { p.Annotations[askAnnotation] = "b" }, false},
		"deletion":   {func(p *metav1.PartialObjectMetadata) { going(p) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before.DeepCopy()
			tc.change(after)
			require.Equal(t, tc.want, sameUptake(before, after))
		})
	}
}

// A cluster has many Pods, so only what is looked at is kept of each.
func TestPodsAreStripped(t *testing.T) {
	t.Parallel()
	c, _ := agentController(t)
	pod := labelled(agentPod("p", "a", `{"a":1}`), "app", "web")
	pod.UID, pod.ResourceVersion = "1", "2"
	want := pod.DeepCopy()
	pod.Annotations["other"] = "x"
	pod.OwnerReferences = []metav1.OwnerReference{{Name: "r"}}
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	stripped, err := c.pods.strip(pod)
	require.NoError(t, err)
	require.Equal(t, want, stripped)
	require.Contains(t, pod.Annotations, "other", "what is stripped is a copy")
	_, err = c.pods.indexByInjection("not a Pod")
	require.EqualError(t, err, "cache of Pods holds a string")
}

func TestNoWatchOfPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		known *Injections
		kinds []*kind.Kind
	}{
		"nothing known": {nil, []*kind.Kind{shippedWatcher(t)}},
		"none injects":  {known, []*kind.Kind{shippedAt(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := newPodWatch(tc.known, tc.kinds, nil)
			require.NoError(t, err)
			require.Nil(t, p)
		})
	}
}
