package cli

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/internal/manifest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// manifestFolders are those of testdata/manifests, each with what the plain cue command and
// fescue vet say of the files in it. What fescue vet prints of NAME.yaml is in NAME.want.
var manifestFolders = []struct {
	name                      string
	cueAccepts, fescueAccepts bool
}{
	{"good", true, true},
	{"bad", false, false},
	// What YAML 1.1, which Kubernetes reads, takes for a boolean is a string for CUE.
	{"yaml11", true, false},
	// CUE does not know the rules in @kube(…).
	{"attributes", true, false},
	// CUE does not know what a Pod may have, nor what a selector may say.
	{"injection", true, false},
	// CUE takes any document for an object, and reads some numbers in another way.
	{"kubectl", false, true},
}

// TestCueVetAgrees gives manifests of the shipped kinds to both commands that check them
// before they are applied: cue vet, of the version that go.mod pins, and fescue vet.
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
				require.Equal(t, folder.cueAccepts, accepts, "cue vet says:\n%s", output)
				accepts, output = fescueVet(t, file)
				require.Equal(t, folder.fescueAccepts, accepts, "fescue vet says:\n%s", output)
				if accepts {
					require.Empty(t, output)
				} else {
					requireGolden(t, strings.TrimSuffix(file, filepath.Ext(file))+".want", output)
				}
			})
		}
	}
	for _, file := range shippedSamples(t) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			byCue, cueOutput := cueVet(t, cue, file)
			byFescue, fescueOutput := fescueVet(t, file)
			require.Equal(t, byCue, byFescue, "cue vet says:\n%s\nfescue vet says:\n%s", cueOutput, fescueOutput)
		})
	}
}

// buildCue builds the cue command as go tool does, which would look for it each time.
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

// shippedSamples lists the other manifests of this repository of which all objects are of
// shipped kinds: each of the sources has a kind of its own, unless it is one of these.
func shippedSamples(t *testing.T) []string {
	t.Helper()
	kinds, err := kind.Shipped()
	require.NoError(t, err)
	v := newVetter(kind.NewCatalog(kinds...), false)
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
			gvk, _ := typeOf(o.Content)
			return v.catalog.ByGVK(gvk) == nil
		})
	})
}

// cueVet asks the cue command about a file, from the root of the repository, as the README
// has it.
func cueVet(t *testing.T, cue, file string) (accepts bool, output string) {
	t.Helper()
	relative, err := filepath.Rel(repository, file)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), cue, "vet", "-c", "./cue", relative, "-d", "#Manifest")
	command.Dir = repository
	return vetVerdict(t, command)
}

// fescueVet asks fescue about a file, from its folder, so that its name alone is in what
// is printed.
func fescueVet(t *testing.T, file string) (accepts bool, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "fescue", "vet", filepath.Base(file))
	command.Dir = filepath.Dir(file)
	return vetVerdict(t, command)
}

// vetVerdict runs a command that exits with 1 if it refuses something.
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

// requireGolden compares a text with that of a file, or with -update writes it.
func requireGolden(t *testing.T, file, actual string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(actual), 0o600))
		return
	}
	expected, err := os.ReadFile(file)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(expected), actual)
}
