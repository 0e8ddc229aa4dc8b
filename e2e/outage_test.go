package e2e

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fescue-dev/fescue/crds/install"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

var outage = flag.Duration("outage", 0, "how long TestOutage cuts off the API server, and takes rights away; 0 skips it")

// outagePods is the number of Pods of the Customcluster of TestOutage, and of its Ats.
const outagePods = 40

// An operator that is cut off from the API server, or whose rights were taken away, logs each cause
// once a minute, with the right by its name, and follows what happened meanwhile within seconds
// afterwards. It takes a minute more than the outage.
func TestOutage(t *testing.T) {
	if *outage == 0 {
		t.Skip("it takes minutes: make endurance runs it, or -outage 5s")
	}
	t.Parallel()
	podRights := func() (rights []install.Right) {
		for _, verb := range []string{"create", "delete", "get", "list", "patch", "update", "watch"} {
			rights = append(rights, install.Right{Resource: "pods", Verb: verb})
		}
		return rights
	}
	for name, test := range map[string]struct {
		begin, end func(t *testing.T, c *cluster)
		named      string
	}{
		"the API server is down": {
			begin: func(_ *testing.T, c *cluster) { c.proxy.cut() },
			end:   func(t *testing.T, c *cluster) { c.proxy.mend(t) },
			named: "connection refused",
		},
		"rights are taken away": {
			begin: func(t *testing.T, c *cluster) {
				c.grant(without(t, c.granted, podRights()...))
				c.proxy.cut() // a watch that has begun keeps its rights
				c.proxy.mend(t)
			},
			end:   func(_ *testing.T, c *cluster) { c.grant(c.granted) },
			named: `cannot watch resource \"pods\" in API group \"\"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			o := c.start()
			c.createCustomcluster("c", outagePods, "m")
			live := func() (n int) {
				for _, pod := range c.list(pods, "") {
					if pod.GetDeletionTimestamp() == nil && strings.HasPrefix(pod.GetName(), "c-") {
						n++
					}
				}
				return n
			}
			require.True(t, testcluster.WaitUntil(func() bool { return live() == outagePods }))
			for i := range outagePods { // they are due while nothing answers
				c.create(ats, "At", fmt.Sprint("a", i), map[string]any{"spec": map[string]any{
					"schedule": time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339), "command": "echo",
				}})
			}
			c.awaitPhase(fmt.Sprint("a", outagePods-1), "PENDING")

			test.begin(t, c)
			warnings := func() int {
				return strings.Count(o.log.String(), "level=WARN") + strings.Count(o.log.String(), "level=ERROR")
			}
			before := warnings()
			for _, pod := range c.list(pods, "")[:outagePods/4] {
				require.NoError(t, c.objects(pods).Delete(t.Context(), pod.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
			}
			<-time.After(*outage)
			lines := warnings() - before
			require.Contains(t, o.log.String(), test.named)
			test.end(t, c)
			ended := time.Now()
			require.True(t, testcluster.WaitUntil(func() bool { return live() == outagePods }))
			children := time.Since(ended)
			for i := range outagePods {
				c.awaitPhase(fmt.Sprint("a", i), "DONE")
			}
			t.Logf("%s for %s: %d warnings (%.1f a second); children followed after %s, and all objects after %s",
				name, *outage, lines, float64(lines)/outage.Seconds(), children.Round(time.Millisecond), time.Since(ended).Round(time.Millisecond))
			require.Less(t, children, 20*time.Second)
			require.Less(t, lines, 12+int(outage.Seconds()/5), "one line for each cause and minute")
			require.NotContains(t, o.log.String(), "when reading response body", "a request did not end")
			require.Zero(t, o.stop())
		})
	}
}
