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
	isRead bool   // it reads its own stored value, as a counter does
	waits  string // for something observed, by its path; empty if for nothing
	at     ast.Node
}

// read notes a field that is read for the field of the status that is checked.
func (f *keptField) read(g given, p infer.Part, e ast.Expr, from, name string) {
	path := from + "." + name
	if path == g.stored {
		f.isRead = true
		return
	}
	child, _, isWithin := strings.Cut(strings.TrimPrefix(from, behaviour.ObservedName+"."), ".")
	isOfChild := strings.HasPrefix(from, behaviour.ObservedName+".") && !strings.Contains(from, "[]")
	if !isOfChild || !isWithin && g.Children[child].set || g.IsTolerant() || isGuarded(p, e) {
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

// advise advises on a field of the status that loses its value whenever it waits: without a value, it is removed.
func (f *keptField) advise(g given) {
	if !f.isRead || f.waits == "" {
		return
	}
	field := strings.TrimPrefix(g.stored, behaviour.ObjectName+".")
	g.adviseOnce(kind.Advice{Check: mistake.LostStatus, Field: field, Position: syntax.PositionOf(f.at),
		Text: fmt.Sprintf("%s keeps its own value, and loses it while %s is absent: write *%[2]s | … with a default",
			field, f.waits)})
}
