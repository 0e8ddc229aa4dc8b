package engine

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func version(uid, resourceVersion string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "uid": uid, "resourceVersion": resourceVersion}}}
}

func TestNewestIsNeverOlderThanTheLastWrite(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	w := newRecords()
	read := func(o *unstructured.Unstructured) func() *unstructured.Unstructured {
		return func() *unstructured.Unstructured { return o }
	}
	require.Equal(t, "5", w.newest(name, read(version("u", "5"))).GetResourceVersion())

	w.rememberObject(name, version("u", "9"))
	require.Equal(t, "9", w.newest(name, read(version("u", "5"))).GetResourceVersion(), "the cache lags behind")
	require.Equal(t, "10", w.newest(name, read(version("u", "10"))).GetResourceVersion(), "versions are compared as numbers")
	require.Equal(t, "9", w.newest(name, read(version("v", "1"))).GetResourceVersion(), "the cache has a former object of the name")
	require.Equal(t, "12", w.newest(name, read(version("v", "12"))).GetResourceVersion(), "the cache has a later object of the name")

	w.cached(name, version("u", "8"))
	require.NotEmpty(t, w.byObject)
	w.cached(name, version("u", "9"))
	require.Empty(t, w.byObject, "what the cache has seen is forgotten")
}

// A cache that catches up while the newest version is asked for drops what was written, and has it then.
func TestNewestWhileTheCacheCatchesUp(t *testing.T) {
	t.Parallel()
	name, w := cache.ObjectName{Name: "a"}, newRecords()
	var inCache atomic.Pointer[unstructured.Unstructured]
	var written atomic.Int64
	inCache.Store(version("u", "0"))
	var writer sync.WaitGroup
	writer.Go(func() {
		for v := range int64(20_000) {
			object := version("u", strconv.FormatInt(v, 10))
			w.rememberObject(name, object)
			written.Store(v)
			inCache.Store(object)
			w.cached(name, object)
		}
	})
	slowly := func() *unstructured.Unstructured {
		object := inCache.Load()
		runtime.Gosched()
		return object
	}
	for last := int64(0); last < 19_999; {
		last = written.Load()
		got, err := strconv.ParseInt(w.newest(name, slowly).GetResourceVersion(), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, got, last)
	}
	writer.Wait()
}

// fixedCaches are as new as a resource version, and still hold one object.
type fixedCaches struct {
	version string
	held    types.UID
}

func (c *fixedCaches) hasSeen(_ schema.GroupVersionResource, _, version string) bool {
	return !older(c.version, version)
}

func (c *fixedCaches) hasLeft(_ schema.GroupVersionResource, _ cache.ObjectName, uid types.UID) bool {
	return c.held != uid
}

func (c *fixedCaches) hasLost(_ schema.GroupVersionResource, _ cache.ObjectName, uid types.UID) bool {
	return c.held != uid
}

func TestSeenWaitsForChildren(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	w, c := newRecords(), &fixedCaches{held: "made"}
	seen := func() bool { ok, _ := w.seen(name, c); return ok }
	require.True(t, seen())

	w.rememberChild(name, "u", pods, version("made", "9"))
	w.rememberChild(name, "u", pods, version("made", "7"))
	require.False(t, seen(), "nothing is seen")
	require.True(t, w.isAwaited(name))
	c.version = "8"
	require.False(t, seen())
	c.version = "11"
	require.True(t, seen())
	require.Empty(t, w.byObject)

	c.held = "child"
	w.rememberDelete(name, "u", pods, version("child", "10"), true)
	require.False(t, seen(), "the deleted child still exists")
	c.held = ""
	require.True(t, seen())
	require.Empty(t, w.byObject)

	w.rememberChild(name, "u", pods, version("made", "20"))
	w.forget(name)
	require.True(t, seen())
}

// An event that shows what an answer did is an echo. It queues nothing, unless a reconcile has ended
// because the caches were behind; whichever event never comes, such an object is found as well.
func TestEchoes(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	w, c := newRecords(), &fixedCaches{version: "8"}
	require.False(t, w.isEcho(name, pods, "9"))

	w.rememberChild(name, "u", pods, version("made", "9"))
	require.False(t, w.isEcho(name, pods, "8"), "someone else's")
	require.False(t, w.isEcho(name, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "9"))
	require.True(t, w.isEcho(name, pods, "9"))
	require.False(t, w.isEcho(name, pods, "9"), "each once")
	require.False(t, w.isAwaited(name))
	long := time.Now().Add(-time.Hour)
	require.Empty(t, w.overdue(c, long), "no reconcile waits")
	require.Equal(t, []cache.ObjectName{name}, w.overdue(c, time.Now().Add(time.Hour)), "the cache is behind for too long")
	c.version = "9"
	require.Empty(t, w.overdue(c, long))
	require.Empty(t, w.byObject, "the cache has everything")
	require.Empty(t, w.lostOf(name, "u"), "an event has shown the child")

	w.rememberChild(name, "u", pods, version("made", "10"))
	c.version = "10"
	require.Equal(t, []cache.ObjectName{name}, w.overdue(c, long), "no event has shown the child: it may be gone, or as it was before")
	require.Equal(t, map[types.UID]lostChild{"made": {pods, name}}, w.lostOf(name, "u"))
	require.Empty(t, w.lostOf(name, "another"), "it has no part in that")
	w.found(name, "made")
	require.Empty(t, w.byObject)
	require.Empty(t, w.overdue(c, long))

	c.held = "held"
	w.rememberChild(name, "u", pods, version("held", "10"))
	w.rememberChild(name, "u", pods, version("deleted", "10"))
	w.rememberDelete(name, "u", pods, version("deleted", "10"), true)
	require.Equal(t, []cache.ObjectName{name}, w.overdue(c, long))
	require.Empty(t, w.lostOf(name, "u"), "a cache has one, and the other one is deleted")

	w.rememberChild(name, "u", pods, version("made", "11"))
	ok, _ := w.seen(name, c)
	require.False(t, ok)
	require.True(t, w.isAwaited(name))
	require.Empty(t, w.overdue(c, long), "the event is still to come")
	w.rememberObject(name, version("u", "12"))
	c.version = "11"
	require.Equal(t, []cache.ObjectName{name}, w.overdue(c, long), "no event has come")
	ok, _ = w.seen(name, c)
	require.True(t, ok)
	require.False(t, w.isAwaited(name))
	require.Empty(t, w.overdue(c, long))
}

// A cache may still have a former object of a name when the status of the new one was written.
func TestCacheHasAFormerObject(t *testing.T) {
	t.Parallel()
	name, w := cache.ObjectName{Name: "a"}, newRecords()
	former, written := version("former", "9"), version("new", "12")
	newest := func(cached *unstructured.Unstructured) *unstructured.Unstructured {
		return w.newest(name, func() *unstructured.Unstructured { return cached })
	}
	w.rememberObject(name, written)
	w.cached(name, former)
	require.Same(t, written, newest(former))
	require.Nil(t, newest(nil), "it is gone")
	later := version("third", "15")
	require.Same(t, later, newest(later))
	w.cached(name, later)
	require.Empty(t, w.byObject)
}

// The time that a cache lags behind counts from the oldest write that it has not seen.
func TestLagCountsFromTheFirstWrite(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	w, c := newRecords(), &fixedCaches{}
	w.rememberChild(name, "u", pods, version("made", "9"))
	_, first := w.seen(name, c)
	require.False(t, first.IsZero())
	w.rememberChild(name, "u", pods, version("made", "10"))
	_, second := w.seen(name, c)
	require.Equal(t, first, second)
	w.readLive(name)
	ok, third := w.seen(name, c)
	require.False(t, ok, "reading from the API server does not fill a cache")
	require.True(t, third.After(first))
}

// After a restore of etcd from an older copy, no cache reaches the version of a write that etcd lost. A list from the
// API server shows that.
func TestLostWritesAreNotAwaited(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Namespace: "n", Name: "a"}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	listed := func(version string, children ...unstructured.Unstructured) *unstructured.UnstructuredList {
		list := &unstructured.UnstructuredList{Items: children}
		list.SetResourceVersion(version)
		return list
	}
	for in, want := range map[childPlace]bool{
		{pods, "n"}: true, {pods, ""}: true, {pods, "other"}: false, {schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "n"}: false,
	} {
		w, c := newRecords(), &fixedCaches{version: "9"}
		w.listed(name, in, listed("7"))
		made := version("made", "12")
		made.SetNamespace("n")
		w.rememberChild(name, "u", pods, made)
		w.listed(name, in, listed("13"))
		ok, _ := w.seen(name, c)
		require.False(t, ok, "the cache is behind")
		w.listed(name, in, listed("9"))
		ok, _ = w.seen(name, c)
		require.Equal(t, want, ok, in)
	}

	w, c := newRecords(), &fixedCaches{version: "9", held: "child"}
	child := version("child", "8")
	w.rememberDelete(name, "u", pods, child, true)
	leaving := child.DeepCopy()
	leaving.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	w.listed(name, childPlace{pods, "n"}, listed("9", *leaving))
	require.True(t, w.isDeleting(name, "child"))
	w.listed(name, childPlace{pods, "n"}, listed("9", *child))
	require.False(t, w.isDeleting(name, "child"), "it must be deleted again")
	ok, _ := w.seen(name, c)
	require.True(t, ok)
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want bool
	}{{"", "", false}, {"", "1", true}, {"9", "10", true}, {"10", "9", false}, {"9", "9", false}, {"x", "9", false}} {
		require.Equal(t, tc.want, older(tc.a, tc.b), tc)
	}
}

// An event shows the own write of a status, or that of somebody else, whether it comes before or after the answer.
func TestStatusOfSomebodyElse(t *testing.T) {
	t.Parallel()
	name := cache.ObjectName{Name: "a"}
	write := func(w *records, answer string, shown ...string) (isOther bool) {
		_, isOther, err := w.write(name, "u", func() (*unstructured.Unstructured, error) {
			for _, v := range shown {
				require.True(t, w.isOwn(name, version("u", v)), "it may be, until the answer is there")
			}
			return version("u", answer), nil
		})
		require.NoError(t, err)
		return isOther
	}
	for what, tc := range map[string]struct {
		during  []string // events before the answer, which is version 5
		isOther bool
		after   map[string]bool // events after it, and whether they are the own write or what that is based on
	}{
		"the event comes after the answer":                {after: map[string]bool{"5": true}},
		"an older event comes after the answer":           {after: map[string]bool{"4": true}},
		"somebody else writes later":                      {after: map[string]bool{"6": false}},
		"the event comes before the answer":               {during: []string{"4", "5"}, after: map[string]bool{"6": false}},
		"somebody else writes before the answer is there": {during: []string{"5", "6"}, isOther: true, after: map[string]bool{"7": false}},
	} {
		w := newRecords()
		require.Equal(t, tc.isOther, write(w, "5", tc.during...), what)
		w.cached(name, version("u", "5"))
		for v, isOwn := range tc.after {
			require.Equal(t, isOwn, w.isOwn(name, version("u", v)), "%s: %s", what, v)
			require.False(t, w.isOwn(name, version("v", v)), "%s: another object of the name", what)
		}
		if _, isOlder := tc.after["4"]; !isOlder {
			require.Empty(t, w.byObject, what)
		}
	}
}

// A write that fails leaves nothing to remember.
func TestFailedWriteOfStatusIsForgotten(t *testing.T) {
	t.Parallel()
	w := newRecords()
	_, isOther, err := w.write(cache.ObjectName{Name: "a"}, "u", func() (*unstructured.Unstructured, error) { return nil, errWaiting })
	require.ErrorIs(t, err, errWaiting)
	require.False(t, isOther)
	require.Empty(t, w.byObject)
}
