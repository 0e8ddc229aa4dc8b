package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testReal is set by `make test-node`.
var testReal = flag.Bool("real", false, "also test --node=real, which requires root and some packages")

// traces returns everything that a real node could leave behind on the machine, and the kernel
// settings that a kubelet changes, one in each element.
func traces(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `
		ls -d /sys/fs/cgroup/devcluster-* /sys/fs/cgroup/*/devcluster-* /run/netns/* /var/log/pods /var/log/containers 2> /dev/null
		ip -oneline link | grep -o 'devcluster[0-9]*' | sort -u
		grep devcluster /proc/self/mounts
		nft list tables
		cd /proc/sys && grep . kernel/keys/root_max* kernel/panic* vm/overcommit_memory vm/panic_on_oom net/ipv4/ip_forward
		true`).Output()
	require.NoError(t, err)
	return strings.Split(string(out), "\n")
}

// A real node runs containers. No matter how it ends, nothing remains on the machine, and the next
// one starts.
func TestRealNode(t *testing.T) {
	if !*testReal {
		t.Skip("needs -real")
	}
	_, err := needHost()
	require.NoError(t, err)
	home, err := filepath.Abs("../../.devcluster")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "devcluster")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	before := traces(t)
	require.NotEmpty(t, before)

	// The command ends with its input, which this test holds, so that only devcluster is killed.
	dir := filepath.Join(t.TempDir(), "dir")
	killed := exec.Command(program, "-home", home, "-module", ".", "--node=real", "--", "sh", "-c",
		"kubectl run one --image busybox -- sleep infinity && kubectl wait --for=condition=Ready pod/one --timeout 90s && echo $DEVCLUSTER_DIR > "+dir+" && cat")
	_, err = killed.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, killed.Start())
	var run string
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(dir)
		run = strings.TrimSpace(string(b))
		return err == nil && run != ""
	}, 3*time.Minute, 50*time.Millisecond)
	require.NotSubset(t, before, traces(t), "traces do not show the node")
	// A process of the node takes a while to end.
	slow := exec.Command("sleep", "2")
	require.NoError(t, slow.Start())
	group := filepath.Join(hierarchies()[0], cgroupPrefix+strconv.Itoa(killed.Process.Pid), "slow")
	require.NoError(t, os.Mkdir(group, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(slow.Process.Pid)), 0o644))
	ended := make(chan error, 1)
	go func() { ended <- slow.Wait() }()
	require.NoError(t, killed.Process.Kill())
	_ = killed.Wait() // it was killed
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(run)) })

	out, err = exec.Command(program, "-home", home, "-module", ".", "--node=real", "--", "sh", "-c",
		"kubectl run two --image busybox --restart Never -- echo of the second && kubectl wait --for=jsonpath={.status.phase}=Succeeded pod/two --timeout 90s && kubectl logs two && exit 7").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode(), string(out))
	require.Contains(t, string(out), "\nof the second\n")
	require.NoError(t, <-ended)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Subset(c, before, traces(t), "traces of the nodes remain")
	}, time.Minute, 50*time.Millisecond)
}
