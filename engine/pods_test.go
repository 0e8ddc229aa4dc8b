package engine

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/engine/plan"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

var agentKind = schema.GroupKind{Group: "inject.example.com", Kind: "Agent"}

const requestAnnotation = "inject.example.com/Agents"

// agentPod returns a Pod that names Agents and has parts of some; either may be empty.
func agentPod(name, requests, has string) *metav1.PartialObjectMetadata {
	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Annotations: map[string]string{}}}
	if requests != "" {
		pod.Annotations[requestAnnotation] = requests
	}
	if has != "" {
		pod.Annotations[inject.StatusAnnotation] = injectedStatus(has)
	}
	return pod
}

// injectedStatus is the annotation for Agents and their generations, which are JSON by name.
func injectedStatus(has string) string {
	var byName map[string]int64
	if json.Unmarshal([]byte(has), &byName) != nil {
		return has
	}
	status := make(map[string]any)
	for name, generation := range byName {
		status["Agent.inject.example.com/"+name] = map[string]any{"generation": generation}
	}
	text, _ := json.Marshal(status) // of strings and numbers
	return string(text)
}

func labelled(pod *metav1.PartialObjectMetadata, key, value string) *metav1.PartialObjectMetadata {
	metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
	return pod
}

func leaving(pod *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	pod.DeletionTimestamp = new(metav1.Now())
	return pod
}

// watched returns what a watch keeps of a Pod.
func watched(t *testing.T, pod *metav1.PartialObjectMetadata) *watchedPod {
	t.Helper()
	p := &podWatch{kept: map[string]bool{requestAnnotation: true, inject.StatusAnnotation: true, corev1.MirrorPodAnnotationKey: true}}
	kept, err := p.strip(pod)
	require.NoError(t, err)
	return kept.(*watchedPod)
}

func TestUptakeOfPods(t *testing.T) {
	t.Parallel()
	app := labels.SelectorFromSet(labels.Set{"app": "web"})
	mirror := agentPod("p", "a", "")
	mirror.Annotations["kubernetes.io/config.mirror"] = "x"
	for name, tc := range map[string]struct {
		selector labels.Selector
		pods     []*metav1.PartialObjectMetadata
		want     plan.Uptake
	}{
		"none":               {want: plan.Uptake{}},
		"irrelevant":         {pods: []*metav1.PartialObjectMetadata{agentPod("p", "", ""), agentPod("q", "b", `{"b":3}`)}},
		"present":            {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":3}`)}, want: plan.Uptake{Current: 1}},
		"older":              {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":2}`)}, want: plan.Uptake{Outdated: []string{"p"}}},
		"of a predecessor":   {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":7}`)}, want: plan.Uptake{Outdated: []string{"p"}}},
		"injected offline":   {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `{"a":0}`)}, want: plan.Uptake{Outdated: []string{"p"}}},
		"no longer requests": {pods: []*metav1.PartialObjectMetadata{agentPod("p", "", `{"a":3}`)}, want: plan.Uptake{Current: 1}},
		"named":              {pods: []*metav1.PartialObjectMetadata{agentPod("p", "b, a", `{"b":3}`)}, want: plan.Uptake{Missing: []string{"p"}}},
		"unreadable":         {pods: []*metav1.PartialObjectMetadata{agentPod("p", "a", `[`)}, want: plan.Uptake{Missing: []string{"p"}}},
		"selected":           {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", ""), "app", "web")}, plan.Uptake{Missing: []string{"p"}}},
		"not selected":       {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", ""), "app", "db")}, plan.Uptake{}},
		"selected and has":   {app, []*metav1.PartialObjectMetadata{labelled(agentPod("p", "", `{"a":3}`), "app", "web")}, plan.Uptake{Current: 1}},
		"all are selected":   {labels.Everything(), []*metav1.PartialObjectMetadata{agentPod("p", "", "")}, plan.Uptake{Missing: []string{"p"}}},
		"being deleted":      {pods: []*metav1.PartialObjectMetadata{leaving(agentPod("p", "a", "")), leaving(agentPod("q", "a", `{"a":3}`)), leaving(agentPod("r", "a", `{"a":2}`))}},
		"mirror Pod":         {labels.Everything(), []*metav1.PartialObjectMetadata{mirror}, plan.Uptake{}},
		"sorted": {pods: []*metav1.PartialObjectMetadata{agentPod("s", "a", ""), agentPod("q", "a", `{"a":1}`), agentPod("r", "a", ""), agentPod("p", "a", `{"a":2}`)},
			want: plan.Uptake{Outdated: []string{"p", "q"}, Missing: []string{"r", "s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := inject.Offer{Object: inject.Object{Kind: agentKind, Name: "a"}, Generation: 3, Annotation: requestAnnotation, Selector: tc.selector}
			var pods []*inject.Pod
			for _, pod := range tc.pods {
				pods = append(pods, &watched(t, pod).Pod)
			}
			require.Equal(t, tc.want, uptakeOf(object, pods))
		})
	}
}

// agentController returns a controller of Agents that watches the Pods of a fake API server.
func agentController(t *testing.T, existing ...*metav1.PartialObjectMetadata) (*controller, fake.MetadataClient) {
	t.Helper()
	scheme := fake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	client := fake.NewSimpleMetadataClient(scheme)
	api := client.Resource(pods).Namespace("team").(fake.MetadataClient)
	for _, pod := range existing {
		createPod(t, api, pod)
	}
	k := enginetest.Corpus(t, "inject")
	p, err := newPodWatch(client, []*kind.Kind{enginetest.Shipped(t, "At"), k}, informers.New(t.Context(), nil, nil))
	require.NoError(t, err)
	c := newController(k, &Config{Mapper: mapper(), Log: quiet(), Metrics: NewMetrics()}, newShards(0), 0)
	giveUp := time.AfterFunc(time.Minute, c.queue.ShutDown) // so that queued does not block
	t.Cleanup(func() { giveUp.Stop(); c.queue.ShutDown() })
	c.pods = p
	p.start()
	require.NoError(t, registerAndSync(t.Context(), p.Handle, c.intake.ofPods()))
	return c, api
}

func createPod(t *testing.T, api fake.MetadataClient, pod *metav1.PartialObjectMetadata) {
	t.Helper()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	_, err := api.CreateFake(pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

// queued takes as many objects from the queue as are wanted, and compares them.
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

// Events of Pods queue the objects that they name, that are injected into them, and that
// select them.
func TestPodsQueueObjects(t *testing.T) {
	t.Parallel()
	c, api := agentController(t, agentPod("existing", "first", ""))
	selecting := agent("selecting", map[string]any{"image": "i", "replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}})
	uptake := func(object *unstructured.Unstructured) plan.Uptake {
		t.Helper()
		v := plan.View{Budget: c.kind.NewBudget()}
		require.NoError(t, c.reconciliation(cache.ObjectName{}, quiet()).readPods(object, &v))
		require.NoError(t, v.InjectionErr)
		return v.Uptake
	}
	require.Zero(t, uptake(selecting))

	createPod(t, api, agentPod("p", "named", `{"injected":1}`))
	queued(t, c, "named", "injected")
	createPod(t, api, labelled(agentPod("q", "", ""), "app", "web"))
	queued(t, c, "selecting")
	require.Equal(t, plan.Uptake{Missing: []string{"q"}}, uptake(selecting))

	changed := agentPod("p", "other", "")
	changed.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	_, err := api.UpdateFake(changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	queued(t, c, "named", "injected", "other")
	require.NoError(t, api.Delete(t.Context(), "p", metav1.DeleteOptions{}))
	queued(t, c, "other")
	require.Zero(t, uptake(agent("other", map[string]any{"image": "i", "replicas": int64(1)})))

	// Pods that existed from the start are counted by the first reconcile, and queue nothing.
	require.Zero(t, c.queue.Len())
	require.Equal(t, plan.Uptake{Missing: []string{"existing"}}, uptake(agent("first", map[string]any{"image": "i", "replicas": int64(1)})))

	c.selections.forget(cache.MetaObjectToName(selecting))
	require.Empty(t, c.selections.namespaces["team"]["selecting"])
}

func TestSelectionsAreEvaluatedOncePerVersion(t *testing.T) {
	t.Parallel()
	var s selections
	object := agent("a", nil)
	evaluated := 0
	of := func() error {
		_, err := s.of(object, func() (labels.Selector, error) { evaluated++; return nil, errors.New("not valid") })
		return err
	}
	require.EqualError(t, of(), "not valid")
	require.EqualError(t, of(), "not valid")
	require.Equal(t, 1, evaluated)
	object.SetResourceVersion("2")
	require.Error(t, of())
	require.Equal(t, 2, evaluated)
	object.SetUID("another")
	require.Error(t, of())
	require.Equal(t, 3, evaluated)
	s.forget(cache.MetaObjectToName(object))
	require.Empty(t, s.namespaces)
}

// The view shows that an injection cannot be evaluated; the plan shows that an object is
// invalid.
func TestBrokenSelection(t *testing.T) {
	t.Parallel()
	c, _ := agentController(t)
	v := plan.View{Budget: c.kind.NewBudget()}
	require.NoError(t, c.reconciliation(cache.ObjectName{}, quiet()).readPods(agent("a", map[string]any{"image": "i", "replicas": int64(1), "selector": map[string]any{"matchLabels": "x"}}), &v))
	require.ErrorContains(t, v.InjectionErr, "inject.selector")
	require.NoError(t, c.reconciliation(cache.ObjectName{}, quiet()).readPods(agent("b", map[string]any{}), &v))
	require.NoError(t, v.InjectionErr)
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
		"annotation": {func(p *metav1.PartialObjectMetadata) { p.Annotations[requestAnnotation] = "b" }, false},
		"deletion":   {func(p *metav1.PartialObjectMetadata) { leaving(p) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := before.DeepCopy()
			tc.change(after)
			require.Equal(t, tc.want, sameUptake(watched(t, before), watched(t, after)))
		})
	}
}

// A cluster has many Pods, so only what is read is kept of each.
func TestPodsAreStripped(t *testing.T) {
	t.Parallel()
	c, _ := agentController(t)
	pod := labelled(agentPod("p", "a", `{"a":1}`), "app", "web")
	pod.UID, pod.ResourceVersion = "1", "2"
	pod.Annotations["other"] = "x"
	pod.OwnerReferences = []metav1.OwnerReference{{Name: "r"}}
	pod.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	stripped, err := c.pods.strip(pod)
	require.NoError(t, err)
	require.Equal(t, &watchedPod{
		Pod:       inject.Pod{Name: "p", Labels: podLabels{{"app", "web"}}, Annotations: map[string]string{requestAnnotation: "a", inject.StatusAnnotation: injectedStatus(`{"a":1}`)}},
		namespace: "team", uid: "1", resourceVersion: "2",
	}, stripped)
	require.Contains(t, pod.Annotations, "other", "the Pod is not changed")
	again, err := c.pods.strip(stripped)
	require.NoError(t, err)
	require.Same(t, stripped, again, "as in a tombstone")
	_, err = c.pods.indexByInjection("not a Pod")
	require.EqualError(t, err, "cache of Pods holds a string")
}

func TestNoWatchOfPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		client metadata.Interface
		kinds  []*kind.Kind
	}{
		"no client":    {nil, []*kind.Kind{enginetest.Shipped(t, "Watcher")}},
		"none injects": {fake.NewSimpleMetadataClient(fake.NewTestScheme()), []*kind.Kind{enginetest.Shipped(t, "At")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := newPodWatch(tc.client, tc.kinds, informers.New(t.Context(), nil, nil))
			require.NoError(t, err)
			require.Nil(t, p)
		})
	}
}
