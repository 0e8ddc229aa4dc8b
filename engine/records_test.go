package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/engine/plan"
)

// What is remembered of an object is not known of another one of its name, and nothing is kept of an object that has nothing to
// remember.
func TestMemoryIsOfOneObject(t *testing.T) {
	t.Parallel()
	owner := version("a", "1")
	name := cache.MetaObjectToName(owner)
	m := newRecords()
	memory := m.memoryOf(owner)
	m.keep(name, owner.GetUID(), memory)
	require.Empty(t, m.byObject)

	var news plan.News
	news.Met(&plan.Outcome{Foreign: []children.Live{children.Of(pods, version("foreign", "1"))}}, memory)
	_, foreign := memory.Tell(&news)
	require.Len(t, foreign, 1)
	m.keep(name, owner.GetUID(), memory)
	require.Same(t, memory, m.memoryOf(owner))
	require.False(t, m.slows(name))

	other := owner.DeepCopy()
	other.SetUID("another")
	require.NotSame(t, memory, m.memoryOf(other))
	m.keep(name, owner.GetUID(), memory)
	require.NotSame(t, memory, m.memoryOf(owner), "the name has another object")
	m.forget(name)
	require.Empty(t, m.byObject)
}
