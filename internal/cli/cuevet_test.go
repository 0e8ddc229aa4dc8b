package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/manifest"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/kindtest"
	"github.com/fescue-dev/fescue/internal/vet"
)

// manifestFolders are the folders in testdata/manifests, each with the verdicts of the plain cue
// command and of fescue vet on its files. NAME.want is the output of fescue vet for NAME.yaml.
var manifestFolders = []struct {
	name                      string
	cueAccepts, fescueAccepts bool
}{
	{"good", true, true},
	{"bad", false, false},
	// Kubernetes reads YAML 1.1, in which some strings of CUE are booleans.
	{"yaml11", true, false},
	// CUE does not know the rules in @kube(…).
	{"attributes", true, false},
	// CUE does not know the rules for Pods and selectors.
	{"injection", true, false},
	// CUE treats any document as an object, and reads some numbers differently.
	{"kubectl", false, true},
}

// TestCueVetAgrees checks manifests of the shipped kinds by cue vet, in the version that go.mod
// pins, and by fescue vet.
func TestCueVetAgrees(t *testing.T) {
	t.Parallel()
	cue := buildCue(t)
	for _, folder := range manifestFolders {
		files := manifestsIn(t, "testdata/manifests", folder.name)
		require.NotEmpty(t, files)
		for _, file := range files {
			t.Run(folder.name+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				accepts, output := cueVet(t, cue, file)
				require.Equal(t, folder.cueAccepts, accepts, "cue vet prints:\n%s", output)
				accepts, output = fescueVet(t, file)
				require.Equal(t, folder.fescueAccepts, accepts, "fescue vet prints:\n%s", output)
				if accepts {
					require.Empty(t, output)
				} else {
					corpus.Golden(t, strings.TrimSuffix(file, filepath.Ext(file))+".want", output)
				}
			})
		}
	}
	for _, file := range shippedSamples(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			byCue, cueOutput := cueVet(t, cue, file)
			byFescue, fescueOutput := fescueVet(t, file)
			require.Equal(t, byCue, byFescue, "cue vet prints:\n%s\nfescue vet prints:\n%s", cueOutput, fescueOutput)
		})
	}
}

// buildCue builds the cue command once. The go tool would look for it each time.
func buildCue(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cue")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", file, "cuelang.org/go/cmd/cue").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return file
}

// manifestsIn lists the manifests of a folder.
func manifestsIn(t *testing.T, dir ...string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, filepath.Join(dir...), "*"))
	require.NoError(t, err)
	return slices.DeleteFunc(files, func(file string) bool { return !slices.Contains(manifestExtensions, filepath.Ext(file)) })
}

// shippedSamples lists the other manifests of this repository that have only objects of shipped
// kinds. Some of the sources have kinds of their own.
func shippedSamples(t *testing.T) []string {
	t.Helper()
	kinds := load.NewKinds(kindtest.Shipped(t)...)
	files := manifestsIn(t, "config/samples")
	require.NotEmpty(t, files)
	sources, err := filepath.Glob(filepath.Join(repository, "testdata", "sources", "*"))
	require.NoError(t, err)
	for _, dir := range sources {
		files = append(files, manifestsIn(t, "testdata/sources", filepath.Base(dir))...)
	}
	return slices.DeleteFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		objects, _ := manifest.Read(file, text)
		return slices.ContainsFunc(objects, func(o manifest.Object) bool {
			gvk, _ := vet.TypeOf(o.Content)
			return kinds.ByGVK(gvk) == nil
		})
	})
}

// cueVet runs the cue command for a file, in the root of the repository like the README does.
func cueVet(t *testing.T, cue, file string) (accepts bool, output string) {
	t.Helper()
	relative, err := filepath.Rel(repository, file)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), cue, "vet", "-c", "./cue", relative, "-d", "#Manifest")
	command.Dir = repository
	return vetVerdict(t, command)
}

// fescueVet runs fescue vet for a file, in its folder, so that the output has only its name.
func fescueVet(t *testing.T, file string) (accepts bool, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "fescue", "vet", "--ignore-unknown-kinds=false", filepath.Base(file))
	command.Dir = filepath.Dir(file)
	return vetVerdict(t, command)
}

// vetVerdict runs a command that exits with 1 if it rejects something.
func vetVerdict(t *testing.T, command *exec.Cmd) (accepts bool, output string) {
	t.Helper()
	b, err := command.CombinedOutput()
	if err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, 1, exit.ExitCode(), "%s", b)
	}
	return err == nil, string(b)
}
