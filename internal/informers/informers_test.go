package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
)

func TestWatchesAreSharedAndStopped(t *testing.T) {
	t.Parallel()
	key := watchKey{resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, selector: "a=b"}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{key.resource: "PodList"})
	w := newWatches(client, nil)
	first, err := w.acquire(t.Context(), key)
	require.NoError(t, err)
	second, err := w.acquire(t.Context(), key)
	require.NoError(t, err)
	require.Same(t, first, second)

	w.release(key)
	require.False(t, first.informer("").IsStopped(), "it still has a user")
	w.release(key)
	require.Eventually(t, first.informer("").IsStopped, time.Minute, time.Millisecond)
	third, err := w.acquire(t.Context(), key)
	require.NoError(t, err)
	require.NotSame(t, first, third)

	w.release(key)
	w.release(watchKey{selector: "never acquired"})
}

func TestTransformStripsManagedFields(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "managedFields": []any{map[string]any{}}}}}
	stripped, err := stripManagedFields(object)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"metadata": map[string]any{"name": "a"}}, stripped.(*unstructured.Unstructured).Object)
	_, err = indexByOwner("not an object")
	require.EqualError(t, err, "cache holds a string")
}
