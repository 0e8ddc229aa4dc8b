package e2e

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	freezes     = flag.Int("freezes", 2, "how often TestFrozenLeader freezes the process that acts")
	longFreezes = flag.Bool("long-freezes", false, "TestFrozenLeader freezes for 5 to 60 s, and not until the Lease has expired")
)

// frozenCount is the number of Pods of the Customcluster of TestFrozenLeader.
const frozenCount = 40

// actor returns the process that acts on a Customcluster; it is nil if none does at present.
func (c *cluster) actor(shards int, object *unstructured.Unstructured, running []*process) *process {
	holder := c.leaseHolder()
	if shards > 1 {
		h := fnv.New32a()
		_, _ = h.Write([]byte(object.GetUID()))
		holder = c.shardHolders(shards)[h.Sum32()%uint32(shards)]
	}
	for _, o := range running {
		if holder != "" && o.identity() == holder {
			return o
		}
	}
	return nil
}

// A process that is frozen while it acts, by SIGSTOP, writes nothing when it continues after its
// Lease has expired: a Customcluster never has more Pods than its count, although the test deletes
// some all the time and another process replaces them.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2} {
		election := []string{"--leader-elect", fmt.Sprintf("--shards=%d", shards)}
		t.Run(fmt.Sprint(shards), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			running := []*process{c.launch(election...), c.launch(election...)}
			for _, o := range running {
				o.awaitReady()
			}
			census := c.takeCensus("")
			object := c.createCustomcluster("c", frozenCount, "m")
			deleteSome := func() {
				list := c.list(pods, "")
				for _, i := range rand.Perm(len(list))[:min(5, len(list))] {
					_ = c.objects(pods).Delete(t.Context(), list[i].GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
				}
			}
			deleteUntil := func(holds func() bool) {
				t.Helper()
				require.True(t, testcluster.WaitUntil(func() bool { deleteSome(); return holds() }))
			}
			for range *freezes {
				if shards > 1 {
					c.awaitShares(shards, running...) // a shard that is being given up is not lost
				}
				c.awaitReady(customclusters, "c")
				var frozen *process
				deleteUntil(func() bool { frozen = c.actor(shards, object, running); return frozen != nil })
				require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
				began, least := time.Now(), 5*time.Second+rand.N(55*time.Second)
				deleteUntil(func() bool {
					if *longFreezes {
						return time.Since(began) > least
					}
					now := c.actor(shards, object, running)
					return now != nil && now != frozen
				})
				require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
				continued := time.Now()
				mayHaveLease := *longFreezes && least < 15*time.Second
				deleteUntil(func() bool { return frozen.hasEnded() || mayHaveLease && time.Since(continued) > 8*time.Second })
				if frozen.hasEnded() {
					running[slices.Index(running, frozen)] = c.launch(election...)
				}
				for _, o := range running {
					o.awaitReady()
				}
			}
			c.awaitReady(customclusters, "c")
			_, most, _ := census.counts()
			require.LessOrEqual(t, most, frozenCount, "more Pods than the count")
		})
	}
}
