package kind

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
)

// ownStatus is what a child uses that reads the status.
const ownStatus = objectName + ".status"

// read notes a field that is read for the child that is checked, and advises on one that may be
// absent: the child waits for it.
func (c *checker) read(p part, e ast.Expr, from value, name string) {
	if c.waiting == nil {
		return
	}
	path := from.path + "." + name
	used := name
	if path == ownStatus {
		used = path
	}
	uses := from.path == observedName && name != c.waiting.name || path == ownStatus
	if uses && c.ordering && !slices.Contains(c.kind.Uses[c.waiting.name], used) {
		c.kind.Uses[c.waiting.name] = append(c.kind.Uses[c.waiting.name], used)
	}
	if c.tolerant > 0 {
		return
	}
	switch {
	case from.path == observedName && c.waiting.path == injectName:
		c.report(p.node(), "%s: inject cannot read children: what Pods get is known before there are any", path)
	case from.path == observedName:
		if c.checked != c.waiting.path+".ready" && !c.isGuarded(p, e) { // ready keeps no child from being created
			c.waiting.waits = append(c.waiting.waits, name)
		}
	case len(p.conditions) == 0 && (from.path == objectName+".spec" || strings.HasPrefix(from.path, objectName+".spec.")):
		if field := from.t.Fields[name]; field == nil || field.HasDefault || slices.Contains(from.t.Required, name) {
			return
		}
		consequence := "the child waits"
		if c.waiting.path == injectName {
			consequence = "the object is stalled"
		}
		text := fmt.Sprintf("%s: %s while %s, which is optional, is absent: write *%s | … with a default, or if %s != _|_ {…} around it", c.waiting.path, consequence, path, path, path)
		if !slices.ContainsFunc(c.advice, func(a Advice) bool { return a.Text == text }) {
			c.advice = append(c.advice, Advice{Field: c.waiting.path, Position: positionOf(p.node()), Text: text})
		}
	}
}

// deadlocks advises on children that wait for each other, or for themselves.
func (c *checker) deadlocks() {
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
		c.advice = append(c.advice, Advice{Field: first.path, Position: positionOf(first.node), Text: text})
	}
}

// waitedFor returns the child of a name that has to exist for another; nil if it is not known which.
func (c *checker) waitedFor(child *checkedChild, name string) (found *checkedChild) {
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
