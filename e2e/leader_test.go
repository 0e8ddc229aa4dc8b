package e2e

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fescue-dev/fescue/admission"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var (
	leaderKills = flag.Int("kills", 4, "how often TestLeaderIsKilled kills the leader")
	killAts     = flag.Int("kill-ats", 60, "how many Ats TestLeaderIsKilled creates")
)

// quickElection lets a standby follow a killed leader within seconds. A leader keeps its Lease on a
// busy machine, where a write may take seconds.
var quickElection = []string{"--leader-elect", "--leader-elect-lease-duration=6s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=200ms"}

// leaseHolder returns the identity of the leader, or nothing.
func (c *cluster) leaseHolder() string {
	lease, err := c.get(leases, "fescue")
	if err != nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

// leads reports whether an operator has become the leader.
func (o *process) leads() bool { return strings.Contains(o.log.String(), "msg=leading") }

// The leader is killed again and again while objects are created: each time the standby follows it,
// and every object gets one Pod and reaches DONE. -kills 10 -kill-ats 500 takes 80 s on two cores.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	kills, each := *leaderKills, *killAts / *leaderKills
	began := time.Now()
	c := newCluster(t)
	running := []*process{c.launch(quickElection...), c.launch(quickElection...)}
	for kill := range kills {
		leader := -1
		require.True(t, testcluster.WaitUntil(func() bool {
			for i, o := range running {
				switch {
				case o.hasEnded(): // on a machine that is too busy, it could not renew its Lease
					running[i] = c.launch(quickElection...)
				case o.leads():
					leader = i
				}
			}
			return leader >= 0
		}), "no leader after %d kills", kill)
		running[1-leader].awaitReady()
		require.False(t, running[1-leader].leads() && !running[leader].hasEnded(), "two leaders")
		for i := range each {
			c.createAt(fmt.Sprintf("a-%d-%d", kill, i), longAgo, "echo")
		}
		running[leader].kill()
		running[leader] = c.launch(quickElection...)
	}
	for kill := range kills {
		for i := range each {
			c.awaitPhase(fmt.Sprintf("a-%d-%d", kill, i), "DONE")
		}
	}
	require.Len(t, c.list(pods, ""), kills*each)
	for _, o := range running {
		require.NotContains(t, o.log.String(), "level=ERROR")
	}
	t.Logf("%d Ats, leader killed %d times: %s", kills*each, kills, time.Since(began).Round(100*time.Millisecond))
}

// A leader that is stopped releases its Lease, so that the standby does not wait until it expires.
func TestStoppedLeaderReleasesItsLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.start("--leader-elect")
	require.True(t, testcluster.WaitUntil(first.leads))
	holder := c.leaseHolder()
	require.NotEmpty(t, holder)
	second := c.start("--leader-elect")
	require.False(t, second.leads())
	require.Equal(t, holder, c.leaseHolder())
	require.Zero(t, first.stop())
	// This takes its retry period and not the 15 s of the Lease; no test relies on that.
	require.True(t, testcluster.WaitUntil(func() bool { now := c.leaseHolder(); return now != "" && now != holder }), "no leader")
	require.Zero(t, second.stop())
	require.Empty(t, c.leaseHolder())
}

// A leader that cannot renew its Lease exits, since another may lead by then. It does not wait for
// requests to its webhooks, which have 20 s when it is stopped.
func TestLeaderExitsWithoutItsLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	flags, url := c.webhookURLFlags()
	o := c.start(append(flags, "--leader-elect")...)
	c.awaitRegistration()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	_, err = io.WriteString(connection, "POST "+admission.ValidatePath+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	require.NoError(t, err)

	c.proxy.cut()
	select {
	case <-o.done:
	case <-time.After(25 * time.Second): // 10 s for the Lease; with the requests it would be 30
		require.FailNow(t, "it continues without its Lease")
	}
	require.Equal(t, 1, o.cmd.ProcessState.ExitCode())
	require.Contains(t, o.log.String(), "error: the lease was lost; another process may lead now")
}
