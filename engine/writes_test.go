package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

func version(uid, resourceVersion string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "uid": uid, "resourceVersion": resourceVersion}}}
}

func TestNewestIsNeverOlderThanTheLastWrite(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	w := newWrites()
	require.Equal(t, "5", w.newest(name, version("u", "5")).GetResourceVersion())

	w.rememberObject(name, version("u", "9"))
	require.Equal(t, "9", w.newest(name, version("u", "5")).GetResourceVersion(), "the cache lags behind")
	require.Equal(t, "10", w.newest(name, version("u", "10")).GetResourceVersion(), "numbers, not texts, are compared")
	require.Equal(t, "1", w.newest(name, version("v", "1")).GetResourceVersion(), "another object of the same name")

	w.cached(name, version("u", "8"))
	require.NotEmpty(t, w.byObject)
	w.cached(name, version("u", "9"))
	require.Empty(t, w.byObject, "what the cache has seen is forgotten")
}

func TestSeenWaitsForChildren(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	w := newWrites()
	inCache := ""
	hasSeen := func(_ schema.GroupVersionResource, version string) bool { return !older(inCache, version) }
	require.True(t, w.seen(name, hasSeen))

	w.rememberChild(name, "u", pods, "9")
	w.rememberChild(name, "u", pods, "7")
	require.False(t, w.seen(name, hasSeen), "nothing seen at all")
	inCache = "8"
	require.False(t, w.seen(name, hasSeen))
	inCache = "11"
	require.True(t, w.seen(name, hasSeen))
	require.Empty(t, w.byObject)

	w.rememberChild(name, "u", pods, "20")
	w.forget(name)
	require.True(t, w.seen(name, hasSeen))
}
