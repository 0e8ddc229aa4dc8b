package infer

import (
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/fescue-dev/fescue/cue/kind/place"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// Part is a piece of CUE that a value consists of.
type Part struct {
	Expr ast.Expr
	In   *build.Instance
	// Conditional means that an if or a for is around it; Conditions are those of the ifs, and Loops what the fors go
	// over.
	Conditional       bool
	Conditions, Loops []ast.Expr
	// Constraint means that it only describes a value: that of an optional or required field.
	Constraint bool
	// Partial means that it may be unified with more than is known.
	Partial bool
	// Beyond means that an if or a for around it reads more than the user submits.
	Beyond bool
	// At is where the author refers to it, if it is in a library.
	At ast.Node
}

// With returns an expression that stands in the part.
func (p Part) With(e ast.Expr) Part {
	p.Expr = e
	return p
}

// fields returns the values of fields that stand in the part.
func (p Part) fields(declared []*ast.Field) (parts []Part) {
	for _, f := range declared {
		next := p.With(f.Value)
		next.Constraint = f.Constraint != token.ILLEGAL
		parts = append(parts, next)
	}
	return parts
}

// Node returns the place to report.
func (p Part) Node() ast.Node {
	if pos := p.Expr.Pos(); p.At != nil && (!pos.IsValid() || place.IsLibrary(pos.Filename())) {
		return p.At
	}
	return p.Expr
}

// within returns the part within what is around another one.
func (p Part) within(outer Part) Part {
	p.Conditions, p.Loops = ifs(outer.Conditions, p.Conditions...), ifs(outer.Loops, p.Loops...)
	return p
}

// requires returns the sources of what has to hold or to yield for it to exist.
func (p Part) requires() (sources []string) {
	for _, e := range slices.Concat(p.Conditions, p.Loops) {
		if source := syntax.SourceOf(e); !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	return sources
}

// ifs returns the conditions of ifs around others. Each counts once: a value that refers to itself would have twice as
// many with each reference.
func ifs(outer []ast.Expr, inner ...ast.Expr) []ast.Expr {
	all := slices.Clip(outer)
	for _, condition := range inner {
		if !slices.Contains(all, condition) {
			all = append(all, condition)
		}
	}
	return all
}

// Unembedded returns what a struct that only embeds one value stands for, as in [if c {x}].
func Unembedded(p Part) Part {
	for {
		s, ok := p.Expr.(*ast.StructLit)
		if !ok || len(s.Elts) != 1 {
			return p
		}
		embedded, ok := s.Elts[0].(*ast.EmbedDecl)
		if !ok {
			return p
		}
		p = p.With(embedded.Expr)
	}
}

// IsGuarded reports whether an if around the part mentions an expression, and so may make sure of it.
func (p Part) IsGuarded(e ast.Expr) bool {
	text := syntax.SourceOf(e)
	return slices.ContainsFunc(p.Conditions, func(condition ast.Expr) bool {
		found := false
		ast.Walk(condition, func(n ast.Node) bool {
			if inner, ok := n.(ast.Expr); ok && syntax.SourceOf(inner) == text {
				found = true
			}
			return !found
		}, nil)
		return found
	})
}
