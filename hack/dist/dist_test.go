package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/require"
)

var commitTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// An archive depends on its files only: not on their order, nor on the time.
func TestArchivesRepeat(t *testing.T) {
	t.Parallel()
	files := []file{{name: "b", content: []byte("B"), executable: true}, {name: "a", content: []byte("A")}}
	write := func(files []file) (tarball, zipped []byte) {
		var of, zip bytes.Buffer
		require.NoError(t, writeTar(&of, commitTime, files, false))
		require.NoError(t, writeZip(&zip, commitTime, files))
		return of.Bytes(), zip.Bytes()
	}
	tarball, zipped := write(files)
	again, zippedAgain := write([]file{files[1], files[0]})
	require.Equal(t, tarball, again)
	require.Equal(t, zipped, zippedAgain)

	archive := tar.NewReader(bytes.NewReader(tarball))
	var names []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, commitTime, header.ModTime.UTC())
		require.Empty(t, header.Uname)
		names = append(names, header.Name)
	}
	require.Equal(t, []string{"a", "b"}, names)
}

// The version is the tag of the commit, or the one that `go install` finds for it.
func TestVersionOf(t *testing.T) {
	t.Parallel()
	commit := strings.Repeat("0123456789", 4)
	require.Equal(t, "v0.0.0-20260102030405-012345678901", versionOf(nil, commitTime, commit))
	require.Equal(t, "v0.0.0-20260102030405-012345678901", versionOf([]string{"latest", "v1"}, commitTime, commit))
	require.Equal(t, "v1.10.0", versionOf([]string{"v1.9.0", "v1.10.0", "v1.10.0-rc.1"}, commitTime, commit))
}

// `go install` works: the module has no replace lines, its zip is valid, and it has all that its packages embed.
func TestModuleIsInstallable(t *testing.T) {
	t.Parallel()
	repository, err := filepath.Abs("../..")
	require.NoError(t, err)
	d := &dist{repository: repository, work: t.TempDir(), dirty: true}
	require.NoError(t, d.unpackSource(t.Context()))
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...")
	list.Dir = d.source
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := list.CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoDirExists(t, filepath.Join(d.source, "hack", "dist")) // a module of its own
	require.FileExists(t, filepath.Join(d.source, "LICENSE"))
}

func TestNotInstallable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "go.mod")
	require.NoError(t, os.WriteFile(file, []byte("module example.com/a\n\nreplace example.com/b => ../b\n"), 0o600))
	require.ErrorContains(t, checkInstallable(file), "replace")
}

// Each archive has completions for all shells, a man page for each command, and what kubectl runs to complete a plugin.
func TestDocuments(t *testing.T) {
	t.Parallel()
	files, err := documents(commitTime, "v1.2.3")
	require.NoError(t, err)
	content := make(map[string]string)
	for _, f := range files {
		content[f.name] = string(f.content)
		require.Equal(t, f.name == "kubectl_complete-fescue", f.executable, f.name)
	}
	for name, want := range map[string]string{
		"completions/fescue.bash":          "complete -o default -F __start_fescue fescue",
		"completions/_fescue":              "#compdef fescue",
		"completions/fescue.fish":          "complete -c fescue",
		"completions/fescue.ps1":           "Register-ArgumentCompleter -CommandName 'fescue'",
		"kubectl_complete-fescue":          "kubectl fescue __complete",
		"man/man1/fescue.1":                `"Jan 2026" "Fescue v1.2.3"`,
		"man/man1/fescue-status.1":         "all-namespaces",
		"man/man1/fescue-completion-zsh.1": "zsh",
	} {
		require.Contains(t, content[name], want, name)
	}
	require.NotContains(t, content, "man/man1/fescue-load-kinds.1") // it is hidden

	again, err := documents(commitTime, "v1.2.3")
	require.NoError(t, err)
	require.Equal(t, sorted(files), sorted(again))
}

// The SBOM, the provenance, krew's manifest and the checksums name each archive with its digest.
func TestRecords(t *testing.T) {
	t.Parallel()
	program, err := os.Executable() // a Go program like any other
	require.NoError(t, err)
	linux := target{"linux", "amd64"}
	d := &dist{
		out: t.TempDir(), version: "v1.2.3", commit: strings.Repeat("a", 40), time: commitTime, goVersion: "go1.26.0", builder: home,
		sourceSum: "h1:" + strings.Repeat("A", 43) + "=", targets: []target{linux},
		imageDigest: "sha256:" + strings.Repeat("b", 64),
		builds:      []build{{target: linux, program: program, archive: "fescue.tar.gz"}},
	}
	require.NoError(t, os.WriteFile(filepath.Join(d.out, "fescue.tar.gz"), []byte("archive"), 0o600))
	sum, err := sumOf(filepath.Join(d.out, "fescue.tar.gz"))
	require.NoError(t, err)
	for _, write := range []func() error{
		func() error { return d.writeSBOMs(t.Context()) }, func() error { return d.writeKrew(t.Context()) },
		func() error { return d.writeProvenance(t.Context()) }, func() error { return d.writeSums(t.Context()) },
	} {
		require.NoError(t, write())
	}
	read := func(name string) []byte {
		content, err := os.ReadFile(filepath.Join(d.out, name))
		require.NoError(t, err)
		require.Contains(t, string(content), sum, name)
		return content
	}
	document, err := spdxjson.Read(bytes.NewReader(read("fescue_v1.2.3_linux_amd64.spdx.json")))
	require.NoError(t, err)
	require.Equal(t, "SPDX-2.3", document.SPDXVersion)
	ids := make(map[string]bool)
	for _, p := range document.Packages {
		require.False(t, ids[string(p.PackageSPDXIdentifier)], p.PackageSPDXIdentifier)
		ids[string(p.PackageSPDXIdentifier)] = true
	}
	require.Len(t, document.Relationships, len(document.Packages))
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	require.Len(t, document.Packages, len(info.Deps)+2)

	var statement struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct{ Name string }
		Predicate     struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	require.NoError(t, json.Unmarshal(read(provenanceFile), &statement))
	require.Equal(t, "https://in-toto.io/Statement/v1", statement.Type)
	require.Equal(t, "https://slsa.dev/provenance/v1", statement.PredicateType)
	require.Equal(t, home, statement.Predicate.RunDetails.Builder.ID)
	require.Equal(t, d.commit, statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	require.Len(t, statement.Subject, 4)
	read("fescue.krew.yaml")
	require.Contains(t, string(read(sumsFile)), sum+"  fescue.tar.gz\n")

	other := &dist{out: t.TempDir()}
	require.ErrorContains(t, compare(d, other), "other files")
	require.NoError(t, os.CopyFS(other.out, os.DirFS(d.out)))
	require.NoError(t, compare(d, other))
	require.NoError(t, os.WriteFile(filepath.Join(other.out, "fescue.tar.gz"), []byte("another"), 0o600))
	require.ErrorContains(t, compare(d, other), "fescue.tar.gz: the second build has another digest")
}
