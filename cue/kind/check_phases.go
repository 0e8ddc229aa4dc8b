package kind

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind/types"
)

// phases checks the transitions between the phases.
func (c *checker) phases() {
	declared := c.controller.fields["phases"]
	if declared == nil {
		return
	}
	s := c.gather(declared.parts)
	reached := map[string]bool{c.kind.Initial: true}
	if onDelete, ok := c.constantOf(c.controller, "onDelete"); ok {
		reached[onDelete] = true
	}
	certain := len(s.others) == 0 && len(s.dynamic) == 0
	for _, name := range s.order {
		phase := c.gather(s.fields[name].parts)
		targets, known := c.transitions(name, phase)
		certain = certain && known
		for _, to := range targets {
			reached[to] = reached[to] || to != name
		}
	}
	if !certain {
		return
	}
	for _, name := range s.order {
		if !reached[name] {
			c.report(s.fields[name].node, "phases.%s: no transition leads to this phase, and it is not the initial one", name)
		}
	}
}

// transitions checks the transitions out of a phase, and returns where they lead; known is false if
// they may lead elsewhere.
func (c *checker) transitions(name string, phase *structure) (targets []string, known bool) {
	next := phase.fields["next"]
	facts := c.kind.Phases[name]
	if next == nil {
		if !facts.Terminal && len(phase.others) == 0 && len(c.kind.Phases) > 1 {
			c.stays(name, phase)
		}
		return nil, len(phase.others) == 0
	}
	if facts.Terminal {
		c.report(next.node, "phases.%s.next: the phase is terminal, so no transition is taken: remove terminal or next", name)
	}
	known = true
	var taken []transition
	count := 0
	for _, p := range next.parts {
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
func (c *checker) stays(name string, phase *structure) {
	if len(phase.literals) == 0 {
		return
	}
	c.advice = append(c.advice, Advice{
		Field: "phases." + name, Position: positionOf(phase.literals[0]),
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

func (c *checker) transition(p part, path string) transition {
	s := c.gather([]part{p})
	t := transition{node: p.node(), conditional: p.conditional}
	t.to, _ = c.constantOf(s, "to")
	if to := s.fields["to"]; to != nil {
		t.conditional = t.conditional || !to.certain
		c.check(to.parts, types.Of(types.String), path+".to")
		if _, ok := c.kind.Phases[t.to]; t.to != "" && !ok {
			known := slices.Sorted(maps.Keys(c.kind.Phases))
			c.report(to.node, "%s.to: %q must be one of the phases: %s%s", path, t.to, strings.Join(known, ", "), types.DidYouMean(t.to, known))
		}
	}
	if when := s.fields["when"]; when != nil {
		c.check(when.parts, types.Of(types.Boolean), path+".when")
		t.condition += "when " + sourceOf(when.parts[0].expr)
		if holds, ok := c.unified(slices.Clone(when.parts)).literal.(bool); ok && !holds {
			c.report(when.node, "%s.when: never holds", path)
		}
	}
	for _, name := range timeFields {
		if text := s.fields[name]; text != nil {
			c.check(text.parts, types.Of(types.String), path+"."+name)
			t.condition += name + " " + sourceOf(text.parts[0].expr)
		}
	}
	if after := s.fields["after"]; after != nil {
		t.immediate = c.after(after.parts[0], path+".after") && len(s.fields) == 2
	}
	c.schedule(s, path)
	for _, name := range s.order {
		if name != "to" && name != "when" && !slices.Contains(timeFields, name) {
			t.condition += name + " " + sourceOf(s.fields[name].parts[0].expr)
			c.check(s.fields[name].parts, types.Unknown, path+"."+name)
		}
	}
	return t
}

// after checks a time that is computed from parts, and reports whether it has come when the phase is
// entered.
func (c *checker) after(p part, path string) (immediate bool) {
	text, known, ok := c.text(p, func(v value) string {
		if v.kinds()&types.String != 0 {
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
	if _, err := ParseTrigger(text); err != nil {
		if !known {
			text = sourceOf(p.expr)
			c.report(p.node(), "%s: %s is neither a duration like \"5m\" nor a time in RFC 3339, whatever the object is", path, text)
			return false
		}
		c.report(p.node(), "%s: %v", path, err)
	}
	return false
}

// schedule checks the fields beside cron, also those of a transition within an if. What an if within
// the transition adds shows with the object.
func (c *checker) schedule(s *structure, path string) {
	texts := make(timeTexts)
	for _, name := range timeFields {
		m := s.fields[name]
		if m == nil {
			continue
		}
		if to := s.fields["to"]; to == nil || to.certain != m.certain || len(m.parts) > 1 {
			return
		}
		texts[name] = nil
		if text, known, _ := c.text(m.parts[0], func(value) string { return "" }); known && name != "after" {
			texts[name] = &text
		}
	}
	if field, err := texts.read(&Transition{}); err != nil {
		c.report(s.fields[field].node, "%s.%s: %v", path, field, err)
	}
}

// repeated reports a transition that can never be taken, because an earlier one is.
func (c *checker) repeated(taken []transition, t transition, phase string) {
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
