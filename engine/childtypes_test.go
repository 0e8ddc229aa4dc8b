package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/enginetest"
)

// A watch of strays that fails leaves the watch of the children as it is: the next try registers
// no second handler.
func TestStrayWatchIsRetriedAlone(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList", k.GroupVersionResource(): "CustomclusterList"})
	var allowed atomic.Bool
	var giveUp atomic.Pointer[context.CancelFunc] // the present try
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		selector := action.(clienttesting.ListAction).GetListRestrictions().Labels.String()
		if strings.Contains(selector, "controller") && !allowed.Load() {
			(*giveUp.Load())()
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return false, nil, nil
	})
	e, err := New(Config{Kinds: []*kind.Kind{k}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet()})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		giveUp.Store(&cancel)
		_, err := c.watchServed(ctx)
		cancel()
		require.ErrorContains(t, err, "stopped before the cache was filled")
		require.Len(t, c.watches, 1, "that of the children")
	}
	allowed.Store(true)
	found, err := c.watchServed(t.Context())
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, c.watches, 2)
}

// A member that has lost its label before an event has shown it is lost, although the cache of strays has it.
func TestMemberLostBeforeItsEvent(t *testing.T) {
	t.Parallel()
	k := enginetest.Shipped(t, "Customcluster")
	member := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"namespace": "default", "name": "c-1", "uid": "member", "resourceVersion": "1",
			"labels": map[string]any{"controller": "c"}}}}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{pods: "PodList"}, member)
	e, err := New(Config{Kinds: []*kind.Kind{k}, Client: client, Informers: informers.New(t.Context(), informers.Decoded(client), nil), Mapper: mapper(), Log: quiet()})
	require.NoError(t, err)
	c := newController(k, &e.config, e.shards, 0)
	t.Cleanup(c.queue.ShutDown)
	_, err = c.watchServed(t.Context())
	require.NoError(t, err)
	owner, name := cache.ObjectName{Namespace: "default", Name: "c"}, cache.MetaObjectToName(member)
	require.True(t, c.types.hasLeft(pods, name, "member"))
	require.False(t, c.types.hasLost(pods, name, "member"), "the cache of strays has it")

	c.records.rememberChild(owner, "owner", pods, member)
	seen, _ := c.records.seen(owner, &caughtUp{c.types})
	require.True(t, seen)
	require.Equal(t, map[types.UID]lostChild{"member": {pods, name}}, c.records.lostOf(owner, "owner"))
}

// caughtUp are caches that have all versions.
type caughtUp struct{ *childTypes }

func (caughtUp) hasSeen(schema.GroupVersionResource, string, string) bool { return true }

// What is remembered of strays does not grow with the labels that a template had.
func TestFormerLabelsAreForgotten(t *testing.T) {
	t.Parallel()
	types := newChildTypes(enginetest.Shipped(t, "Customcluster"))
	a, b := cache.ObjectName{Namespace: "default", Name: "a"}, cache.ObjectName{Namespace: "default", Name: "b"}
	for _, labels := range []string{"v1,", "v2,", "v3,"} {
		types.expectStrays(a, strayKey{"pods", a.Namespace, labels})
		types.expectStrays(b, strayKey{"pods", b.Namespace, "v1,"})
	}
	types.expectStrays(a, strayKey{"pods", a.Namespace, "v1,"})
	types.expectStrays(a, strayKey{"more", a.Namespace, "v3,"})
	require.Equal(t, map[strayKey][]cache.ObjectName{
		{"pods", "default", "v1,"}: {a, b}, {"more", "default", "v3,"}: {a},
	}, types.owners)
	types.forgetStrays(a)
	types.forgetStrays(b)
	require.Empty(t, types.owners)
	require.Empty(t, types.keys)
}
