package infer

import (
	"regexp"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// wordsOf returns all texts that a value can be, as its type and the literals beside it say; nil if they are not known.
func wordsOf(v Value) (words []string) {
	if len(v.Alternatives) == 0 {
		return v.Type.Enum
	}
	isOfType := false
	for _, a := range v.Alternatives {
		if text, ok := a.Literal.(string); ok {
			words = append(words, text)
			continue
		}
		known := wordsOf(a)
		if len(known) == 0 {
			return nil
		}
		isOfType = true
		words = append(words, known...)
	}
	if !isOfType { // literals are not typed wrong
		return nil
	}
	return words
}

// never reports a text that a value cannot be.
func never(r *Reader, p Part, of ast.Expr, v Value, text string) {
	words := wordsOf(v)
	if len(words) == 0 || text == "" || slices.Contains(words, text) {
		return
	}
	named := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	r.Report(mistake.ImpossibleComparison, p.Node(), "%s is never %q: it is one of %s%s", syntax.SourceOf(of), text,
		strings.Join(named, ", "), types.DidYouMean(text, named))
}

// choice is a pattern of words, as in ^(Succeeded|Failed)$.
var choice = regexp.MustCompile(`^\^\((\w+(?:\|\w+)*)\)\$$`)

// neverMatches reports a pattern that a value cannot match, or a word of a choice that it cannot be.
func neverMatches(r *Reader, p Part, of ast.Expr, v Value, pattern string) {
	if found := choice.FindStringSubmatch(pattern); found != nil {
		for text := range strings.SplitSeq(found[1], "|") {
			never(r, p, of, v, text)
		}
		return
	}
	words := wordsOf(v)
	compiled, err := syntax.CompilePattern(pattern)
	if err != nil || len(words) == 0 || slices.ContainsFunc(words, compiled.MatchString) {
		return
	}
	r.Report(mistake.ImpossibleComparison, p.Node(), "%s never matches %q: it is one of %s", syntax.SourceOf(of),
		pattern, strings.Join(words, ", "))
}

// neverIn reports the texts of a list that a value cannot be, in list.Contains(list, value).
func neverIn(r *Reader, p Part, list, of ast.Expr, v Value) {
	literal, ok := list.(*ast.ListLit)
	if !ok {
		return
	}
	for _, item := range literal.Elts {
		if text, err := syntax.StringLiteral(item); err == nil {
			never(r, p.With(item), of, v, text)
		}
	}
}
