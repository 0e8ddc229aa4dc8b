package check

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// keptField is what is read for a field of the status.
type keptField struct {
	path   string // of its stored value
	isRead bool   // it reads that, as a counter does
	waits  string // for something observed, by its path; empty if for nothing
	at     ast.Node
}

// read notes a field that is read at a place, which may be one that need not exist.
func (f *keptField) read(p infer.Part, e ast.Expr, path string, isTolerant bool) {
	if path == f.path {
		f.isRead = true
		return
	}
	isOfChild := strings.Count(path, ".") > 1 && strings.HasPrefix(path, behaviour.ObservedName+".") &&
		!strings.Contains(path, "[]")
	if !isOfChild || isTolerant || isGuarded(p, e) {
		return
	}
	if f.waits == "" || strings.HasPrefix(path, f.waits+".") {
		f.waits, f.at = path, p.Node()
	}
}

// isGuarded reports whether an if around a part mentions a field, or one that it is in.
func isGuarded(p infer.Part, e ast.Expr) bool {
	for {
		selector, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if p.IsGuarded(e) {
			return true
		}
		e = selector.X
	}
}

// advice returns advice on a field of the status that loses its value whenever it waits: without one, it is removed. It
// is nil for any other field.
func (f *keptField) advice() *kind.Advice {
	if !f.isRead || f.waits == "" {
		return nil
	}
	field := strings.TrimPrefix(f.path, behaviour.ObjectName+".")
	return &kind.Advice{Check: mistake.LostStatus, Field: field, Position: syntax.PositionOf(f.at),
		Text: fmt.Sprintf("%s keeps its own value, and loses it while %s is absent: write *%[2]s | … with a default",
			field, f.waits)}
}
