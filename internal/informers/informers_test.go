package informers

import (
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/internal/parts"
	"github.com/fescue-dev/fescue/internal/projection"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func pod(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": name, "managedFields": []any{map[string]any{"manager": "m"}}},
	}}
}

func client(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"}, objects...)
}

func TestCachesAreSharedAndStopped(t *testing.T) {
	t.Parallel()
	selection := Selection{Resource: pods, Labels: "a=b"}
	i := New(t.Context(), Decoded(client()), nil)
	first, err := i.Watch(selection)
	require.NoError(t, err)
	second, err := i.Watch(selection)
	require.NoError(t, err)
	require.Same(t, first.Cache, second.Cache)
	other, err := i.Watch(Selection{Resource: pods})
	require.NoError(t, err)
	require.NotSame(t, first.Cache, other.Cache)

	second.Release()
	second.Release() // counts once
	require.False(t, first.informer("").IsStopped(), "it still has a user")
	first.Release()
	require.Eventually(t, first.informer("").IsStopped, time.Minute, time.Millisecond)
	third, err := i.Watch(selection)
	require.NoError(t, err)
	require.NotSame(t, first.Cache, third.Cache)
	third.Release()
	require.False(t, other.informer("").IsStopped())
}

// A user that joins later gets all objects, and one that leaves gets no more events,
// whatever the others do.
func TestEventsOfEachUser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := client(pod("a", "first"))
		i := New(t.Context(), Decoded(api), []string{"a", "b"})
		require.Equal(t, []string{"a", "b"}, i.Namespaces())
		require.False(t, i.AllNamespaces())
		names := func() (*Watch, func() []string) {
			w, err := i.Watch(Selection{Resource: pods})
			require.NoError(t, err)
			var mu sync.Mutex // a handler is called for two namespaces at a time
			var seen []string
			r, err := w.Handle(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
				name, _ := cache.ObjectToName(object)
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, name.String())
			}})
			require.NoError(t, err)
			require.NoError(t, r.WaitForSync(t.Context()))
			synctest.Wait()
			return w, func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(seen)
			}
		}
		early, seenEarly := names()
		create := func(namespace, name string) {
			_, err := api.Resource(pods).Namespace(namespace).Create(t.Context(), pod(namespace, name), metav1.CreateOptions{})
			require.NoError(t, err)
			synctest.Wait()
		}
		create("b", "second")
		create("c", "elsewhere")
		late, seenLate := names()
		require.Equal(t, []string{"a/first", "b/second"}, seenEarly())
		require.ElementsMatch(t, []string{"a/first", "b/second"}, seenLate())

		early.Release()
		create("a", "third")
		require.Len(t, seenEarly(), 2)
		require.Contains(t, seenLate(), "a/third")
		late.Release()
	})
}

func TestCacheReads(t *testing.T) {
	t.Parallel()
	i := New(t.Context(), Decoded(client(pod("a", "one"), pod("b", "two"))), nil)
	require.True(t, i.AllNamespaces())
	w, err := i.Watch(Selection{Resource: pods})
	require.NoError(t, err)
	defer w.Release()
	byName := cache.Indexers{"name": func(object any) ([]string, error) {
		return []string{object.(*unstructured.Unstructured).GetName()}, nil
	}}
	require.NoError(t, w.AddIndexers(byName))
	require.NoError(t, w.AddIndexers(byName), "another user needs it too")
	r, err := w.Handle(cache.ResourceEventHandlerFuncs{})
	require.NoError(t, err)
	require.NoError(t, r.WaitForSync(t.Context()))

	require.Equal(t, pods, w.Resource())
	one := w.Get(cache.ObjectName{Namespace: "a", Name: "one"})
	require.NotNil(t, one)
	require.Empty(t, one.GetManagedFields())
	require.Nil(t, w.Get(cache.ObjectName{Namespace: "a", Name: "two"}))
	require.Equal(t, []*unstructured.Unstructured{one}, w.InNamespace("a"))
	found, err := w.ByIndex("b", "name", "two")
	require.NoError(t, err)
	require.Len(t, found, 1)
	n := 0
	w.Each(func(object metav1.Object) { n += len(object.GetName()) })
	require.Equal(t, len("one")+len("two"), n)
}

// An index keeps a value for longer than the object that it was first computed for.
func TestIndexDoesNotKeepTheText(t *testing.T) {
	t.Parallel()
	index := Index(func(object any) ([]string, error) {
		return []string{object.(*unstructured.Unstructured).GetLabels()["owner"]}, nil
	})
	values := func() (weak.Pointer[byte], []string) {
		o, err := projection.To(parts.Everything()).Parse([]byte(`{"metadata":{"name":"a","labels":{"owner":"b"}}}`))
		require.NoError(t, err)
		values, err := index(o)
		require.NoError(t, err)
		return weak.Make(unsafe.StringData(o.Text())), values
	}
	text, found := values()
	require.Eventually(t, func() bool {
		goruntime.GC()
		return text.Value() == nil
	}, 1e10, 1e6)
	require.Equal(t, []string{"b"}, found)
}

func TestTransformStripsManagedFields(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "managedFields": []any{map[string]any{}}}}}
	stripped, err := StripManagedFields(object)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"metadata": map[string]any{"name": "a"}}, stripped.(*unstructured.Unstructured).Object)
}
