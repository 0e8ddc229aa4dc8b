// Command prose measures the English of the documentation, and fails if a page is hard to read.
//
// It looks at paragraphs and list items, not at code, tables and headings, and counts for each page the words, "you",
// relative pronouns and passive sentences. Its rules are words: it takes "an attached volume" for no passive and "is
// detailed" for one, so a limit is for a page and not for a sentence.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// The limits for a page: relative pronouns in 100 words, and passive sentences in 100. The Kubernetes documentation
// and that of kro are below them.
const (
	maxRelative = 1.5
	maxPassive  = 15
	// fewSentences is how many a page needs for its share of passive ones to mean something.
	fewSentences = 20
)

var (
	word     = regexp.MustCompile(`[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*`)
	relative = regexp.MustCompile(`(?i)\b(?:that|those|which|whose|whom)\b`)
	you      = regexp.MustCompile(`(?i)\byou(?:rs?|rself)?\b`)
	// passive is a form of "be", at most one adverb, and a participle.
	passive = regexp.MustCompile(
		`(?i)\b(?:am|is|are|was|were|be|been|being)\s+(?:(?:not|never|also|only|always|already|still|now|thus|then)\s+|\w+ly\s+)?(?:\w{2,}ed|` +
			`born|bound|broken|brought|built|caught|chosen|cut|dealt|done|drawn|driven|eaten|fed|found|forgotten|frozen|given|gone|grown|heard|` +
			`held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|overwritten|paid|put|read|reset|rewritten|run|said|seen|sent|set|` +
			`shown|shut|sold|split|spent|stolen|sworn|taken|taught|thrown|told|understood|withdrawn|won|written)\b`)
	// "Author" alone leaves open who is meant: who writes kinds, or who applies objects.
	author      = regexp.MustCompile(`(?i)(?:\bkind[ -])?\bauthors?\b`)
	endSentence = regexp.MustCompile(`[.!?:;](?:["”)]*)\s+`)
)

// A page is what was counted in one file.
type page struct {
	path                                 string
	words, you, relative, passive, total int
	notes                                []string // the sentences that count, each with its line
	mistakes                             []string
}

func main() {
	list := flag.Bool("list", false, "print the sentences that count")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: prose [-list] FILE|DIR...")
		flag.PrintDefaults()
	}
	flag.Parse()
	failed, err := run(flag.Args(), *list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// run prints what it counts in each Markdown file, and reports whether one is beyond a limit.
func run(args []string, list bool) (failed bool, err error) {
	files, err := markdownFiles(args)
	if err != nil {
		return false, err
	}
	fmt.Printf("%-44s %6s %6s %9s %8s\n", "page", "words", "you", "relative", "passive")
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			return false, err
		}
		p := measure(path, source)
		fmt.Printf("%-44s %6d %5.1f%% %8.1f%% %7.0f%%\n", p.path, p.words, percent(p.you, p.words),
			percent(p.relative, p.words), percent(p.passive, p.total))
		if list {
			fmt.Println(strings.Join(p.notes, "\n"))
		}
		for _, m := range p.problems() {
			failed = true
			fmt.Println("  " + m)
		}
	}
	return failed, nil
}

// markdownFiles returns the Markdown files among arguments and below folders, in order.
func markdownFiles(args []string) (files []string, err error) {
	for _, arg := range args {
		err := filepath.WalkDir(arg, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".md") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// problems says which limits a page is beyond.
func (p *page) problems() []string {
	problems := p.mistakes
	if r := percent(p.relative, p.words); r > maxRelative {
		problems = append(problems,
			fmt.Sprintf("%s: %.1f relative pronouns in 100 words, above %.1f: prose -list %[1]s shows them", p.path, r,
				maxRelative))
	}
	if s := percent(p.passive, p.total); s > maxPassive && p.total >= fewSentences {
		problems = append(problems,
			fmt.Sprintf("%s: %.0f passive sentences in 100, above %d: prose -list %[1]s shows them", p.path, s,
				maxPassive))
	}
	return problems
}

// measure counts in a page of Markdown.
func measure(path string, source []byte) *page {
	p := &page{path: path}
	document := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	_ = ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n.Kind() {
		case ast.KindParagraph, ast.KindTextBlock:
			line := 1
			if n.Lines().Len() > 0 {
				line += strings.Count(string(source[:n.Lines().At(0).Start]), "\n")
			}
			p.count(line, plain(n, source))
			return ast.WalkSkipChildren, nil
		case ast.KindHeading, extast.KindTable:
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
	return p
}

// plain returns the text of a node; a piece of code is one word.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.CodeSpan:
			b.WriteString("CODE")
		case *ast.Text:
			b.Write(child.Segment.Value(source))
			if child.SoftLineBreak() || child.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			b.WriteString("LINK")
		default:
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

// count adds a paragraph that starts at a line.
func (p *page) count(line int, paragraph string) {
	for sentence := range strings.SplitSeq(endSentence.ReplaceAllString(paragraph+" ", "$0\x00"), "\x00") {
		if len(word.FindAllString(sentence, -1)) == 0 {
			continue
		}
		p.total++
		p.words += len(word.FindAllString(sentence, -1))
		p.you += len(you.FindAllString(sentence, -1))
		note := ""
		if n := len(relative.FindAllString(sentence, -1)); n > 0 {
			p.relative += n
			note += " relative"
		}
		if passive.MatchString(sentence) {
			p.passive++
			note += " passive"
		}
		if note != "" {
			p.notes = append(p.notes, fmt.Sprintf("  %s:%d:%s: %s", p.path, line, note, strings.TrimSpace(sentence)))
		}
		for _, found := range author.FindAllString(sentence, -1) {
			if !strings.HasPrefix(strings.ToLower(found), "kind") {
				p.mistakes = append(p.mistakes, fmt.Sprintf("%s:%d: %q: write the kind author, or the user: %s", p.path,
					line, found, strings.TrimSpace(sentence)))
			}
		}
	}
}
