package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/fescue-dev/fescue/admission"
)

var (
	leaderKills = flag.Int("kills", 4, "how often TestLeaderIsKilled kills the leader")
	killAts     = flag.Int("kill-ats", 60, "Ats of TestLeaderIsKilled")
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
// time, and every object gets its one Pod and comes to its end. -kills 10 -kill-ats 500 takes
// 80 s on two cores.
func TestLeaderIsKilled(t *testing.T) {
	t.Parallel()
	kills, each := *leaderKills, *killAts / *leaderKills
	began := time.Now()
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
		running[1-leader].awaitLog("kind is on standby")
		require.False(t, running[1-leader].leads(), "two lead")
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
	list, err := c.client.Resource(pods).Namespace(c.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, kills*each)
	for _, o := range running {
		require.NotContains(t, o.log.String(), "level=ERROR")
	}
	t.Logf("%d Ats, leader killed %d times: %s", kills*each, kills, time.Since(began).Round(100*time.Millisecond))
}

// A leader that is told to stop gives the lease back, so that another need not wait for
// its end.
func TestLeaseIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.start("--leader-elect")
	require.NotEmpty(t, c.leaseHolder())
	second := c.launch("--leader-elect")
	second.awaitLog("kind is on standby")
	require.False(t, second.leads())
	require.Zero(t, first.stop())
	require.True(t, waitUntil(second.leads)) // within its retry period and not the lease's 15 s, which no test relies on
	require.Zero(t, second.stop())
	require.Empty(t, c.leaseHolder())
}

// A leader that cannot renew its lease ends, since another may lead by then. It does not
// wait for a request to its webhooks, for which a stop has 20 s.
func TestLostLeaseEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	address, name := freePort(t, "127.0.0.1"), c.installation(true).ClusterName()
	typed, err := kubernetes.NewForConfig(restConfig(t))
	require.NoError(t, err)
	t.Cleanup(func() { removeWebhooks(t, typed, name) })
	o := c.start(append(slices.Clone(quickElection), "--webhook-listen", address, "--webhook-url", "https://"+address,
		"--webhook-configuration", name, "--webhook-secret", c.namespace+"/"+defaultSecret)...)
	o.awaitLog("webhooks are registered")
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer func() { _ = connection.Close() }()
	_, err = io.WriteString(connection, "POST "+admission.ValidatePath+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{")
	require.NoError(t, err)

	c.proxy.cut()
	select {
	case <-o.done:
	case <-time.After(15 * time.Second):
		require.FailNow(t, "it goes on without its lease")
	}
	require.Equal(t, 1, o.cmd.ProcessState.ExitCode())
	require.Contains(t, o.log.String(), "error: the lease was lost; another process may lead now")
}
