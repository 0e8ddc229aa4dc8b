package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/engine/children"
	"github.com/fescue-dev/fescue/internal/informers"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// shardFlags are flags for processes that keep their Leases on a busy machine, where a write may
// take seconds.
func shardFlags(n int) []string {
	return []string{
		fmt.Sprintf("--shards=%d", n), "--leader-elect-lease-duration=20s",
		"--leader-elect-renew-deadline=16s", "--leader-elect-retry-period=500ms",
	}
}

// shardHolders returns the holders of n shards, "" for a shard without one.
func (c *cluster) shardHolders(n int) []string {
	holders := make(map[string]string)
	for _, lease := range c.list(leases, "") {
		holders[lease.GetName()], _, _ = unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	}
	held := make([]string, n)
	for i := range held {
		held[i] = holders[install.ShardLease(i)]
	}
	return held
}

// identity returns the name of a process in Leases, from its log.
func (o *process) identity() string {
	_, rest, _ := strings.Cut(o.log.String(), " identity=")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// awaitShares waits until n shards are held by these processes and no others, in shares that differ
// by one at most.
func (c *cluster) awaitShares(n int, by ...*process) {
	c.t.Helper()
	var last []string
	require.True(c.t, testcluster.WaitUntil(func() bool {
		last = c.shardHolders(n)
		has := make(map[string]int)
		for _, holder := range last {
			has[holder]++
		}
		for _, o := range by {
			if least := n / len(by); o.identity() == "" || has[o.identity()] != least && has[o.identity()] != least+1 {
				return false
			}
			delete(has, o.identity())
		}
		return len(has) == 0
	}), "shards are held by %q", &last)
}

// workedOn returns the objects whose phases a process has changed.
func (o *process) workedOn() sets.Set[string] {
	names := sets.New[string]()
	for line := range strings.Lines(o.log.String()) {
		if _, rest, ok := strings.Cut(line, `msg="phase changed" `); ok {
			_, rest, _ = strings.Cut(rest, "object=")
			name, _, _ := strings.Cut(rest, " ")
			names.Insert(name)
		}
	}
	return names
}

// Three processes share the objects. One is killed, another joins, one leaves, and each time all
// shards get a holder again. No object is lost, and none gets two Pods.
func TestShardsAreShared(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b, d := c.launch(shardFlags(3)...), c.launch(shardFlags(3)...), c.launch(shardFlags(3)...)
	c.awaitShares(3, a, b, d)
	created := 0
	create := func(n int) {
		for range n {
			c.createAt(fmt.Sprintf("a-%d", created), longAgo, "echo")
			created++
		}
	}
	awaitDone := func() {
		t.Helper()
		for i := range created {
			c.awaitPhase(fmt.Sprintf("a-%d", i), "DONE")
		}
	}
	create(30)
	awaitDone()
	require.Len(t, a.workedOn().Union(b.workedOn()).Union(d.workedOn()), 30)
	for _, pair := range [][2]*process{{a, b}, {a, d}, {b, d}} {
		require.NotEmpty(t, pair[0].workedOn())
		require.Empty(t, pair[0].workedOn().Intersection(pair[1].workedOn()), "objects that two processes worked on")
	}

	b.kill()
	killed := time.Now()
	create(20)
	c.awaitShares(3, a, d)
	t.Logf("its shard has a holder after %s, with leases of 10s", time.Since(killed).Round(10*time.Millisecond))
	awaitDone()

	e := c.launch(shardFlags(3)...)
	require.True(t, testcluster.WaitUntil(func() bool { // work continues while shards get other holders
		create(1)
		return sets.New(c.shardHolders(3)...).Len() == 3
	}))
	c.awaitShares(3, a, d, e)
	f := c.launch(shardFlags(3)...)
	f.awaitReady()
	create(10)
	require.Zero(t, d.stop())
	c.awaitShares(3, a, e, f)
	create(10)
	awaitDone()

	require.Len(t, c.list(pods, ""), created)
	for _, o := range []*process{a, e, f} {
		require.Zero(t, o.stop())
		require.NotContains(t, o.log.String(), "level=ERROR")
	}
	require.Equal(t, make([]string, 3), c.shardHolders(3), "all are released")
}

// watched follows the watches of a resource with a shard selector that the API server answers through the proxy
// from now on. The result returns the UIDs that each selector has shown.
func (c *cluster) watched(resource string) (shown func() map[string]sets.Set[types.UID]) {
	var mu sync.Mutex
	streams := make(map[string]*logtest.Buffer)
	hook := func(r *http.Response) {
		selector := r.Request.URL.Query().Get("shardSelector")
		if selector == "" || !strings.HasSuffix(r.Request.URL.Path, "/"+resource) || r.Request.URL.Query().Get("watch") == "" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if streams[selector] == nil {
			streams[selector] = &logtest.Buffer{}
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, streams[selector]), r.Body}
	}
	c.proxy.answered.Store(&hook)
	return func() map[string]sets.Set[types.UID] {
		mu.Lock()
		defer mu.Unlock()
		shown := make(map[string]sets.Set[types.UID])
		for selector, stream := range streams {
			shown[selector] = sets.New[types.UID]()
			for _, match := range regexp.MustCompile(`"resourceVersion":"[^"]+","uid":"([^"]+)"`).FindAllStringSubmatch(stream.String(), -1) {
				shown[selector].Insert(types.UID(match[1]))
			}
		}
		return shown
	}
}

// isGateOn reports whether the API server has a feature gate turned on.
func (c *cluster) isGateOn(gate string) bool {
	c.t.Helper()
	text, err := c.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(c.t.Context())
	require.NoError(c.t, err)
	return regexp.MustCompile(`(?m)^kubernetes_feature_enabled\{name="` + gate + `",[^}]*\} 1$`).Match(text)
}

// Each of three processes caches a third of the objects. An API server that can select them sends no others.
func TestShardsDivideWhatIsRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	shown := c.watched("ats")
	processes := []*process{c.launch(shardFlags(3)...), c.launch(shardFlags(3)...), c.launch(shardFlags(3)...)}
	c.awaitShares(3, processes...)
	const objects = 45
	for i := range objects {
		c.createAt(fmt.Sprintf("a-%d", i), longAgo, "echo")
	}
	for i := range objects {
		c.awaitPhase(fmt.Sprintf("a-%d", i), "DONE")
	}
	counts := func() (counts []float64) {
		for _, o := range processes {
			counts = append(counts, sample(t, o.scrape(), "fescue_objects", map[string]string{"controller": "ats.cnat.fescue.dev", "phase": "DONE"}))
		}
		return counts
	}
	var last []float64
	require.True(t, testcluster.WaitUntil(func() bool {
		last = counts()
		return last[0]+last[1]+last[2] == objects
	}), "objects that the processes cache: %v", &last)
	for _, n := range last {
		require.Positive(t, n)
	}

	if c.isGateOn("ShardedListAndWatch") {
		all := sets.New[types.UID]()
		byShard := shown()
		require.Len(t, byShard, 3)
		for selector, uids := range byShard {
			require.NotEmpty(t, uids, selector)
			require.Empty(t, all.Intersection(uids), "objects that two processes were sent")
			all = all.Union(uids)
		}
		require.Len(t, all, objects)
	}

	// What a process has no longer is cached by the others.
	require.Zero(t, processes[2].stop())
	processes = processes[:2]
	c.awaitShares(3, processes...)
	require.True(t, testcluster.WaitUntil(func() bool {
		last = counts()
		return last[0]+last[1] == objects
	}), "objects that the processes cache: %v", &last)
}

// A set whose Pod someone makes that of a set in another shard creates another Pod.
func TestChildThatLeavesItsShard(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.launch(shardFlags(2)...)
	var sets [2]*unstructured.Unstructured
	for i := 0; sets[0] == nil || sets[1] == nil; i++ {
		set := c.createCustomcluster(fmt.Sprintf("c-%d", i), 1, "m")
		sets[informers.ShardOf(set.GetUID(), 2)] = set
	}
	podOf := func(set *unstructured.Unstructured) string {
		c.awaitReady(customclusters, set.GetName())
		found := c.list(pods, children.LabelOwnerUID+"="+string(set.GetUID()))
		require.Len(t, found, 1)
		return found[0].GetName()
	}
	left, taken := podOf(sets[0]), podOf(sets[1])
	taker, err := c.get(pods, taken)
	require.NoError(t, err)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": taker.GetLabels(), "annotations": taker.GetAnnotations(), "ownerReferences": taker.GetOwnerReferences(),
	}})
	require.NoError(t, err)
	c.patch(pods, left, string(patch))
	c.await(customclusters, sets[0].GetName(), "another Pod", func(*unstructured.Unstructured) bool {
		found := c.list(pods, children.LabelOwnerUID+"="+string(sets[0].GetUID()))
		return len(found) == 1 && found[0].GetName() != left
	})
}

// Processes with a different shard count never act at the same time: they wait until the others are
// gone.
func TestOtherShardCountsWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	two := c.launch(shardFlags(2)...)
	c.awaitShares(2, two)
	three, one := c.launch(shardFlags(3)...), c.launch(quickElection...)
	three.awaitReady()
	one.awaitReady()
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")
	require.Contains(t, two.workedOn(), c.namespace+"/a")
	one.kill()

	require.Zero(t, two.stop())
	require.NotContains(t, three.log.String(), "shard taken")
	c.createAt("b", longAgo, "echo")
	c.awaitShares(3, three)
	c.awaitPhase("b", "DONE")
	require.Equal(t, "3-shards", c.leaseHolder())

	one = c.launch(quickElection...)
	one.awaitReady()
	three.kill()
	c.createAt("c", longAgo, "echo")
	c.awaitPhase("c", "DONE")
	require.Contains(t, one.workedOn(), c.namespace+"/c")
}

// A process exits when it cannot renew its Leases or another process has one of them.
func TestProcessExitsWithoutItsShard(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*cluster){
		"cut":    func(c *cluster) { c.proxy.cut() },
		"shard":  func(c *cluster) { c.patch(leases, install.ShardLease(1), `{"spec":{"holderIdentity":"other"}}`) },
		"layout": func(c *cluster) { c.patch(leases, install.LeaseName, `{"spec":{"holderIdentity":"other"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			o := c.launch(shardFlags(2)...)
			c.awaitShares(2, o)
			lose(c)
			o.awaitEnd()
			require.Equal(t, 1, o.cmd.ProcessState.ExitCode())
			require.Contains(t, o.log.String(), "error: the lease was lost; another process may lead now")
		})
	}
}

func TestDeletedLeasesAreRecreated(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.launch(shardFlags(2)...)
	c.awaitShares(2, o)
	require.NoError(t, c.objects(leases).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	c.awaitShares(2, o)
	c.await(leases, install.MemberLease(0), "recreated", exists)
	require.Equal(t, 2, strings.Count(o.log.String(), "shard taken"))
	require.Zero(t, o.stop())
}

// The rights of an installation with shards suffice, and all rights to Leases are used.
func TestRightsForShards(t *testing.T) {
	t.Parallel()
	const shards = 2
	c := newCluster(t)
	use := watchRights(c.proxy)
	first := c.launch(shardFlags(shards)...)
	c.awaitShares(shards, first)
	c.createAt("a", longAgo, "echo")
	c.awaitPhase("a", "DONE")
	second := c.launch(shardFlags(shards)...)
	c.awaitShares(shards, first, second)

	toLeases := sets.New[install.Right]()
	for _, object := range c.granted {
		for right := range flatten(rulesOf(t, object)) {
			if right.Resource == leases.Resource {
				toLeases.Insert(right)
			}
		}
	}
	require.Len(t, toLeases, 2+1+2*shards) // create and list; update the shared Lease, those of members and of shards
	all := testcluster.WaitUntil(func() bool { return use.unused(toLeases).Len() == 0 })
	require.True(t, all, "unused: %v", use.unused(toLeases))
	require.Empty(t, use.missingAny())
}
