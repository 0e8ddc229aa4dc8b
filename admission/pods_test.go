package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/engine/inject"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
)

// typicalNamespace is that of the typical Pod.
const typicalNamespace = "shop"

// typicalWatcher is the object that the typical Pod asks for.
func typicalWatcher(tb testing.TB) *unstructured.Unstructured {
	tb.Helper()
	text, err := os.ReadFile("../engine/inject/testdata/typical-watcher.yaml")
	require.NoError(tb, err)
	text, err = yaml.YAMLToJSON(text)
	require.NoError(tb, err)
	var watcher unstructured.Unstructured
	require.NoError(tb, watcher.UnmarshalJSON(text))
	watcher.SetNamespace(typicalNamespace)
	watcher.SetUID("u")
	return &watcher
}

// typicalPod is the request for it.
func typicalPod(tb testing.TB) *admissionv1.AdmissionRequest {
	tb.Helper()
	text, err := os.ReadFile("../engine/inject/testdata/typical.json")
	require.NoError(tb, err)
	return &admissionv1.AdmissionRequest{
		UID: "r", Namespace: typicalNamespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: text},
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
}

// runPods watches the Watchers of a fake API server until the test ends.
func runPods(tb testing.TB, skipped func(runtime.Object, string, string), objects ...runtime.Object) (*Pods, *fake.FakeDynamicClient) {
	tb.Helper()
	kinds := kindtest.Shipped(tb)
	watcher := kindtest.Named(tb, kinds, "Watcher")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{watcher.GroupVersionResource(): "WatcherList"}, objects...)
	p, err := NewPods(PodsConfig{Informers: informers.New(tb.Context(), informers.Decoded(client), nil), Kinds: []*kind.Kind{watcher}, Skipped: skipped})
	require.NoError(tb, err)
	_, _, err = p.Inject(tb.Context(), typicalPod(tb))
	require.ErrorIs(tb, err, errNotSynced, "the Watcher is not reported as missing")
	p.Follow(watcher, nil)
	go p.Run(tb.Context())
	require.Eventually(tb, func() bool { return p.Ready() == nil }, time.Minute, time.Millisecond)
	return p, client
}

func TestPodsWatchObjects(t *testing.T) {
	t.Parallel()
	watcher := typicalWatcher(t)
	p, client := runPods(t, nil, watcher)
	watchers := client.Resource(kindtest.Named(t, kindtest.Shipped(t), "Watcher").GroupVersionResource()).Namespace(typicalNamespace)
	injects := func() bool {
		patch, _, err := p.Inject(t.Context(), typicalPod(t))
		return err == nil && len(patch) > 0
	}
	require.True(t, injects())

	elsewhere := typicalPod(t)
	elsewhere.Namespace = "other"
	patch, warnings, err := p.Inject(t.Context(), elsewhere)
	require.NoError(t, err)
	require.NotContains(t, string(patch), "initContainers", "a Watcher is for its own namespace")
	require.Len(t, warnings, 1)

	invalid := watcher.DeepCopy()
	unstructured.RemoveNestedField(invalid.Object, "spec", "container")
	_, err = watchers.Update(t.Context(), invalid, metav1.UpdateOptions{})
	require.NoError(t, err)
	sidecar := func() bool {
		patch, _, err := p.Inject(t.Context(), typicalPod(t))
		return err == nil && bytes.Contains(patch, []byte("initContainers"))
	}
	require.Eventually(t, func() bool { return !sidecar() }, time.Minute, time.Millisecond, "an invalid Watcher is not injected")
	_, warnings, err = p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Equal(t, []string{`Watcher.watch.fescue.dev "` + watcher.GetName() + `" is not injected: spec.container: Required value`}, warnings)
	_, err = watchers.Update(t.Context(), watcher, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, sidecar, time.Minute, time.Millisecond)
	require.NoError(t, watchers.Delete(t.Context(), watcher.GetName(), metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return !sidecar() }, time.Minute, time.Millisecond)
	require.Empty(t, p.byNamespace, "nothing is kept of deleted objects")
}

// Pods that could not be injected are reported on the object, except for dry runs.
func TestPodsReportSkips(t *testing.T) {
	t.Parallel()
	type report struct{ object, pod string }
	var reports []report
	p, _ := runPods(t, func(object runtime.Object, pod, why string) {
		require.NotEmpty(t, why)
		reports = append(reports, report{object.(*unstructured.Unstructured).GetName(), pod})
	}, typicalWatcher(t))
	request := typicalPod(t)
	name := typicalWatcher(t).GetName()
	request.Object.Raw = []byte(`{"metadata":{"generateName":"p-","annotations":{"watch.fescue.dev/inject":"` + name + `"}},"spec":{"containers":[{"name":"log-watcher","image":"other"}]}}`)
	request.DryRun = new(true)
	_, warnings, err := p.Inject(t.Context(), request)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Empty(t, reports)
	request.DryRun = nil
	_, _, err = p.Inject(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, []report{{name, "p-…"}}, reports)

	request.Object.Raw = []byte(`not JSON`)
	_, _, err = p.Inject(t.Context(), request)
	require.Error(t, err)
}

// A kind for which something is missing does not hold up others, and is watched once nothing is.
func TestPodsDoNotWaitForAKindThatIsNotRunning(t *testing.T) {
	t.Parallel()
	watcher := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	other := kindtest.InCorpus(t, "inject")[0]
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		watcher.GroupVersionResource(): "WatcherList", other.GroupVersionResource(): "AgentList",
	}, typicalWatcher(t))
	p, err := NewPods(PodsConfig{Informers: informers.New(t.Context(), informers.Decoded(client), nil), Kinds: []*kind.Kind{other, watcher}})
	require.NoError(t, err)
	go p.Run(t.Context())
	require.ErrorIs(t, p.Ready(), errNotSynced, "nothing is known of the kinds yet")
	p.Follow(other, errors.New("no CRD"))
	p.Follow(watcher, nil)
	require.Eventually(t, func() bool { return p.Ready() == nil }, time.Minute, time.Millisecond)
	for _, action := range client.Actions() {
		require.Equal(t, watcher.GroupVersionResource(), action.GetResource(), "a missing kind is not requested")
	}
	patch, warnings, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Contains(t, string(patch), "initContainers")

	request := typicalPod(t)
	request.Object.Raw = bytes.Replace(request.Object.Raw, []byte(`"annotations":{`), []byte(`"annotations":{"`+other.InjectAnnotation+`":"x",`), 1)
	patch, warnings, err = p.Inject(t.Context(), request)
	require.NoError(t, err)
	require.Contains(t, string(patch), "initContainers")
	require.Equal(t, []string{other.GroupVersionKind.GroupKind().String() + ` "x" is not injected: the kind is not running: its CRD or a right that Fescue needs is missing`}, warnings)

	p.Follow(other, nil)
	require.Eventually(t, func() bool {
		_, warnings, err = p.Inject(t.Context(), request)
		require.NoError(t, err, "Pods do not wait for it")
		return strings.Contains(warnings[0], "no object with that name exists")
	}, time.Minute, time.Millisecond)
}

// The engine watches the same objects, and both use one cache.
func TestPodsShareTheCache(t *testing.T) {
	t.Parallel()
	watcher := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{watcher.GroupVersionResource(): "WatcherList"}, typicalWatcher(t))
	shared := informers.New(t.Context(), informers.Decoded(client), nil)
	engines, err := shared.Watch(informers.Selection{Resource: watcher.GroupVersionResource()})
	require.NoError(t, err)
	registration, err := engines.Handle(cache.ResourceEventHandlerFuncs{})
	require.NoError(t, err)
	require.NoError(t, registration.WaitForSync(t.Context()))

	p, err := NewPods(PodsConfig{Informers: shared, Kinds: []*kind.Kind{watcher}})
	require.NoError(t, err)
	p.Follow(watcher, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { p.Run(ctx); close(ended) }()
	require.Eventually(t, func() bool { return p.Ready() == nil }, time.Minute, time.Millisecond)
	patch, _, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Contains(t, string(patch), "initContainers")
	lists := slices.DeleteFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "watch" })
	require.LessOrEqual(t, len(lists), 1, "%v", lists)
	watches := slices.DeleteFunc(client.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() != "watch" })
	require.Len(t, watches, 1)

	cancel()
	<-ended
	require.NotNil(t, engines.Get(cache.MetaObjectToName(typicalWatcher(t))), "the engine keeps its share")
}

// A level that is enforced only after an object was created prevents its injection, not the Pod.
// Additions to containers of the Pod are not evaluated alone.
func TestAdditionsAreNotEvaluatedAlone(t *testing.T) {
	t.Parallel()
	part := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "sidecar", Image: "sidecar"}},
		Containers:     []corev1.Container{{Name: "app", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
	}}
	own := ownContainers(part)
	require.Equal(t, part.Spec.InitContainers, own.Spec.InitContainers)
	require.Empty(t, own.Spec.Containers)
	require.Len(t, part.Spec.Containers, 1, "the injection is not changed")
}

// A status that another version of the kind projected does not prevent injection.
func TestPodsOfAnObjectWithAnotherStatus(t *testing.T) {
	t.Parallel()
	watcher := typicalWatcher(t)
	require.NoError(t, unstructured.SetNestedField(watcher.Object, "x", "status", "fieldOfAnotherVersion"))
	p, _ := runPods(t, nil, watcher)
	patch, _, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Contains(t, string(patch), "initContainers")
}

func TestPodsFollowPodSecurity(t *testing.T) {
	t.Parallel()
	p, _ := runPods(t, nil, typicalWatcher(t))
	level, err := "", error(nil)
	p.security, err = NewPodSecurity(func(context.Context, string) (map[string]string, error) {
		return map[string]string{"pod-security.kubernetes.io/enforce": level}, err
	}, false)
	require.NoError(t, err)
	for level = range map[string]bool{"": true, "privileged": true, "baseline": true, "restricted": false, "unknown": false} {
		injects := level != "restricted" && level != "unknown"
		patch, warnings, err := p.Inject(t.Context(), typicalPod(t))
		require.NoError(t, err)
		require.Equal(t, injects, strings.Contains(string(patch), "initContainers"), level)
		require.Equal(t, injects, len(warnings) == 0, level)
		if !injects {
			require.Contains(t, warnings[0], `is not injected: what it injects violates PodSecurity "restricted:latest": unrestricted capabilities`)
			require.Contains(t, string(patch), `\"reason\":\"PodSecurity\"`)
		}
	}
	level = "restricted"
	known := p.byNamespace[typicalNamespace]
	first, err := p.candidates(t.Context(), typicalNamespace, known)
	require.NoError(t, err)
	again, err := p.candidates(t.Context(), typicalNamespace, known)
	require.NoError(t, err)
	require.Same(t, first[0], again[0], "it is evaluated once")

	err = errors.New("not known")
	_, _, failed := p.Inject(t.Context(), typicalPod(t))
	require.ErrorIs(t, failed, err)
}

// An object that makes a kind panic adds nothing, and stops neither the process nor other objects.
func TestPodsRecoverFromAPanic(t *testing.T) {
	t.Parallel()
	shipped := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	var log bytes.Buffer
	p, err := NewPods(PodsConfig{Kinds: []*kind.Kind{shipped}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	broken := kind.Kind{Version: &kind.Version{GroupVersionKind: shipped.GroupVersionKind}, InjectAnnotation: shipped.InjectAnnotation}
	bad, good := typicalWatcher(t), typicalWatcher(t)
	bad.SetName("bad")
	p.handler(&broken).OnAdd(bad, true)
	p.handler(shipped).OnAdd(good, true)
	require.Len(t, p.byNamespace[typicalNamespace], 2)
	result, err := p.injector.Inject(t.Context(), inject.Target{Text: typicalPod(t).Object.Raw, Namespace: typicalNamespace}, []*inject.Injection{
		p.byNamespace[typicalNamespace][0].injection, p.byNamespace[typicalNamespace][1].injection,
	})
	require.NoError(t, err)
	require.Empty(t, result.Warnings(), "the good one is injected")
	require.Contains(t, log.String(), `msg="object is not injected" kind=Watcher object=shop/bad error="panic, which is a bug in Fescue: `)
}

// Where the CRD belongs to another version of the kind, Pods are injected as before, with a warning.
func TestInjectionByAnotherVersionIsAWarning(t *testing.T) {
	t.Parallel()
	p, _ := runPods(t, nil, typicalWatcher(t))
	isOther := false
	p.isOtherVersion = func(*kind.Kind) bool { return isOther }
	_, warnings, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Empty(t, warnings)
	isOther = true
	patch, warnings, err := p.Inject(t.Context(), typicalPod(t))
	require.NoError(t, err)
	require.Contains(t, string(patch), "initContainers")
	require.Equal(t, []string{"the CRD watchers.watch.fescue.dev belongs to another version of the kind than the Fescue that answers, which may be about to be upgraded"}, warnings)
}

// failingInformers fail a few times.
type failingInformers struct {
	Informers
	left atomic.Int32
}

func (i *failingInformers) Watch(selection informers.Selection) (*informers.Watch, error) {
	if i.left.Add(-1) >= 0 {
		return nil, errors.New("no watch")
	}
	return i.Informers.Watch(selection)
}

// A watch that could not be wired is wired again, and Pods are injected then.
func TestWatchOfObjectsIsRetried(t *testing.T) {
	t.Parallel()
	watcher := kindtest.Named(t, kindtest.Shipped(t), "Watcher")
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{watcher.GroupVersionResource(): "WatcherList"}, typicalWatcher(t))
		failing := &failingInformers{Informers: informers.New(t.Context(), informers.Decoded(client), nil)}
		failing.left.Store(2)
		var log logtest.Buffer
		p, err := NewPods(PodsConfig{Informers: failing, Kinds: []*kind.Kind{watcher}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		go p.Run(t.Context())
		p.Follow(watcher, nil)
		time.Sleep(2*watchRetry - time.Second)
		require.ErrorIs(t, p.Ready(), errNotSynced)
		require.Equal(t, 2, strings.Count(log.String(), `msg="objects that inject are not watched; retrying" kind=Watcher error="no watch"`))
		time.Sleep(2 * time.Second)
		require.NoError(t, p.Ready())
		patch, _, err := p.Inject(t.Context(), typicalPod(t))
		require.NoError(t, err)
		require.Contains(t, string(patch), "initContainers")
	})
}
