// Package corpus helps tests that read txtar archives and golden files. An archive holds the
// input of a test and, as out/…, all expected results. The flag -update rewrites both.
//
// It knows nothing of kinds; package kindtest does.
package corpus

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Path returns the path of a file or folder of the repository, named from its root.
func Path(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd()
	require.NoError(tb, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, filepath.FromSlash(name))
		}
		require.NotEqual(tb, filepath.Dir(dir), dir, "no folder at or above this one has a go.mod")
		dir = filepath.Dir(dir)
	}
}

// Archives returns the paths of the archives in a folder of the repository; there must be some.
func Archives(tb testing.TB, folder string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(Path(tb, folder), "*.txtar"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files, folder)
	return files
}

// Read reads an archive.
func Read(tb testing.TB, file string) *txtar.Archive {
	tb.Helper()
	archive, err := txtar.ParseFile(file)
	require.NoError(tb, err)
	return archive
}

// Run runs a test for each archive in a folder of the repository: results has to return the files
// out/… of the archive with those inputs.
func Run(t *testing.T, folder string, results func(t *testing.T, inputs *txtar.Archive) []txtar.File) {
	t.Helper()
	for _, file := range Archives(t, folder) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			archive := Read(t, file)
			inputs := &txtar.Archive{Comment: archive.Comment}
			expected := make(map[string]string)
			for _, f := range archive.Files {
				if strings.HasPrefix(f.Name, "out/") {
					expected[f.Name] = string(f.Data)
					continue
				}
				inputs.Files = append(inputs.Files, f)
			}
			files := results(t, inputs)
			if *update {
				inputs.Files = append(inputs.Files, files...)
				require.NoError(t, os.WriteFile(file, txtar.Format(inputs), 0o600))
				return
			}
			actual := make(map[string]string)
			for _, f := range files {
				actual[f.Name] = string(f.Data)
			}
			require.Equal(t, expected, actual)
		})
	}
}

// Golden compares a text with that of a file.
func Golden(tb testing.TB, file, text string) {
	tb.Helper()
	if *update {
		require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(tb, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(tb, err, "go test -update writes it")
	require.Equal(tb, string(want), text)
}

// GoldenRest compares a text with what follows a line of a file, which people write above that line.
func GoldenRest(tb testing.TB, file, line, text string) {
	tb.Helper()
	page, err := os.ReadFile(file)
	require.NoError(tb, err)
	above, _, isFound := strings.Cut(string(page), line+"\n")
	require.True(tb, isFound, "%s has no line %s", file, line)
	Golden(tb, file, above+line+"\n"+text)
}

// GoldenSections compares the sections of an archive with those of its file. One without a name was not computed, and
// stays.
func GoldenSections(tb testing.TB, file string, sections []txtar.File) {
	tb.Helper()
	archive := Read(tb, file)
	for i, section := range sections {
		if section.Name == "" {
			continue
		}
		if *update {
			archive.Files[i] = section
		}
		require.Equal(tb, string(archive.Files[i].Data), string(section.Data), "%s of %s", section.Name, file)
	}
	if *update {
		require.NoError(tb, os.WriteFile(file, txtar.Format(archive), 0o600))
	}
}

// Unpack writes the CUE files of an archive into a new folder, and returns its path.
func Unpack(tb testing.TB, archive *txtar.Archive) string {
	tb.Helper()
	dir := tb.TempDir()
	for _, f := range archive.Files {
		if filepath.Ext(f.Name) != ".cue" {
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(f.Name))
		require.NoError(tb, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(tb, os.WriteFile(file, f.Data, 0o600))
	}
	return dir
}

// Folder writes a CUE file, kind.cue, into a new folder, and returns the folder's path.
func Folder(tb testing.TB, text string) string {
	tb.Helper()
	return Unpack(tb, &txtar.Archive{Files: []txtar.File{{Name: "kind.cue", Data: []byte(text)}}})
}

// FoldersIn returns the paths of the folders in a folder that a flag names; there must be some.
func FoldersIn(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(tb, err)
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, filepath.Join(dir, entry.Name()))
		}
	}
	require.NotEmpty(tb, folders, "%s has no folders", dir)
	return folders
}

// Object reads an object as the API machinery does, with integers as int64.
func Object(tb testing.TB, text []byte) map[string]any {
	tb.Helper()
	b, err := yaml.YAMLToJSON(text)
	require.NoError(tb, err)
	object := make(map[string]any)
	require.NoError(tb, json.Unmarshal(b, &object))
	return object
}

// Objects returns the objects of a YAML file of the repository.
func Objects(tb testing.TB, name string) (objects []map[string]any) {
	tb.Helper()
	text, err := os.ReadFile(Path(tb, name))
	require.NoError(tb, err)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		objects = append(objects, Object(tb, []byte(document)))
	}
	return objects
}

// Pods returns the Pods of the archives in testdata/inject, as JSON.
func Pods(tb testing.TB) [][]byte {
	tb.Helper()
	var pods [][]byte
	for _, file := range Archives(tb, "testdata/inject") {
		for _, f := range Read(tb, file).Files {
			switch f.Name {
			case "pod.json":
				pods = append(pods, f.Data)
			case "pod.yaml":
				pod, err := yaml.YAMLToJSON(f.Data)
				require.NoError(tb, err)
				pods = append(pods, pod)
			}
		}
	}
	return pods
}

// YAML writes a value.
func YAML(tb testing.TB, value any) []byte {
	tb.Helper()
	b, err := yaml.Marshal(value)
	require.NoError(tb, err)
	return b
}

// Update is a JSON merge patch of an object of a built-in type, and the fields for which the API server rejects it.
type Update struct {
	Object map[string]any `json:"object"`
	Patch  map[string]any `json:"patch"`
	Fields []string       `json:"fields"`
}

// Updates returns the updates in testdata/updates. Each object has a name of its own.
func Updates(tb testing.TB) (updates []Update) {
	tb.Helper()
	text, err := os.ReadFile(Path(tb, "testdata/updates/updates.yaml"))
	require.NoError(tb, err)
	b, err := yaml.YAMLToJSON(text)
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, &updates))
	for i, u := range updates {
		metadata, _ := u.Object["metadata"].(map[string]any)
		metadata["name"] = fmt.Sprintf("%v-%d", metadata["name"], i)
	}
	return updates
}
