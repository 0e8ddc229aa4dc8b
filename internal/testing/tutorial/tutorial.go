// Package tutorial runs the pages of docs/tutorial as a reader does: it writes the files that they show, runs their
// commands in order, and compares what is printed with the page.
//
// A fenced block with a title is a file of this name, or in the language diff what changes in that file, with a line
// "…" between two places. A block of the language console has commands after "$ ", each with its output; "…" stands for
// anything in a line, and a line that only has "…" for any lines. The title of such a block says where it runs:
// "cluster" needs a control plane, and a name like "terminal 2" is a terminal of its own, in which the command keeps
// running until ^C or the next command there. Text and diagrams are left to people.
//
// It knows neither kinds nor clusters.
package tutorial

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
	"github.com/fescue-dev/fescue/internal/testing/logtest"
	"github.com/fescue-dev/fescue/internal/testing/testcluster"
)

// Reader reads the tutorial.
type Reader struct {
	// Env is added to the environment of all commands.
	Env []string
	// HasCluster is whether the blocks are run that need a control plane.
	HasCluster bool
	// Before is called with each command before it runs; nil does nothing.
	Before func(dir, command string)
}

// block matches a fenced block: its language, its title and its text.
var block = regexp.MustCompile("(?ms)^```(\\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$")

// Run reads all pages in one folder, one after the other: each needs what those before it have left.
func (r *Reader) Run(t *testing.T) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(corpus.Path(t, "docs/tutorial"), "[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	s := &session{Reader: r, dir: t.TempDir(), terminals: make(map[string]*terminal)}
	t.Cleanup(s.close)
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range block.FindAllStringSubmatchIndex(string(text), -1) {
				part := func(i int) string { return string(text[max(m[i], 0):max(m[i+1], 0)]) }
				s.read(t, part(2), part(4), part(6), 2+strings.Count(string(text[:m[0]]), "\n"))
			}
		})
	}
}

// session is one reading of all pages.
type session struct {
	*Reader
	dir       string
	terminals map[string]*terminal
}

// read does what a block shows, whose text begins at a line of the page.
func (s *session) read(t *testing.T, language, title, text string, line int) {
	t.Helper()
	switch {
	case language == "console" && title == "":
		s.runAll(t, text, line)
	case language == "console" && !s.HasCluster:
	case language == "console" && title == "cluster":
		s.runAll(t, text, line)
	case language == "console":
		require.Regexp(t, `^(\$ |\^C\n$)`, text, "line %d: a command, or what stops the one before", line)
		command, output, _ := strings.Cut(strings.TrimPrefix(text, "$ "), "\n")
		s.keepRunning(t, title, command, output, line)
	case language == "diff":
		s.edit(t, title, text, line)
	case title != "":
		file := filepath.Join(s.dir, filepath.FromSlash(title))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	default:
		require.Contains(t, []string{"text", "mermaid"}, language,
			"line %d: a block that is no file and has no commands", line)
	}
}

// edit changes a file, in which what a block shows before the change stands once.
func (s *session) edit(t *testing.T, title, text string, line int) {
	t.Helper()
	file := filepath.Join(s.dir, filepath.FromSlash(title))
	read, err := os.ReadFile(file)
	require.NoError(t, err)
	content := "\n" + string(read)
	for place := range strings.SplitSeq(text, "…\n") {
		before, after := "\n", "\n"
		for changed := range strings.Lines(place) {
			if changed[0] != '+' {
				before += changed[1:]
			}
			if changed[0] != '-' {
				after += changed[1:]
			}
		}
		require.Equal(t, 1, strings.Count(content, before), "line %d: how often %s has:%s", line, title, before)
		content = strings.Replace(content, before, after, 1)
	}
	require.NoError(t, os.WriteFile(file, []byte(content[1:]), 0o600))
}

// runAll runs the commands of a block. Those after a difference are run as well, to report all differences of a page.
func (s *session) runAll(t *testing.T, text string, line int) {
	t.Helper()
	require.True(t, strings.HasPrefix(text, "$ "), "line %d: a block of commands begins with \"$ \"", line)
	for _, entry := range strings.Split("\n"+text, "\n$ ")[1:] {
		command, output, _ := strings.Cut(entry, "\n")
		printed, err := s.command(command).CombinedOutput()
		if err != nil && len(printed) == 0 { // otherwise, what it printed shows how it ended
			t.Errorf("line %d: $ %s\nfails: %v", line, command, err)
		}
		if !matches(output, string(printed)) {
			t.Errorf("line %d: $ %s\nprints:\n%s\nand the page says:\n%s", line, command, printed, output)
		}
		line += 1 + strings.Count(entry, "\n")
	}
}

// command returns a command of the page, which the shell reads.
func (s *session) command(command string) *exec.Cmd {
	if s.Before != nil {
		s.Before(s.dir, command)
	}
	c := exec.Command("sh", "-c", command)
	c.Dir, c.Env = s.dir, append(os.Environ(), s.Env...)
	return c
}

// terminal has a command that keeps running.
type terminal struct {
	process *os.Process
	done    chan struct{}
}

// stop presses Ctrl-C.
func (o *terminal) stop() {
	_ = o.process.Signal(os.Interrupt)
	<-o.done
}

func (s *session) close() {
	for _, o := range s.terminals {
		o.stop()
	}
}

// keepRunning stops what runs in a terminal, starts a command there, and waits until it has printed what the page
// shows.
func (s *session) keepRunning(t *testing.T, title, command, output string, line int) {
	t.Helper()
	if former, ok := s.terminals[title]; ok {
		former.stop()
		delete(s.terminals, title)
	}
	if command == "^C" {
		return
	}
	c := s.command("exec " + command)
	printed := &logtest.Buffer{}
	c.Stdout, c.Stderr = printed, printed
	require.NoError(t, c.Start())
	o := &terminal{process: c.Process, done: make(chan struct{})}
	s.terminals[title] = o
	go func() {
		_ = c.Wait() // how it ended is in what it printed
		close(o.done)
	}()
	require.True(t, testcluster.WaitUntil(func() bool { return matches(output, printed.String()) }),
		"line %d: $ %s\nprints:\n%s\nand the page says:\n%s", line, command, printed, output)
}

// omission matches what stands for anything in a quoted line, and a space after it.
var omission = regexp.MustCompile("…( ?) *")

// matches reports whether a command has printed what a page says. Spaces at the end of a line do not count, nor how
// many follow on "…" in a column.
func matches(page, printed string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(page) {
		if line = strings.TrimRight(line, " \n"); line == "…" {
			pattern.WriteString(`(?:.*\n)*`)
			continue
		}
		fmt.Fprintf(&pattern, "%s *\n", omission.ReplaceAllString(regexp.QuoteMeta(line), ".*$1"))
	}
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	return regexp.MustCompile(`\A` + pattern.String() + `\z`).MatchString(printed)
}
