package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// A kind that was moved to another group leaves its CRD and its objects. The operator names the CRD, and fescue status
// the objects, until there are none.
func TestObjectsWithoutAKindAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	former, kinds := writeKind(t, strings.ReplaceAll(rightsKind, "rights.example.com", "old."+c.group()))
	moved, _ := writeKind(t, strings.ReplaceAll(rightsKind, "rights.example.com", c.group()))
	crd, things := kinds[0].Name(), kinds[0].GroupVersionResource()
	c.deleteCRDs(crd, strings.Replace(crd, "old.", "", 1))
	c.installCRDs(kinds)
	c.create(things, "Thing", "t", map[string]any{"spec": map[string]any{}})

	o := c.start("--kinds", moved, "--shipped-kinds=false")
	isUnloaded := func(o *process) bool {
		for _, m := range o.scrape()["fescue_kinds_unloaded"].GetMetric() {
			if m.GetLabel()[0].GetValue() == crd {
				return m.GetGauge().GetValue() == 1
			}
		}
		return false
	}
	require.True(t, testcluster.WaitUntil(func() bool { return isUnloaded(o) }))
	o.awaitLog("CRDs were created from kinds that this process did not load")
	require.Contains(t, o.log.String(), crd)
	require.NotContains(t, o.log.String(), "may not list CRDs")

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	testcluster.WriteKubeconfig(t, kubeconfig, testcluster.Config(t), c.namespace)
	notes := func(args ...string) string {
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), "fescue", append([]string{"status", "--kubeconfig", kubeconfig, "--shipped-kinds=false"}, args...)...)
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Run(), &stderr)
		return stderr.String()
	}
	note := "note: objects of " + crd + " are not shown: "
	require.Contains(t, notes("--kinds", moved), note)
	require.NotContains(t, notes("--kinds", moved, "--kinds", former), note)
	require.NotContains(t, notes("--kinds", moved, "-n", "default"), note)
	c.delete(things, "t")
	c.awaitGone(things, "t")
	require.NotContains(t, notes("--kinds", moved), note)
}
