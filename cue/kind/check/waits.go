package check

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
)

// read notes a field that is read for the child that is checked, and advises on one that may be
// absent: the child waits for it.
func (c *Checker) read(p Part, e ast.Expr, from Value, name string) {
	if c.waiting == nil {
		return
	}
	path := from.path + "." + name
	used := name
	if path == kind.OwnStatus {
		used = path
	}
	uses := from.path == behaviour.ObservedName && name != c.waiting.name || path == kind.OwnStatus
	if uses && c.ordering && !slices.Contains(c.kind.Uses[c.waiting.name], used) {
		c.kind.Uses[c.waiting.name] = append(c.kind.Uses[c.waiting.name], used)
	}
	if c.tolerant > 0 {
		return
	}
	switch {
	case from.path == behaviour.ObservedName && c.waiting.path == behaviour.InjectName:
		c.report(p.node(), "%s: inject cannot read children: what Pods get is known before there are any", path)
	case from.path == behaviour.ObservedName:
		if c.checked != c.waiting.path+".ready" && !c.isGuarded(p, e) { // ready keeps no child from being created
			c.waiting.waits = append(c.waiting.waits, name)
		}
	case len(p.conditions) == 0 && (from.path == behaviour.ObjectName+".spec" || strings.HasPrefix(from.path, behaviour.ObjectName+".spec.")):
		if field := from.t.Fields[name]; field == nil || field.HasDefault || slices.Contains(from.t.Required, name) {
			return
		}
		consequence := "the child waits"
		if c.waiting.path == behaviour.InjectName {
			consequence = "the object is stalled"
		}
		text := fmt.Sprintf("%s: %s while %s, which is optional, is absent: write *%s | … with a default, or if %s != _|_ {…} around it", c.waiting.path, consequence, path, path, path)
		if !slices.ContainsFunc(c.advice, func(a kind.Advice) bool { return a.Text == text }) {
			c.advice = append(c.advice, kind.Advice{Field: c.waiting.path, Position: syntax.PositionOf(p.node()), Text: text})
		}
	}
}

// deadlocks advises on children that wait for each other, or for themselves.
func (c *Checker) deadlocks() {
	for i, first := range c.kept {
		var follow func(child *checkedChild, path []string, seen map[*checkedChild]bool) []string
		follow = func(child *checkedChild, path []string, seen map[*checkedChild]bool) []string {
			for _, name := range child.waits {
				next := c.waitedFor(child, name)
				switch at := slices.Index(c.kept, next); {
				case next == first:
					return path
				case next == nil || at < i || seen[next]:
					continue
				}
				seen[next] = true
				if cycle := follow(next, append(slices.Clip(path), next.path), seen); cycle != nil {
					return cycle
				}
			}
			return nil
		}
		cycle := follow(first, []string{first.path}, make(map[*checkedChild]bool))
		if cycle == nil {
			continue
		}
		text := fmt.Sprintf("%s wait for each other, so none of them is ever created", strings.Join(cycle, ", "))
		if len(cycle) == 1 {
			text = fmt.Sprintf("%s waits for itself, so it is never created: observed.%s does not exist before", first.path, first.name)
		}
		c.advice = append(c.advice, kind.Advice{Field: first.path, Position: syntax.PositionOf(first.node), Text: text})
	}
}

// waitedFor returns the child of a name that has to exist for another; nil if it is not known which.
func (c *Checker) waitedFor(child *checkedChild, name string) (found *checkedChild) {
	for _, other := range c.kept {
		switch {
		case other.name != name:
		case found != nil || other.phase != "" && child.phase != other.phase:
			return nil // it may be there from another phase
		default:
			found = other
		}
	}
	return found
}
