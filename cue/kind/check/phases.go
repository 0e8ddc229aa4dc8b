package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue/ast"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/facts"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// phases are those of a kind.
type phases struct{ *Checker }

// checkAll checks the transitions between the phases.
func (c phases) checkAll() {
	declared := c.Definition.Fields["phases"]
	if declared == nil {
		return
	}
	s := c.Gather(declared.Parts)
	reached := map[string]bool{c.kind.Initial: true}
	if onDelete, ok := c.Definition.Text("onDelete"); ok {
		reached[onDelete] = true
	}
	certain := len(s.Others) == 0 && len(s.Dynamic) == 0
	if computed := facts.ComputedPhases(c.kind, s); len(computed) > 0 {
		isTerminal := !slices.ContainsFunc(computed, func(name string) bool { return !c.kind.Phases[name].Terminal })
		for _, d := range s.Dynamic {
			c.transitions("phases[…]", isTerminal, c.Gather([]infer.Part{d.Value}))
		}
	}
	for _, name := range s.Order {
		phase := c.Gather(s.Fields[name].Parts)
		targets, known := c.transitions("phases."+name, c.kind.Phases[name].Terminal, phase)
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
			c.Report(mistake.UnreachablePhase, s.Fields[name].Node,
				"phases.%s: no transition leads to this phase, and it is not the initial one", name)
		}
	}
}

// transitions checks the transitions out of a phase, and returns where they lead; known is false if
// they may lead elsewhere.
func (c phases) transitions(path string, isTerminal bool, phase *infer.Structure) (targets []string, known bool) {
	next := phase.Fields["next"]
	if next == nil {
		if !isTerminal && len(phase.Others) == 0 && len(c.kind.Phases) > 1 {
			c.stays(path, phase)
		}
		return nil, len(phase.Others) == 0
	}
	if isTerminal {
		c.Report(mistake.TerminalPhase, next.Node,
			"%s.next: the phase is terminal, so no transition is taken: remove terminal or next", path)
	}
	known = true
	var lists []infer.Part
	for _, p := range next.Parts {
		if _, ok := p.Expr.(*ast.ListLit); ok {
			lists = append(lists, p)
			continue
		}
		c.Visit(p)
		known = false
	}
	count := 0
	for _, together := range infer.Together(lists) {
		var taken []transition
		for i, parts := range infer.Rows(c.Reader, together) {
			t := c.transition(parts, fmt.Sprintf("%s.next[%d]", path, i))
			count++
			if t.to == "" {
				known = false
				continue
			}
			targets = append(targets, t.to)
			c.repeated(taken, t, path)
			taken = append(taken, t)
		}
	}
	if known && count == 0 && !isTerminal && len(c.kind.Phases) > 1 {
		c.stays(path, phase)
	}
	return targets, known
}

// stays reports a phase that is never left.
func (c phases) stays(path string, phase *infer.Structure) {
	if len(phase.Literals) == 0 {
		return
	}
	c.advice = append(c.advice, kind.Advice{
		Check: mistake.NoWayOut, Field: path, Position: syntax.PositionOf(phase.Literals[0]),
		Text: path + ": no transition leads out of this phase: if it is an end, write terminal: true",
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

// transition checks one transition, which is unified from parts.
func (c phases) transition(parts []infer.Part, path string) transition {
	s := c.Gather(parts)
	var t transition
	t.conditional = slices.ContainsFunc(parts, func(p infer.Part) bool { return p.Conditional || p.Partial })
	t.to, _ = s.Text("to")
	if to := s.Fields["to"]; to != nil {
		t.node = s.ValueNode("to")
		t.conditional = t.conditional || !to.Certain
		c.check(to.Parts, types.Of(types.String), path+".to")
		if _, ok := c.kind.Phases[t.to]; t.to != "" && !ok {
			known := slices.Sorted(maps.Keys(c.kind.Phases))
			c.Report(mistake.UnknownPhase, to.Node, "%s.to: %q must be one of the phases: %s%s", path, t.to,
				strings.Join(known, ", "), types.DidYouMean(t.to, known))
		}
	}
	if when := s.Fields["when"]; when != nil {
		c.check(when.Parts, types.Of(types.Boolean), path+".when")
		t.condition += "when " + sourceOf(when)
		if holds, ok := c.Unified(slices.Clone(when.Parts)).Literal.(bool); ok && !holds {
			c.Report(mistake.NeverTaken, when.Node, "%s.when: never holds", path)
		}
	}
	for _, name := range kind.TimeFields {
		if text := s.Fields[name]; text != nil {
			want := types.Of(types.String)
			if name == "after" {
				want = moment
			}
			c.check(text.Parts, want, path+"."+name)
			t.condition += name + " " + sourceOf(text)
		}
	}
	if after := s.Fields["after"]; after != nil {
		for _, p := range after.Parts {
			t.immediate = c.after(p, path+".after") || t.immediate
		}
		t.immediate = t.immediate && after.Certain && len(s.Fields) == 2
	}
	c.schedule(s, path)
	for _, name := range s.Order {
		if name != "to" && name != "when" && !slices.Contains(kind.TimeFields, name) {
			t.condition += name + " " + sourceOf(s.Fields[name])
			c.check(s.Fields[name].Parts, types.Unknown, path+"."+name)
		}
	}
	return t
}

// sourceOf returns the source of all that a field is unified from.
func sourceOf(m *infer.Member) string {
	var sources []string
	for _, p := range m.Parts {
		sources = append(sources, syntax.SourceOf(p.Expr))
	}
	return strings.Join(sources, " & ")
}

// after checks a time that is computed from parts, and reports whether it has come when the phase is
// entered.
func (c phases) after(p infer.Part, path string) (immediate bool) {
	text, known, ok := c.Text(p, func(v infer.Value) string {
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
			text = syntax.SourceOf(p.Expr)
			c.Report(mistake.InvalidTime, p.Node(),
				"%s: %s is neither a duration like \"5m\" nor a time in RFC 3339, whatever the object is", path, text)
			return false
		}
		c.Report(mistake.InvalidTime, p.Node(), "%s: %v", path, err)
	}
	return false
}

// schedule checks cron, timeZone and the fields beside them, also those of a transition within an if. What an
// if within the transition adds shows with the object.
func (c phases) schedule(s *infer.Structure, path string) {
	texts := make(kind.TimeTexts)
	for _, name := range kind.TimeFields {
		m := s.Fields[name]
		if m == nil {
			continue
		}
		if to := s.Fields["to"]; to == nil || to.Certain != m.Certain || len(m.Parts) > 1 {
			return
		}
		texts[name] = nil
		if text, known, _ := c.Text(m.Parts[0], func(infer.Value) string { return "" }); known && name != "after" {
			texts[name] = &text
		}
	}
	if field, err := texts.Read(&kind.Transition{}); err != nil {
		c.Report(mistake.InvalidTime, s.Fields[field].Node, "%s.%s: %v", path, field, err)
	}
}

// repeated reports a transition that can never be taken, because an earlier one is.
func (c phases) repeated(taken []transition, t transition, path string) {
	for _, earlier := range taken {
		if earlier.immediate && !earlier.conditional {
			c.Report(mistake.NeverTaken, t.node,
				"%s.next: an earlier transition is taken as soon as the phase is entered (%s), so this one is never taken", path, earlier.condition)
			return
		}
		if earlier.condition == t.condition && !earlier.conditional && !t.conditional {
			what := "the same condition"
			if earlier.to == t.to {
				what = "the same condition and target"
			}
			c.Report(mistake.NeverTaken, t.node,
				"%s.next: an earlier transition has %s (%s), so this one is never taken", path, what,
				t.condition)
			return
		}
	}
}
