package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// phases checks the transitions between the phases.
func (c *Checker) phases() {
	declared := c.Controller.Fields["phases"]
	if declared == nil {
		return
	}
	s := c.Gather(declared.Parts)
	reached := map[string]bool{c.kind.Initial: true}
	if onDelete, ok := c.constantOf(c.Controller, "onDelete"); ok {
		reached[onDelete] = true
	}
	certain := len(s.others) == 0 && len(s.dynamic) == 0
	for _, name := range s.Order {
		phase := c.Gather(s.Fields[name].Parts)
		targets, known := c.transitions(name, phase)
		certain = certain && known
		for _, to := range targets {
			reached[to] = reached[to] || to != name
		}
	}
	if !certain {
		return
	}
	for _, name := range s.Order {
		if !reached[name] {
			c.report(s.Fields[name].Node, "phases.%s: no transition leads to this phase, and it is not the initial one", name)
		}
	}
}

// transitions checks the transitions out of a phase, and returns where they lead; known is false if
// they may lead elsewhere.
func (c *Checker) transitions(name string, phase *Structure) (targets []string, known bool) {
	next := phase.Fields["next"]
	facts := c.kind.Phases[name]
	if next == nil {
		if !facts.Terminal && len(phase.others) == 0 && len(c.kind.Phases) > 1 {
			c.stays(name, phase)
		}
		return nil, len(phase.others) == 0
	}
	if facts.Terminal {
		c.report(next.Node, "phases.%s.next: the phase is terminal, so no transition is taken: remove terminal or next", name)
	}
	known = true
	var taken []transition
	count := 0
	for _, p := range next.Parts {
		list, ok := p.expr.(*ast.ListLit)
		if !ok {
			c.visit(p)
			known = false
			continue
		}
		for _, item := range c.items(p, list) {
			t := c.transition(item, fmt.Sprintf("phases.%s.next[%d]", name, count))
			count++
			if t.to == "" {
				known = false
				continue
			}
			targets = append(targets, t.to)
			c.repeated(taken, t, name)
			taken = append(taken, t)
		}
	}
	if known && count == 0 && !facts.Terminal && len(c.kind.Phases) > 1 {
		c.stays(name, phase)
	}
	return targets, known
}

// stays reports a phase that is never left.
func (c *Checker) stays(name string, phase *Structure) {
	if len(phase.literals) == 0 {
		return
	}
	c.advice = append(c.advice, kind.Advice{
		Field: "phases." + name, Position: syntax.PositionOf(phase.literals[0]),
		Text: "phases." + name + ": no transition leads out of this phase: if it is an end, write terminal: true",
	})
}

// transition is one out of a phase.
type transition struct {
	to, condition string
	conditional   bool
	// immediate means that nothing keeps it from being taken at once.
	immediate bool
	node      ast.Node
}

func (c *Checker) transition(p Part, path string) transition {
	s := c.Gather([]Part{p})
	t := transition{node: p.node(), conditional: p.conditional}
	t.to, _ = c.constantOf(s, "to")
	if to := s.Fields["to"]; to != nil {
		t.conditional = t.conditional || !to.certain
		c.check(to.Parts, types.Of(types.String), path+".to")
		if _, ok := c.kind.Phases[t.to]; t.to != "" && !ok {
			known := slices.Sorted(maps.Keys(c.kind.Phases))
			c.report(to.Node, "%s.to: %q must be one of the phases: %s%s", path, t.to, strings.Join(known, ", "), types.DidYouMean(t.to, known))
		}
	}
	if when := s.Fields["when"]; when != nil {
		c.check(when.Parts, types.Of(types.Boolean), path+".when")
		t.condition += "when " + syntax.SourceOf(when.Parts[0].expr)
		if holds, ok := c.Unified(slices.Clone(when.Parts)).literal.(bool); ok && !holds {
			c.report(when.Node, "%s.when: never holds", path)
		}
	}
	for _, name := range kind.TimeFields {
		if text := s.Fields[name]; text != nil {
			c.check(text.Parts, types.Of(types.String), path+"."+name)
			t.condition += name + " " + syntax.SourceOf(text.Parts[0].expr)
		}
	}
	if after := s.Fields["after"]; after != nil {
		t.immediate = c.after(after.Parts[0], path+".after") && len(s.Fields) == 2
	}
	c.schedule(s, path)
	for _, name := range s.Order {
		if name != "to" && name != "when" && !slices.Contains(kind.TimeFields, name) {
			t.condition += name + " " + syntax.SourceOf(s.Fields[name].Parts[0].expr)
			c.check(s.Fields[name].Parts, types.Unknown, path+"."+name)
		}
	}
	return t
}

// after checks a time that is computed from parts, and reports whether it has come when the phase is
// entered.
func (c *Checker) after(p Part, path string) (immediate bool) {
	text, known, ok := c.text(p, func(v Value) string {
		if v.Kinds()&types.String != 0 {
			return "\x00"
		}
		return "1"
	})
	if !ok || strings.Contains(text, "\x00") {
		return false
	}
	if delay, err := time.ParseDuration(text); err == nil && delay <= 0 && known {
		return true
	}
	if _, err := kind.ParseTrigger(text); err != nil {
		if !known {
			text = syntax.SourceOf(p.expr)
			c.report(p.node(), "%s: %s is neither a duration like \"5m\" nor a time in RFC 3339, whatever the object is", path, text)
			return false
		}
		c.report(p.node(), "%s: %v", path, err)
	}
	return false
}

// schedule checks the fields beside cron, also those of a transition within an if. What an if within
// the transition adds shows with the object.
func (c *Checker) schedule(s *Structure, path string) {
	texts := make(kind.TimeTexts)
	for _, name := range kind.TimeFields {
		m := s.Fields[name]
		if m == nil {
			continue
		}
		if to := s.Fields["to"]; to == nil || to.certain != m.certain || len(m.Parts) > 1 {
			return
		}
		texts[name] = nil
		if text, known, _ := c.text(m.Parts[0], func(Value) string { return "" }); known && name != "after" {
			texts[name] = &text
		}
	}
	if field, err := texts.Read(&kind.Transition{}); err != nil {
		c.report(s.Fields[field].Node, "%s.%s: %v", path, field, err)
	}
}

// repeated reports a transition that can never be taken, because an earlier one is.
func (c *Checker) repeated(taken []transition, t transition, phase string) {
	for _, earlier := range taken {
		if earlier.immediate && !earlier.conditional {
			c.report(t.node, "phases.%s.next: an earlier transition is taken as soon as the phase is entered (%s), so this one is never taken", phase, earlier.condition)
			return
		}
		if earlier.condition == t.condition && !earlier.conditional && !t.conditional {
			what := "the same condition"
			if earlier.to == t.to {
				what = "the same condition and target"
			}
			c.report(t.node, "phases.%s.next: an earlier transition has %s (%s), so this one is never taken", phase, what, t.condition)
			return
		}
	}
}
