package e2e

import (
	"testing"
	"time"
)

func TestTmpRestart(t *testing.T) {
	c := newCluster(t)
	c.start().kill()
	time.Sleep(time.Second)
	c.proxy.requests.reset()
	c.start()
	time.Sleep(5 * time.Second)
	for _, r := range c.proxy.requests.all() {
		t.Log(r)
	}
	t.Log("TOTAL", len(c.proxy.requests.all()))
}
