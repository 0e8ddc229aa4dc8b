package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// quickElection has a process that was killed be followed within seconds.
var quickElection = []string{"--leader-elect", "--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=200ms"}

func (c *cluster) leaseHolder() string {
	lease, err := c.get(leases, "fescue")
	if err != nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

// leads tells whether an operator is working and not standing by.
func (o *operator) leads() bool { return strings.Contains(o.log.String(), "msg=leading") }

// The leader is killed again and again while objects are made: another takes over each
// time, and every object gets its one Pod and comes to its end.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	const kills, objects = 4, 60
	c := newCluster(t)
	running := []*operator{c.launch(quickElection...), c.launch(quickElection...)}
	for kill := range kills {
		leader := -1
		require.True(t, waitUntil(func() bool {
			for i, o := range running {
				if o.leads() {
					leader = i
				}
			}
			return leader >= 0
		}), "nobody leads after %d kills", kill)
		running[1-leader].awaitLog("kind is standing by")
		require.False(t, running[1-leader].leads(), "two lead")
		for i := range objects / kills {
			c.createAt(fmt.Sprintf("a-%d-%d", kill, i), longAgo, "echo")
		}
		running[leader].kill()
		running[leader] = c.launch(quickElection...)
	}
	for kill := range kills {
		for i := range objects / kills {
			c.awaitPhase(fmt.Sprintf("a-%d-%d", kill, i), "DONE")
		}
	}
	list, err := c.client.Resource(pods).Namespace(c.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, objects)
	for _, o := range running {
		require.NotContains(t, o.log.String(), "level=ERROR")
	}
}

// A leader that is told to stop gives the lease back, so that another need not wait for
// its end.
func TestLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.start("--leader-elect")
	require.NotEmpty(t, c.leaseHolder())
	second := c.launch("--leader-elect")
	second.awaitLog("kind is standing by")
	require.False(t, second.leads())
	require.Zero(t, first.stop())
	require.True(t, waitUntil(second.leads)) // within its retry period and not the lease's 15 s, which no test relies on
	require.Zero(t, second.stop())
	require.Empty(t, c.leaseHolder())
}

// A leader that cannot renew its lease ends, since another may lead by then.
func TestLostLeaseEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	o := c.start(quickElection...)
	c.proxy.cut()
	<-o.done
	require.Equal(t, 1, o.cmd.ProcessState.ExitCode())
	require.Contains(t, o.log.String(), "error: the lease was lost; another process may lead now")
}
