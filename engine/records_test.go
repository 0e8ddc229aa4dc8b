package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// What was written for the children of a former object is awaited by the next one of its name, whose children may have the same names.
func TestWritesOfAFormerObjectAreAwaited(t *testing.T) {
	t.Parallel()
	former, next := version("former", "9"), version("next", "12")
	name, m, c := cache.MetaObjectToName(former), newRecords(), &fixedCaches{version: "10"}
	m.rememberObject(name, former)
	m.rememberChild(name, "former", pods, version("child", "11"))
	m.keep(name, "next", m.memoryOf(next))
	require.False(t, m.hasObject(name))
	isSeen, _ := m.seen(name, c)
	require.False(t, isSeen)
	c.version = "11"
	isSeen, _ = m.seen(name, c)
	require.True(t, isSeen)
}

// What was written for an object that seems to be gone is awaited, for as long as caches may take: an event that comes
// twice may have shown the end of a former object of the name.
func TestWritesOfAnObjectThatIsGone(t *testing.T) {
	t.Parallel()
	object := version("a", "9")
	name, m, c := cache.MetaObjectToName(object), newRecords(), &fixedCaches{version: "10"}
	m.rememberObject(name, object)
	m.rememberChild(name, "a", pods, version("child", "11"))
	m.gone(name, time.Now().Add(-time.Hour))
	require.False(t, m.hasObject(name))
	isSeen, _ := m.seen(name, c)
	require.False(t, isSeen)

	c.version = "11"
	require.Equal(t, []cache.ObjectName{name}, m.overdue(c, time.Time{}), "the caches have it")
	require.Len(t, m.lostOf(name, "a"), 1, "but for the child, which has lost its label or is gone")
	m.gone(name, time.Now().Add(-time.Hour))
	require.Empty(t, m.byObject)

	m.rememberChild(name, "a", pods, version("child", "12"))
	m.gone(name, time.Now().Add(time.Second))
	require.Empty(t, m.byObject, "no cache takes so long")
}

// An event of a child whose owner is gone never replaces the record of the next object of the owner's name.
func TestLostChildOfAFormerObject(t *testing.T) {
	t.Parallel()
	former, next := version("former", "9"), version("next", "12")
	name, m := cache.MetaObjectToName(former), newRecords()
	lose := func(cached *unstructured.Unstructured) {
		m.addLost(name, "former", "child", lostChild{pods, name}, func() *unstructured.Unstructured { return cached })
	}
	lose(nil)
	require.Empty(t, m.byObject, "it is gone")
	lose(former)
	require.Len(t, m.lostOf(name, "former"), 1)

	m.rememberObject(name, next)
	lose(former) // the cache is behind
	require.True(t, m.hasObject(name))
	m.forget(name)
	m.memoryOf(next)
	lose(next)
	require.Empty(t, m.lostOf(name, "former"))
	require.Empty(t, m.lostOf(name, "next"))
}
