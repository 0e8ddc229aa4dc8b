package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/fescue-dev/fescue/cue/kind/load"
	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/vet"
)

// mistakeMark ends the line that a finding has to be about.
const mistakeMark = "// mistake"

// TestMistakes has fescue vet --kinds check kinds with one beginner's mistake each. An archive of testdata/mistakes has a
// kind without one, kind.cue, and a section for each mistake: comments, how kind.cue is changed, and what vet prints, after >.
// A mistake is found if a line of that is about the line that ends in "// mistake". The command would try each kind in a
// process of its own first: TestOfflineScripts covers that. -update writes what vet prints.
func TestMistakes(t *testing.T) {
	t.Parallel()
	var all, found atomic.Int32
	results := make(map[string][]txtar.File)
	t.Run("all", func(t *testing.T) {
		for _, file := range corpus.Archives(t, "testdata/mistakes") {
			archive := corpus.Read(t, file)
			checked := make([]txtar.File, len(archive.Files))
			results[file] = checked
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				var base string
				for i, section := range archive.Files {
					if section.Name == "kind.cue" {
						base = string(section.Data)
						for line := range strings.Lines(vetted(t, base)) {
							require.Contains(t, line, "advice: ", "a kind without a mistake")
						}
						checked[i] = section
						continue
					}
					t.Run(section.Name, func(t *testing.T) {
						t.Parallel()
						comments, change := readMistake(string(section.Data))
						source := changed(t, base, change)
						wrong := slices.IndexFunc(strings.Split(source, "\n"), func(line string) bool { return strings.HasSuffix(line, mistakeMark) })
						require.NotEqual(t, -1, wrong, "no line ends in %s", mistakeMark)
						printed := vetted(t, source)
						all.Add(1)
						if strings.Contains("\n"+printed, fmt.Sprintf("\nkind.cue:%d:", wrong+1)) {
							found.Add(1)
						} else {
							t.Logf("not found: line %d", wrong+1)
						}
						checked[i] = txtar.File{Name: section.Name, Data: []byte(comments + change + marked(printed))}
					})
				}
			})
		}
	})
	for file, sections := range results {
		corpus.GoldenSections(t, file, sections)
	}
	t.Logf("%d of %d mistakes are found", found.Load(), all.Load())
	require.Equal(t, all.Load(), found.Load(), "each is to be found")
}

// readMistake returns the comments at the beginning of a section, and the change, without what vet prints.
func readMistake(section string) (comments, change string) {
	for line := range strings.Lines(section) {
		switch {
		case strings.HasPrefix(line, "# ") && change == "":
			comments += line
		case !strings.HasPrefix(line, ">"):
			change += line
		}
	}
	return comments, change
}

// changed applies a change to a source: parts like those of diff, with "@@" between them. The lines that each part keeps or
// removes occur once. A change that begins with a package clause is a source of its own.
func changed(t *testing.T, source, change string) string {
	t.Helper()
	if strings.HasPrefix(change, "package ") {
		return change
	}
	result := source
	for part := range strings.SplitSeq(change, "@@\n") {
		var from, to string
		for line := range strings.Lines(part) {
			require.Contains(t, " -+", line[:1], "a line that is kept, removed or added: %q", line)
			if line[0] != '+' {
				from += line[1:]
			}
			if line[0] != '-' {
				to += line[1:]
			}
		}
		require.Equal(t, 1, strings.Count("\n"+source, "\n"+from), "the lines occur once:\n%s", from)
		result = strings.Replace("\n"+result, "\n"+from, "\n"+to, 1)[1:]
	}
	return result
}

// vetted returns what fescue vet prints about a kind, but for fields without a limit.
func vetted(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kind.cue"), []byte(source), 0o600))
	kinds, err := load.Folders(false, nil, load.Folder{Dir: dir})
	require.NoError(t, err)
	v := vet.New(kinds)
	v.Advise(kinds.Added())
	var out, printed strings.Builder
	require.NoError(t, v.Report.Print(&out, "text"))
	for line := range strings.Lines(strings.ReplaceAll(out.String(), dir+"/", "")) {
		if !strings.Contains(line, "advice: no upper limit") {
			printed.WriteString(line)
		}
	}
	return printed.String()
}

// marked returns lines after >.
func marked(lines string) (text string) {
	for line := range strings.Lines(lines) {
		text += ">" + line
	}
	return text
}
