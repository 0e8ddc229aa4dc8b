package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
