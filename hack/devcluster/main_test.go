package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

// The linker writes the version into the programs that they are built from.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, r := range releases {
		require.True(t, strings.HasPrefix(r.version, "v"+r.minor+"."), r)
		parts := append(slices.Clip(kwokParts), kubectl)
		if r.isDefault() {
			parts = append(parts, realParts...)
		}
		for _, p := range parts {
			dir, version := r.source(".", p)
			b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			require.NoError(t, err)
			f, err := modfile.Parse("go.mod", b, nil)
			require.NoError(t, err)
			versions := make(map[string]string)
			for _, required := range f.Require {
				versions[required.Mod.Path] = required.Mod.Version
			}
			require.Equal(t, version, versions["k8s.io/kubernetes"])
			require.Contains(t, tools(f), p.pkg, "a program that go.mod does not pin")
		}
	}
	_, err := releaseOf("1.2")
	require.EqualError(t, err, `-kubernetes: invalid value "1.2": must be one of 1.37, 1.36, 1.35, 1.34`)
}

// make test-matrix runs the tests on each release.
func TestMatrix(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var minors []string
	for _, r := range releases {
		minors = append(minors, r.minor)
	}
	slices.Reverse(minors)
	require.Contains(t, string(b), "\nKUBERNETES := "+strings.Join(minors, " ")+"\n")
}

// The modules of this repository use the same versions, so that what several of them need is compiled once. The
// module of an older release has older ones.
func TestModulesUseTheSameVersions(t *testing.T) {
	t.Parallel()
	found := make(map[string]map[string][]string) // by module and version
	for _, dir := range []string{"../..", "../../bench", "../devcluster", "../image", "../k8stypes"} {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		f, err := modfile.Parse("go.mod", b, nil)
		require.NoError(t, err)
		for _, r := range f.Require {
			if found[r.Mod.Path] == nil {
				found[r.Mod.Path] = make(map[string][]string)
			}
			found[r.Mod.Path][r.Mod.Version] = append(found[r.Mod.Path][r.Mod.Version], dir)
		}
	}
	for module, versions := range found {
		assert.Len(t, versions, 1, "%s: %v", module, versions)
	}
}

func tools(f *modfile.File) []string {
	var paths []string
	for _, tool := range f.Tool {
		paths = append(paths, tool.Path)
	}
	return paths
}

func TestStages(t *testing.T) {
	t.Parallel()
	var names []string
	for document := range strings.SplitSeq(kwokStages(), "\n---\n") {
		var stage struct {
			Kind     string
			Metadata struct{ Name string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &stage))
		require.Equal(t, "Stage", stage.Kind)
		names = append(names, stage.Metadata.Name)
	}
	require.Equal(t, []string{"node-initialize", "node-heartbeat-with-lease", "pod-ready", "pod-delete", "pod-complete", "pod-fail"}, names)
}

// The control plane starts, runs a command with its kubeconfig, and leaves nothing behind, neither
// when the command ends nor when its own parent is killed.
func TestControlPlane(t *testing.T) {
	home, err := filepath.Abs("../../.devcluster")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "devcluster")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, string(out))

	t.Run("command", func(t *testing.T) {
		out, err := exec.Command(program, "-home", home, "-module", ".", "--", "sh", "-c",
			`kubectl get --raw /readyz && echo " $DEVCLUSTER_DIR" && exit 7`).Output()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 7, exit.ExitCode())
		ready, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		require.Equal(t, "ok", ready)
		require.NoDirExists(t, dir)
	})

	t.Run("kwok", func(t *testing.T) {
		out, err := exec.Command(program, "-home", home, "-module", ".", "--", "sh", "-c",
			`kubectl run app --image=busybox && kubectl --kubeconfig "$DEVCLUSTER_DIR/kwok.kubeconfig" delete pod app; kubectl delete pod app`).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "denied request: a node removes only Pods that are being deleted")
		require.Contains(t, string(out), `pod "app" deleted`)
	})

	t.Run("parent killed", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "dir")
		// The shell is the parent. It waits, and is killed.
		parent := exec.Command("sh", "-c", program+" -home "+home+" -module . -- sh -c 'echo $DEVCLUSTER_DIR > "+file+"; exec sleep 1000'; true")
		require.NoError(t, parent.Start())
		var dir string
		require.Eventually(t, func() bool {
			b, err := os.ReadFile(file)
			dir = strings.TrimSpace(string(b))
			return err == nil && dir != ""
		}, 2*time.Minute, 50*time.Millisecond)
		require.DirExists(t, dir)
		require.NoError(t, parent.Process.Kill())
		_ = parent.Wait() // it was killed
		require.Eventually(t, func() bool {
			_, err := os.Stat(dir)
			return os.IsNotExist(err)
		}, time.Minute, 50*time.Millisecond, "the folder is removed when all parts have ended")
	})
}

func TestFreePorts(t *testing.T) {
	t.Parallel()
	ports, err := freePorts(20)
	require.NoError(t, err)
	require.Len(t, ports, 20)
	slices.Sort(ports)
	require.Len(t, slices.Compact(ports), 20)
	for _, port := range ports {
		require.Len(t, port, 5)
		require.Equal(t, byte('2'), port[0], "a connection, or a NodePort, may have another one")
	}
}
