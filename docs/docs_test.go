// Package docs has no code: its tests compare pages with the repository.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fescue-dev/fescue/internal/testing/corpus"
)

// decisionHead is how each decision begins.
var decisionHead = regexp.MustCompile(`^# (\d+): ([A-Z0-9].+[^.])\n\n\*(\d{4}-\d\d-\d\d)\. ((?:Accepted|Superseded by \S+)(?:; partly changed by .+)?)\.\*\n\n`)

const decisionsPage = `# Decisions

For contributors: why Fescue is as it is. Each file records one decision, its reasons, and what else was considered. A
later decision can supersede an earlier one or change a part of it: see the column "status".
%s.

A new decision takes the next number and begins like the others, with its number, a sentence as the title, the date and
the status. ` + "`go test ./docs -update`" + ` writes this page.

| | decision | date | status |
|---|---|---|---|
%s`

// The index lists each decision as its file begins, and the numbers that were not used.
func TestDecisions(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("decisions/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var rows strings.Builder
	var unused []string
	for last, i := 0, 0; i < len(files); i++ {
		text, err := os.ReadFile(files[i])
		require.NoError(t, err)
		head := decisionHead.FindStringSubmatch(string(text))
		require.NotNil(t, head, "%s does not begin like the others", files[i])
		number, err := strconv.Atoi(head[1])
		require.NoError(t, err)
		name := filepath.Base(files[i])
		require.Equal(t, fmt.Sprintf("%04d-", number), name[:5], "the number in %s", name)
		for last++; last < number; last++ {
			unused = append(unused, strconv.Itoa(last))
		}
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(head[4], -1) {
			require.FileExists(t, filepath.Join("decisions", link[1]), "the status of %s", name)
		}
		fmt.Fprintf(&rows, "| %d | [%s](%s) | %s | %s |\n", number, head[2], name, head[3], strings.ToLower(head[4][:1])+head[4][1:])
	}
	note := "No number is missing"
	if n := len(unused); n > 0 {
		note = "Numbers that no decision has: " + strings.Join(unused, ", ")
	}
	corpus.Golden(t, "decisions/README.md", fmt.Sprintf(decisionsPage, note, &rows))
}

// The tests and fuzz targets that security.md names exist in the folders that it names.
func TestAttacksHaveTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("security.md")
	require.NoError(t, err)
	words := regexp.MustCompile("`([a-z0-9/]+)`|\\b((?:Test|Fuzz)[A-Z]\\w*)")
	var named int
	for line := range strings.Lines(string(page)) {
		var folder string
		for _, word := range words.FindAllStringSubmatch(line, -1) {
			if word[2] == "" {
				folder = word[1]
				continue
			}
			named++
			files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
			require.NoError(t, err)
			var source strings.Builder
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				source.Write(text)
			}
			assert.Contains(t, source.String(), "\nfunc "+word[2]+"(", "of the folder %q, in the line: %s", folder, line)
		}
	}
	require.Positive(t, named)
}

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchor    = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// anchorsOf returns the anchors of a page, as GitHub makes them from its headings.
func anchorsOf(page string) map[string]bool {
	anchors, times := make(map[string]bool), make(map[string]int)
	for _, h := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(h[1], "$1")), ""), " ", "-")
		if times[slug]++; times[slug] > 1 {
			slug += fmt.Sprintf("-%d", times[slug]-1)
		}
		anchors[slug] = true
	}
	for _, a := range anchor.FindAllStringSubmatch(page, -1) {
		anchors[a[1]] = true
	}
	return anchors
}

// Each target of make that a page, a workflow or a script calls is in the Makefile.
func TestTargetsOfMakeExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	targets := make(map[string]bool)
	for _, target := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	called := regexp.MustCompile("(?m)(?:^ *|^\\$ |run: |`|&& )make ([a-z][a-z0-9-]*)")
	total := 0
	for _, pattern := range []string{"../*.md", "*.md", "operate/*.md", "tutorial/*.md", "../.github/*/*.yml", "../hack/*.sh"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, call := range called.FindAllStringSubmatch(string(text), -1) {
				total++
				assert.True(t, targets[call[1]], "%s: make %s", file, call[1])
			}
		}
	}
	require.Greater(t, total, 50)
}

// Each link of a page to another one leads to a file that exists, and to an anchor of it.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := make(map[string]string)
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md", "*/*/*.md", "../examples/*.md", "../examples/*/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			pages[file] = string(text)
		}
	}
	require.Greater(t, len(pages), 100)
	for file, page := range pages {
		for _, l := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
			target, fragment, _ := strings.Cut(l[1], "#")
			if strings.Contains(target, ":") {
				continue // it leads elsewhere
			}
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), target)
			}
			_, err := os.Stat(to)
			require.NoError(t, err, "%s: the link %s", file, l[1])
			if text, isPage := pages[to]; isPage && fragment != "" {
				assert.True(t, anchorsOf(text)[fragment], "%s: the link %s leads to no heading", file, l[1])
			}
		}
	}
}
